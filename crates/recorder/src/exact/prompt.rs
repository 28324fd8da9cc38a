//! Makes the thread that switches windows run when it is time to.
//!
//! On busy processors, a thread that wakes waits for others, which run for some milliseconds each:
//! as long as a window takes. The thread that switches runs for some microseconds, so that it may
//! go first costs the others nothing.

/// The kernel's `struct sched_attr`, first version.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// How long the thread asks to run at once, ns: the shortest that Linux allows. The next deadline
/// runs first (EEVDF; since Linux 6.12, threads may ask).
const SLICE_NS: u64 = 100_000;
/// Where that is allowed, as root.
const NICE: i32 = -10;

/// Lets the calling thread run as soon as it wakes, as far as the system allows.
pub fn be_prompt() {
    // SAFETY: without pointers.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let _ = ask(NICE.min(nice)) || ask(nice);
}

/// Asks for a niceness and a short slice; whether they were given.
fn ask(nice: i32) -> bool {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime: SLICE_NS,
        deadline: 0,
        period: 0,
    };
    // SAFETY: of the calling thread; the pointer is to attributes of the size that they tell.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, which alone changes.
    #[test]
    fn a_thread_may_always_ask_for_its_own_niceness() {
        // SAFETY: no pointers.
        let own = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = own();
        std::thread::spawn(move || {
            assert!(ask(before), "{}", std::io::Error::last_os_error());
            be_prompt();
            assert!(own() <= before);
        })
        .join()
        .unwrap();
        assert_eq!(own(), before);
    }
}
