//! What the kernel says of threads: where they were last, and how busy they are.

use std::collections::HashMap;
use std::fs::read_to_string;
use std::time::Instant;

/// Processor time of threads at the last look, in ticks, and when that was read; by the kernel's
/// number.
#[derive(Debug, Default)]
pub struct Busy(HashMap<u32, (u64, Instant)>);

impl Busy {
    /// The processor that a thread was on last, and the part of a processor that it has used since
    /// the last look, 0 to 1; `None` and nothing where it is gone.
    pub fn look(&mut self, pid: u32, tid: u32) -> (Option<u32>, f64) {
        let Some(stat) = task_stat(pid, tid) else {
            self.0.remove(&tid);
            return (None, 0.0);
        };
        let now = Instant::now();
        let used = self.0.insert(tid, (stat.ticks, now)).map_or(0.0, |(before, at)| {
            let used = stat.ticks.saturating_sub(before) as f64 / ticks_per_second();
            used / (now - at).as_secs_f64().max(1e-9)
        });
        (Some(stat.cpu), used)
    }
}

/// What `/proc` says of a thread.
struct TaskStat {
    /// User and system time.
    ticks: u64,
    /// Logical processor that it was on last.
    cpu: u32,
}

fn task_stat(pid: u32, tid: u32) -> Option<TaskStat> {
    let stat = read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    parse_stat(&stat)
}

fn parse_stat(stat: &str) -> Option<TaskStat> {
    // The name, in parentheses, may hold anything; the state follows it, which is field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(TaskStat { ticks: field(14)? + field(15)?, cpu: u32::try_from(field(39)?).ok()? })
}

fn ticks_per_second() -> f64 {
    // SAFETY: no pointers.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_processor_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 250 30 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 \
                    17 3 0 0 0 0 0";
        let stat = parse_stat(stat).expect("a line of the kernel's");
        assert_eq!((stat.ticks, stat.cpu), (280, 3));
        let own = task_stat(std::process::id(), std::process::id()).expect("we are there");
        assert!(own.cpu < 8192);
        assert!(parse_stat("7 (a").is_none());
    }
}
