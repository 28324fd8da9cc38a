//! Native time of a process: calls its threads back, and estimates what they did meanwhile.
//!
//! Threads that run the program's own code count nothing. What they executed is estimated by the
//! processor time that the process took: at the rate of the light time that is nearest to the
//! window of its period, and shared out over threads as then. Until that has come, that of the
//! light time before has to do. The window stands for the native time: where the program has come
//! to code that executes less in equal time, it is to stand for less. Light code may be slower than
//! the program's own; by how much, the system calls tell that the process makes in equal processor
//! time, if it makes enough of them, or words in memory that grow with its work, and else the steps
//! that light code makes for the recording.

use super::Process;
use crate::switching::{Code, Place};
use crate::timeline::{self, Sample, join_equal};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use types::tally::{Executed, work};
use windows::{Comparison, Did};
use wire::session::{MAX_THREADS, ThreadPage};
use wire::windows::native::{AWAY, CALLED, CALLING, SIGNAL, VALUE};

/// How many times faster than light code the program's own can be by the steps of light code:
/// compilers were 2.3 times.
const MAX_FASTER: f64 = 3.0;
/// Light time that is long enough to tell a rate by itself, ns of processor time.
const MIN_LIGHT_NS: u64 = 1_000_000;

/// What is known of the native time of a process.
#[derive(Default)]
pub struct NativeTime {
    comparison: Comparison,
    /// Processor time of all light time, and that of its steps, ns.
    light_ns: [u64; 2],
    /// The last light time that is long enough to tell a rate; the present one, while it goes on.
    last: Light,
    present: Option<Light>,
    /// What threads are estimated to have executed natively.
    estimated: BTreeMap<u32, Executed>,
    /// Native slices of the present period, before its window has counted.
    guesses: Vec<Guess>,
    period: u32,
    counted: bool,
}

/// What was estimated of a slice before the light time after it.
struct Guess {
    slice: u32,
    /// Processor time, ns, and the work that threads counted all the same.
    cpu_ns: u64,
    counted: f64,
    added: BTreeMap<u32, Executed>,
}

/// Light time.
#[derive(Default)]
struct Light {
    /// Processor time, ns, and what threads executed in it.
    cpu_ns: u64,
    executed: BTreeMap<u32, Executed>,
}

impl Light {
    /// Adds what comes right after it. What is as long is taken alone: code has settled since.
    fn add(&mut self, cpu_ns: u64, samples: &[Sample]) {
        if cpu_ns >= self.cpu_ns.max(MIN_LIGHT_NS) {
            *self = Self::default();
        }
        self.cpu_ns += cpu_ns;
        for sample in samples {
            timeline::add(self.executed.entry(sample.thread).or_default(), &sample.executed);
        }
    }
}

impl NativeTime {
    /// Notes a slice that is over, what was done in it, and the processor time of steps for the
    /// recording, ns. If it was native, adds the estimated work to its samples.
    pub fn add(&mut self, place: Place, (did, steps_ns): (Did, u64), samples: &mut Vec<Sample>) {
        let (Place { slice, code, .. }, cpu_ns) = (place, did.cpu_ns);
        let first = samples.partition_point(|sample| sample.slice < slice);
        if code != Code::Light || place.period != self.period {
            self.end_light(samples);
        }
        if place.period != self.period {
            self.guesses.clear();
            (self.period, self.counted) = (place.period, false);
        }
        match code {
            Code::Checked => {
                self.comparison.end();
                self.counted |= place.counts;
            }
            Code::Light => {
                self.comparison.light(&did);
                self.light_ns[0] += cpu_ns;
                self.light_ns[1] += steps_ns;
                self.present.get_or_insert_default().add(cpu_ns, &samples[first..]);
            }
            Code::Native => {
                self.comparison.native(&did);
                self.add_native(cpu_ns, slice, first, samples);
            }
        }
    }

    /// Light time is over: from now on, it tells the rate of native time, and so it does for native
    /// time before it in the same period. Once there was light time behind the period's window, no
    /// later one does that.
    fn end_light(&mut self, samples: &mut Vec<Sample>) {
        let Some(light) = self.present.take() else { return };
        if light.cpu_ns < MIN_LIGHT_NS || light.executed.is_empty() {
            return;
        }
        self.last = light;
        self.guess_again(samples);
    }

    /// What threads are estimated to have executed natively, which their pages do not count.
    pub fn into_estimated(self) -> BTreeMap<u32, Executed> {
        self.estimated
    }

    fn add_native(&mut self, cpu_ns: u64, slice: u32, first: usize, samples: &mut Vec<Sample>) {
        let counted = sum(samples[first..].iter().map(|sample| &sample.executed));
        let mut guess = Guess { slice, cpu_ns, counted, added: BTreeMap::new() };
        self.put(&mut guess, samples);
        if !self.counted {
            self.guesses.push(guess);
        }
    }

