//! Two threads that hand a line of memory to and fro: what a transfer event must count.

use crate::event::Event;
use crate::sys::{self, Attributes, Count};
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A line of memory of its own, and the next one, which processors fetch with it.
#[repr(align(256))]
struct Line(AtomicU32);

/// How long it may take where virtual processors stand still now and then.
const PATIENCE: Duration = Duration::from_millis(60);

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// Times that the line went over.
    pub handed: u64,
    /// What both threads counted.
    pub events: u64,
}

/// Pairs of processors that we may use, that have the event, and that do not share a core: the
/// nearest one, and one far away, since virtual machines do not always say which of theirs are
/// threads of one core.
pub(crate) fn two_cores(event: &Event) -> Vec<(usize, usize)> {
    let mut allowed = sys::allowed_cpus();
    allowed.retain(|&cpu| event.is_on(cpu as i32));
    let Some(&first) = allowed.first() else { return Vec::new() };
    let path = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    let siblings = sys::cpu_list(&std::fs::read_to_string(path).unwrap_or_default());
    allowed.retain(|&cpu| cpu != first && !siblings.contains(&(cpu as i32)));
    let mut others: Vec<usize> =
        allowed.first().into_iter().chain(allowed.last()).copied().collect();
    others.dedup();
    others.into_iter().map(|other| (first, other)).collect()
}

/// Hands a line over `times`, and counts an event meanwhile; with `apart`, each thread has a line
/// of its own and waits for no other.
pub(crate) fn run(
    attributes: &Attributes,
    cores: (usize, usize),
    times: u32,
    apart: bool,
) -> io::Result<Counted> {
    let lines = [Line(AtomicU32::new(0)), Line(AtomicU32::new(0))];
    let barrier = Barrier::new(2);
    let work = |me: u32, cpu: usize| -> io::Result<(u64, u64)> {
        sys::bind_thread(cpu);
        let event = sys::open(attributes, 0, -1);
        barrier.wait();
        let event = event?;
        sys::enable(&event)?;
        let handed = match apart {
            true => alone(&lines[me as usize].0, times),
            false => together(&lines[0].0, me, times),
        };
        sys::disable(&event)?;
        let Count { events, .. } = sys::count(&event)?;
        Ok((handed, events))
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1, cores.1));
        let first = scope.spawn(|| work(0, cores.0));
        (first.join(), other.join())
    });
    let failed = |_| io::Error::other("a probing thread has failed");
    let (first, second) = (first.map_err(failed)??, second.map_err(failed)??);
    Ok(Counted { handed: first.0 + second.0, events: first.1 + second.1 })
}

/// Waits for each value of one's own parity and writes the next.
fn together(line: &AtomicU32, me: u32, times: u32) -> u64 {
    let start = Instant::now();
    let mut handed = 0;
    let mut mine = me;
    while mine < times {
        let mut spins = 0_u32;
        while line.load(Ordering::Acquire) != mine {
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(4096) {
                if start.elapsed() > PATIENCE {
                    return handed;
                }
                std::thread::yield_now();
            }
        }
        line.store(mine + 1, Ordering::Release);
        handed += 1;
        mine += 2;
    }
    handed
}

fn alone(line: &AtomicU32, times: u32) -> u64 {
    for next in 0..times / 2 {
        line.store(next, Ordering::Release);
        std::hint::black_box(line.load(Ordering::Acquire));
    }
    u64::from(times / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Extras, Rate};

    #[test]
    fn a_line_goes_to_and_fro_between_two_cores() {
        let Some(&cores) = two_cores(&Event::cpu_clock()).first() else {
            return test_support::probe::skip("two threads that hand a line over", "one core");
        };
        let attributes = Event::cpu_clock().attributes(Rate::Never, Extras::default());
        match run(&attributes, cores, 2000, false) {
            Ok(counted) => {
                // On a busy machine it gives up before.
                assert!(counted.handed > 0 && counted.handed <= 2000, "{counted:?}");
                assert!(counted.events > 0, "{counted:?}");
                assert_eq!(run(&attributes, cores, 2000, true).unwrap().handed, 2000);
            }
            Err(error) => test_support::probe::skip("counting", &error.to_string()),
        }
    }
}
