//! Debug registers: how many are free, whether they trap, and whether the trap can be a signal.

use crate::armed::{self, Armed};
use crate::error::PerfError;
use crate::known::Known;
use crate::sys::{self, Attributes};
use perf_event_open_sys::bindings as b;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// More than any processor has.
const MAX: usize = 16;

/// What watchpoints can do here.
#[derive(Clone, PartialEq, Debug)]
pub struct Watchpoints {
    /// How many a thread can have at once.
    pub free: usize,
    /// Whether a write to watched memory was noticed.
    pub traps: bool,
    /// Whether the kernel can send a signal at once (Linux 5.13): what watching inside the program
    /// needs.
    pub signals: bool,
    /// What one that is armed costs; `None` where that is not known.
    pub armed: Option<Armed>,
    /// Why they cannot be used, and what would change that.
    pub why: Option<String>,
}

impl Watchpoints {
    /// Whether a program can watch its own memory.
    pub fn usable(&self) -> bool {
        self.free > 0 && self.traps && self.signals
    }
}

static WATCHED: AtomicU64 = AtomicU64::new(0);

fn attributes(signals: bool) -> Attributes {
    let mut a = Attributes {
        type_: b::PERF_TYPE_BREAKPOINT,
        size: size_of::<Attributes>() as u32,
        bp_type: b::HW_BREAKPOINT_W,
        ..Attributes::default()
    };
    a.bp_addr = &raw const WATCHED as u64;
    a.bp_len = u64::from(b::HW_BREAKPOINT_LEN_8);
    a.read_format =
        u64::from(b::PERF_FORMAT_TOTAL_TIME_ENABLED | b::PERF_FORMAT_TOTAL_TIME_RUNNING);
    a.set_exclude_kernel(1);
    a.set_exclude_hv(1);
    if signals {
        a.sample_period = 1;
        a.set_disabled(1);
        a.set_sigtrap(1);
        a.set_remove_on_exec(1);
    }
    a
}

/// Tries them on the calling thread.
pub(crate) fn probe(known: &mut Known) -> Watchpoints {
    let mut open: Vec<OwnedFd> = Vec::new();
    let mut refused = None;
    while open.len() < MAX {
        match sys::open(&attributes(false), 0, -1) {
            Ok(event) => open.push(event),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    WATCHED.fetch_add(1, Ordering::SeqCst);
    let traps = open.first().and_then(|event| sys::count(event).ok()).is_some_and(|c| c.events > 0);
    let free = open.len();
    drop(open);
    // It is not armed yet.
    let disabled = sys::open(&attributes(true), 0, -1).ok().filter(|_| free > 0);
    let signals = disabled.is_some();
    let armed = disabled.filter(|_| traps);
    let armed = armed.and_then(|event| known.armed(|| armed::measure(&event)));
    let why = match refused {
        Some(error) if free == 0 => Some(match error.raw_os_error() {
            Some(libc::ENOSPC) => {
                "all debug registers are in use: by a debugger, or by perf on all processors".into()
            }
            _ => PerfError::opening("watchpoint", 0, error).to_string(),
        }),
        _ if !traps => {
            Some("they open, but do not notice a write: the hypervisor hides them".into())
        }
        _ if !signals => Some("the kernel cannot send their traps at once; Linux 5.13 can".into()),
        _ => None,
    };
    Watchpoints { free, traps, signals, armed, why }
}