    /// Light time has come after slices of which there are guesses. That behind the window lies
    /// where what the window counted was done.
    fn guess_again(&mut self, samples: &mut Vec<Sample>) {
        let mut guesses = std::mem::take(&mut self.guesses);
        for guess in &mut guesses {
            let first = samples.partition_point(|sample| sample.slice < guess.slice);
            let of_slice = samples[first..].iter_mut();
            for sample in of_slice.take_while(|sample| sample.slice == guess.slice) {
                if let Some(added) = guess.added.get(&sample.thread) {
                    take(&mut sample.executed, added);
                }
            }
            for (thread, added) in std::mem::take(&mut guess.added) {
                take(self.estimated.entry(thread).or_default(), &added);
            }
            self.put(guess, samples);
        }
        if !self.counted {
            self.guesses = guesses;
        }
    }

    /// Adds what was executed in a slice, by the last light time.
    fn put(&mut self, guess: &mut Guess, samples: &mut Vec<Sample>) {
        let before = sum(self.last.executed.values());
        if self.last.cpu_ns == 0 || before == 0.0 {
            return;
        }
        // Without the time of threads that stayed in light code, in multiples of the last light
        // time.
        let stayed = guess.counted / before;
        let away = (guess.cpu_ns as f64 / self.last.cpu_ns as f64 - stayed).max(0.0);
        let times = away * self.faster();
        let first = samples.partition_point(|sample| sample.slice < guess.slice);
        let mut of_slice = samples.split_off(first);
        let behind = of_slice.partition_point(|sample| sample.slice <= guess.slice);
        let behind = of_slice.split_off(behind);
        for (&thread, &executed) in &self.last.executed {
            let executed = executed.map(|count| (count as f64 * times).round() as u64);
            timeline::add(self.estimated.entry(thread).or_default(), &executed);
            of_slice.push(Sample { slice: guess.slice, thread, executed });
            guess.added.insert(thread, executed);
        }
        join_equal(&mut of_slice);
        samples.extend(of_slice.into_iter().chain(behind));
    }

    /// How many times faster than light code the program's own is.
    fn faster(&self) -> f64 {
        self.comparison.told().slower().unwrap_or_else(|| {
            let [all, steps] = self.light_ns;
            (all as f64 / all.saturating_sub(steps).max(1) as f64).clamp(1.0, MAX_FASTER)
        })
    }
}

/// The work in all of it.
fn sum<'a>(executed: impl Iterator<Item = &'a Executed>) -> f64 {
    executed.map(work).sum::<u64>() as f64
}

/// Takes a part away.
fn take(from: &mut Executed, part: &Executed) {
    from.iter_mut().zip(part).for_each(|(all, part)| *all = all.saturating_sub(*part));
}

/// The kernel's `siginfo_t` of a signal that was sent with a value.
#[repr(C)]
struct Info {
    signal: i32,
    error: i32,
    code: i32,
    _pad: i32,
    pid: i32,
    uid: u32,
    value: u64,
    _rest: [u64; 12],
}

impl Process<'_> {
    /// Calls threads back that run the program's own code.
    pub(super) fn call_home(&self) {
        let Some(shared) = &self.shared else { return };
        let header = shared.header();
        let threads = (header.threads.load(Acquire) as usize).min(MAX_THREADS);
        let (pid, areas) = (header.pid.load(Relaxed), shared.areas.records());
        let new = self.known..threads.max(self.known);
        let live = self.live.iter().map(|thread| *thread as usize);
        live.chain(new).for_each(|thread| call_home(pid, &areas[thread].page));
    }
}

/// Calls a thread of a process back if it is away.
fn call_home(pid: u32, page: &ThreadPage) {
    let native = &page.native;
    if native.load(SeqCst) != AWAY {
        return;
    }
    if native.compare_exchange(AWAY, CALLING, SeqCst, SeqCst).is_err() {
        return;
    }
    let tid = page.tid.load(SeqCst);
    let info = Info {
        signal: SIGNAL,
        error: 0,
        code: libc::SI_QUEUE,
        _pad: 0,
        pid: std::process::id() as i32,
        // SAFETY: asks the kernel for a number.
        uid: unsafe { libc::getuid() },
        value: VALUE,
        _rest: [0; 12],
    };
    // SAFETY: a whole siginfo, which the kernel copies.
    let sent = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, SIGNAL, &info) };
    // One that could not be called is tried again with the next turn.
    let next = if sent == 0 { CALLED } else { AWAY };
    let _ = native.compare_exchange(CALLING, next, SeqCst, SeqCst);
}

const _: () = assert!(size_of::<Info>() == 128);

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
