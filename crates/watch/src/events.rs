//! The kernel's events: a sample of the thread now and then, and accesses to watched bytes. Both
//! arrive as SIGTRAP at the moment that they are about.

use crate::descriptors::{self, Descriptor};
use injected::raw::raw6;
use perf_event_open_sys::bindings::{self as sys, perf_event_attr};
use wire::watch::Header;

/// What distinguishes our signals from others with the same code; the low byte tells which event.
const MARK: u64 = 0x5474_5761_7463_6800;

/// Which event a signal comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Sample,
    /// The watched piece with this index.
    Watched(usize),
}

impl Source {
    fn data(self) -> u64 {
        MARK | match self {
            Self::Sample => 0,
            Self::Watched(k) => k as u64 + 1,
        }
    }

    /// From what came with a signal; none if it is not ours.
    pub fn of(data: u64) -> Option<Self> {
        match (data & !0xff, data & 0xff) {
            (MARK, 0) => Some(Self::Sample),
            (MARK, k) => Some(Self::Watched(k as usize - 1)),
            _ => None,
        }
    }
}

/// A run of bytes that a debug register watches: `bytes` is 1, 2, 4 or 8, and the address a
/// multiple.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Piece {
    pub address: u64,
    pub bytes: u32,
}

fn common(source: Source) -> perf_event_attr {
    let mut attr = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        sig_data: source.data(),
        ..perf_event_attr::default()
    };
    attr.set_sigtrap(1);
    // The kernel insists: the next program knows nothing of our signals.
    attr.set_remove_on_exec(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

/// Starts sampling the calling thread; the error is an errno.
pub fn sample(header: &Header) -> Result<Descriptor, i32> {
    use core::sync::atomic::Ordering::Relaxed;
    let mut attr = common(Source::Sample);
    attr.type_ = header.event_type.load(Relaxed);
    attr.config = header.event_config.load(Relaxed);
    attr.__bindgen_anon_1.sample_period = header.period.load(Relaxed);
    open(&mut attr)
}

fn of_piece(index: usize, piece: Piece) -> perf_event_attr {
    let mut attr = common(Source::Watched(index));
    attr.type_ = sys::PERF_TYPE_BREAKPOINT;
    attr.bp_type = sys::HW_BREAKPOINT_RW;
    attr.__bindgen_anon_1.sample_period = 1;
    attr.__bindgen_anon_3.bp_addr = piece.address;
    attr.__bindgen_anon_4.bp_len = piece.bytes.into();
    attr
}

/// Watches a piece in the calling thread with a debug register of its own; the error is an errno
/// (ENOSPC: none is free).
pub fn watch(index: usize, piece: Piece) -> Result<Descriptor, i32> {
    open(&mut of_piece(index, piece))
}

/// Lets the register of [`watch`] watch another piece.
pub fn watch_instead(descriptor: Descriptor, index: usize, piece: Piece) -> Result<(), i32> {
    let mut attr = of_piece(index, piece);
    control(descriptor, sys::MODIFY_ATTRIBUTES as usize, &raw mut attr as usize)
}

/// Changes how many events there are from sample to sample; false where the kernel refuses.
pub fn set_period(descriptor: Descriptor, period: u64) -> bool {
    control(descriptor, sys::PERIOD as usize, &raw const period as usize).is_ok()
}

/// Switches an event off; it keeps its debug register.
pub fn disable(descriptor: Descriptor) {
    let _ = control(descriptor, sys::DISABLE as usize, 0);
}

fn control(descriptor: Descriptor, what: usize, argument: usize) -> Result<(), i32> {
    let Some(fd) = descriptor.number() else { return Err(libc::EBADF) };
    // SAFETY: the argument is that of the request: nothing, or a valid attribute block.
    let result = unsafe { raw6(libc::SYS_ioctl, fd as usize, what, argument, 0, 0, 0) };
    if result < 0 { Err(-result as i32) } else { Ok(()) }
}

fn open(attr: &mut perf_event_attr) -> Result<Descriptor, i32> {
    let flags = sys::PERF_FLAG_FD_CLOEXEC as usize;
    let attr = &raw mut *attr as usize;
    // SAFETY: a valid attribute block; this thread, on any processor.
    let fd = unsafe { raw6(libc::SYS_perf_event_open, attr, 0, usize::MAX, usize::MAX, flags, 0) };
    if fd < 0 { Err(-fd as i32) } else { descriptors::keep(fd as i32) }
}
