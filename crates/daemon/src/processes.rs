//! What `/proc` says of processes and their threads. Neighbours: `targets` says which processes,
//! `senses/load` looks at their threads.

use std::fs;
use std::path::Path;
use types::CpuSet;

/// Flags of a task (include/linux/sched.h): io_uring's workers, the kernel's own threads.
const IO_WORKER: u64 = 0x10;
const USER_WORKER: u64 = 0x4000;
const KERNEL_THREAD: u64 = 0x20_0000;

/// What `/proc/PID/stat` or a task's says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Its name.
    pub name: String,
    /// Z and X: it has ended.
    pub state: char,
    /// Its parent process.
    pub parent: u32,
    /// The kernel made it, for itself.
    pub kernels: bool,
    /// When it started, ticks since the boot.
    pub started: u64,
    /// The processor that it was on last.
    pub cpu: u32,
}

impl Stat {
    /// Of the thread `tid` of process `pid`; `None` when it is gone.
    pub fn of(pid: u32, tid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name, in parentheses, may hold anything.
        let (before, after) = text.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        // Field 3 of proc(5) is the first one here.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let flags = number(9)?;
        Some(Self {
            name,
            state: fields.first()?.chars().next()?,
            parent: number(4)? as u32,
            kernels: flags & (IO_WORKER | USER_WORKER | KERNEL_THREAD) != 0,
            started: number(22)?,
            cpu: number(39)? as u32,
        })
    }

    /// Whether it still can run.
    pub fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// Processor time of a thread so far, and how long it was ready to run and did not, ns; `None` when
/// it is gone.
pub fn ran_and_waited_ns(pid: u32, tid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// How long these processors have been idle since the boot, in all, ns.
pub fn idle_ns(cpus: &CpuSet) -> u64 {
    idle_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default(), cpus) * tick_ns()
}

fn idle_ticks(stat: &str, cpus: &CpuSet) -> u64 {
    let of = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split(' ');
        let cpu: usize = fields.next()?.parse().ok()?;
        // user, nice, system; then idle, and idle while something waits for a disk.
        let idle =
            fields.skip(3).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
        cpus.contains(cpu).then_some(idle)
    };
    stat.lines().take_while(|line| line.starts_with("cpu")).filter_map(of).sum::<u64>()
}

/// The threads of a process.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// All processes.
pub fn all() -> Vec<u32> {
    numbers(Path::new("/proc"))
}

fn numbers(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let mut found: Vec<u32> = entries.flatten().filter_map(number).collect();
    found.sort_unstable();
    found
}

/// The user that a process runs as; `None` when it is gone.
pub fn user_of(pid: u32) -> Option<u32> {
    // Real, effective, saved, file system.
    status_number(pid, "Uid:", 1)
}

/// The process of a thread; `None` when it is gone.
pub fn process_of(tid: u32) -> Option<u32> {
    status_number(tid, "Tgid:", 0)
}

fn status_number(pid: u32, name: &str, at: usize) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// The command of a process that is gone.
pub const UNKNOWN: &str = "?";

/// The command of a process; its name where it has none.
pub fn command_of(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let first = words.split(|byte| *byte == 0).next().unwrap_or_default();
    match name_of_title(&String::from_utf8_lossy(first)) {
        "" => Stat::of(pid, pid).map_or_else(|| UNKNOWN.into(), |stat| stat.name),
        name => name.into(),
    }
}

/// The program's name in the first word of a command, which servers replace by what they do:
/// `nginx` of `nginx: worker process`, `redis-server` of `/usr/bin/redis-server *:6379`.
fn name_of_title(title: &str) -> &str {
    let path = title.split_once(": ").map_or(title, |(name, _)| name);
    // A folder's name may have blanks.
    let end = path.rfind('/').map_or(0, |at| at + 1);
    let name = &path[end..];
    name.split_once(' ').map_or(name, |(name, _)| name)
}

/// Time since the boot, ns.
pub fn uptime_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Length of a tick of [`Stat::started`], ns.
pub fn tick_ns() -> u64 {
    // SAFETY: no pointers.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1);
    1_000_000_000 / per_second as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_keep_their_name_whatever_they_do() {
        assert_eq!(name_of_title("nginx: master process nginx -c /etc/ng.conf"), "nginx");
        assert_eq!(name_of_title("postgres: me mine [local] idle"), "postgres");
        assert_eq!(name_of_title("/usr/bin/redis-server *:6379"), "redis-server");
        assert_eq!(name_of_title("/opt/My App/bin/app"), "app");
        assert_eq!(name_of_title("./solve"), "solve");
        assert_eq!(name_of_title(""), "");
    }

    #[test]
    fn stat_is_read_behind_any_name() {
        let stat = "7 (a) b) S 3 7 7 0 -1 4194304 0 0 0 0 250 30 0 0 20 0 1 0 555 0 0 0 0 0 0 0 0 0 \
                    0 0 0 0 0 0 17 3 0 0 0 0 0";
        let stat = Stat::parse(stat).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a) b", 'S', 3));
        assert_eq!((stat.started, stat.cpu, stat.kernels, stat.lives()), (555, 3, false, true));
        assert_eq!(Stat::parse("7 (a"), None);
    }

    #[test]
    fn idle_time_is_that_of_the_processors_asked_for() {
        let stat = "cpu  9 9 9 999 9 0\ncpu0 1 2 3 40 5 6 7\ncpu1 1 1 1 100 0 0\ncpu10 0 0 0 7 1 0\n\
                    intr 5 cpu0 9\n";
        let of = |cpus: &[usize]| idle_ticks(stat, &cpus.iter().copied().collect());
        assert_eq!([of(&[0]), of(&[1, 10]), of(&[3])], [45, 108, 0]);
    }

    #[test]
    fn we_are_there_and_others_are_not() {
        let pid = std::process::id();
        let own = Stat::of(pid, pid).unwrap();
        assert!(own.lives() && !own.kernels && own.started * tick_ns() <= uptime_ns());
        assert!(threads(pid).contains(&pid) && all().contains(&pid));
        assert!(ran_and_waited_ns(pid, pid).is_some() && !command_of(pid).is_empty());
        // SAFETY: no preconditions.
        assert_eq!(user_of(pid), Some(unsafe { libc::geteuid() }));
        assert_eq!((Stat::of(u32::MAX / 2, 1), user_of(u32::MAX / 2)), (None, None));
    }
}
