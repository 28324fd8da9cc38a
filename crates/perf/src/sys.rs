//! The system calls behind events: opening, steering, counting; limits and settings of the kernel.

use perf_event_open_sys::{bindings as b, ioctls, perf_event_open};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub(crate) type Attributes = b::perf_event_attr;

/// Opens an event; `pid` −1 for everything on `cpu`, `cpu` −1 for wherever `pid` runs.
pub(crate) fn open(attributes: &Attributes, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let mut attributes = *attributes;
    let flags = b::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes are complete, live on the stack, and the kernel may write to them.
    let fd = unsafe { perf_event_open(&mut attributes, pid, cpu, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn enable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: the request takes no memory.
    checked(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Enables it for `samples` samples.
pub(crate) fn enable_for(event: &OwnedFd, samples: i32) -> io::Result<()> {
    // SAFETY: the request takes a number.
    checked(unsafe { ioctls::REFRESH(event.as_raw_fd(), samples) })
}

pub(crate) fn disable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: the request takes no memory.
    checked(unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) })
}

/// Lets `event` write into the ring of `output`.
pub(crate) fn set_output(event: &OwnedFd, output: RawFd) -> io::Result<()> {
    // SAFETY: the request takes no memory.
    checked(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), output) })
}

/// The number by which the event's records name it.
pub(crate) fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: the kernel writes one u64 there.
    checked(unsafe { ioctls::ID(event.as_raw_fd(), &mut id) })?;
    Ok(id)
}

/// What an event has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// As counted.
    pub events: u64,
    /// Nanoseconds for which it was to count, and for which it did: less where events share
    /// counters.
    pub enabled_ns: u64,
    /// How long it was counting, ns.
    pub running_ns: u64,
}

impl Count {
    /// The count for all of the time, as if it had gone on in the rest as in what was counted.
    pub fn scaled(self) -> f64 {
        match self.running_ns {
            0 => 0.0,
            running => self.events as f64 * (self.enabled_ns as f64 / running as f64),
        }
    }
}

pub(crate) fn count(event: &OwnedFd) -> io::Result<Count> {
    let mut words = [0_u64; 3];
    // SAFETY: the buffer is live and as long as said.
    let read = unsafe { libc::read(event.as_raw_fd(), words.as_mut_ptr().cast(), 24) };
    match read {
        24 => Ok(Count { events: words[0], enabled_ns: words[1], running_ns: words[2] }),
        0.. => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// CLOCK_MONOTONIC in nanoseconds, the clock of records.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec there; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec there; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of all threads of this process in nanoseconds.
pub(crate) fn process_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec there; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Numbers of the processors that are online.
pub(crate) fn online_cpus() -> Vec<i32> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let found = cpu_list(&list);
    if !found.is_empty() {
        return found;
    }
    // SAFETY: sysconf has no preconditions.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    (0..count.max(1) as i32).collect()
}

/// Numbers of the processors that the calling thread may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpu_list(list.unwrap_or_default()).into_iter().map(|cpu| cpu as usize).collect()
}

/// Binds the calling thread to a processor, if that is allowed.
pub(crate) fn bind_thread(cpu: usize) {
    let mut words = [0_u64; 128];
    if let Some(word) = words.get_mut(cpu / 64) {
        *word = 1 << (cpu % 64);
        // SAFETY: the mask is live and as long as said; 0 is the calling thread.
        unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) };
    }
}

/// `0-3,8` as numbers; what is no number is left out.
pub(crate) fn cpu_list(list: &str) -> Vec<i32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<i32>().ok()?..=last.trim().parse::<i32>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// The limit of open files while it is raised; what it was comes back when this is dropped, because
/// programs that are started inherit it.
#[derive(Debug)]
pub(crate) struct FileLimit {
    before: libc::rlimit,
}

impl FileLimit {
    /// Raises it as far as allowed; nothing if that changes nothing.
    pub fn raise() -> Option<Self> {
        let before = file_limit()?;
        let raised = libc::rlimit { rlim_cur: before.rlim_max, rlim_max: before.rlim_max };
        // SAFETY: the struct is live; lifting the soft limit up to the hard one needs nothing.
        let done = before.rlim_cur < before.rlim_max
            && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0;
        done.then_some(Self { before })
    }

    /// How many files may be open at once.
    pub fn now() -> u64 {
        file_limit().map_or(1024, |limit| limit.rlim_cur)
    }
}

impl Drop for FileLimit {
    fn drop(&mut self) {
        // SAFETY: the struct is live; descriptors above the limit stay open.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &self.before) };
    }
}

fn file_limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit there.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cpu_list("0\n"), [0]);
        assert_eq!(cpu_list(""), Vec::<i32>::new());
    }

    #[test]
    fn counts_are_scaled_to_all_of_the_time() {
        let count = Count { events: 30, enabled_ns: 900, running_ns: 300 };
        assert_eq!(count.scaled(), 90.0);
        assert_eq!(Count::default().scaled(), 0.0);
    }
}
