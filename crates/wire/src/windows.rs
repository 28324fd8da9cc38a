//! Windows: accesses are observed in short parts of a run only.
//!
//! The recorder tells all processes by one word, [`Header::phase`](crate::session::Header::phase),
//! which phase it is. Outside of windows nearly every check shall pass, so each thread uses another
//! map of grants then, its *passing map*, in the recording's file. A check that fails there fills
//! the page in question with grants. When a window opens, the recorder empties all passing maps. So
//! each thread's next check fails, and the thread goes over to its own map, which is empty at
//! first.
//!
//! Between windows, threads may also run code without checks (*light*). They change between both
//! kinds of code where that polls [`Header::leave`](crate::session::Header::leave).
//!
//! And they may run the program's own code (*native*), if the recorder can call them back before
//! the next window: see [`native`].
//!
//! A few blocks are *tracked*: they are observed between windows, too, but not in light code. So
//! the last writer of a tracked block is known however long ago it wrote, if no light code has run
//! since. Events are counted there if they are late.

/// Phases, in the low bits of the word; the number of the window is above.
pub mod phase {
    /// Bits of the phase.
    pub const BITS: u32 = 3;
    /// Between two windows: nothing is observed.
    pub const OFF: u32 = 0;
    /// Accesses are observed, but no events are counted: last writers must be known first.
    pub const WARM_UP: u32 = 1;
    /// Events are counted.
    pub const COUNT: u32 = 2;
    /// Between two windows, and nothing is checked: not even tracked blocks are observed.
    pub const LIGHT: u32 = 3;
    /// As [`OFF`], but late events of tracked blocks are counted: the last write came before the
    /// number in the word was last raised.
    pub const LATE: u32 = 4;

    /// The word for a phase of a window. Numbers of windows begin anew after 2^29.
    pub const fn word(window: u32, phase: u32) -> u32 {
        window << BITS | phase
    }
}

/// Which code threads shall leave, a byte for each kind: values of
/// [`Header::leave`](crate::session::Header::leave).
pub mod leave {
    /// Code with checks.
    pub const CHECKED: u32 = 1;
    /// Code without.
    pub const LIGHT: u32 = 1 << 8;
    /// No code, but threads may run the program's own.
    pub const TO_NATIVE: u32 = 1 << 16;
    /// Number of the byte of each.
    pub const CHECKED_BYTE: usize = 0;
    /// See [`CHECKED_BYTE`].
    pub const LIGHT_BYTE: usize = 1;
    /// See [`CHECKED_BYTE`].
    pub const NATIVE_BYTE: usize = 2;
}

/// The word of [`ThreadPage::control`](crate::session::ThreadPage::control) that holds the
/// program's stack pointer as it was when the thread came to the agent last; 0: not yet.
pub const STACK_POINTER: usize = 12;

/// Native time: how the recorder calls threads back from it.
///
/// A thread that goes native says [`AWAY`](native::AWAY) in
/// [`ThreadPage::native`](crate::session::ThreadPage::native), and looks once more whether it may.
/// The recorder forbids it first, and then calls those that are away by a signal. Each system call
/// of the program brings its thread back, too, so a thread that is away is never in a call, and no
/// call is interrupted: the thread waits while the recorder is about to send the signal.
pub mod native {
    /// In the engine's code or the agent's.
    pub const HOME: u32 = 0;
    /// It runs the program's own code.
    pub const AWAY: u32 = 1;
    /// The recorder is about to send the signal.
    pub const CALLING: u32 = 2;
    /// The signal has been sent.
    pub const CALLED: u32 = 3;

    /// The signal that calls a thread back: one of those for programs' own purposes, which few use.
    pub const SIGNAL: i32 = 61;
    /// The value that comes with it, by which it is told from the program's own.
    pub const VALUE: u64 = u64::from_le_bytes(*b"comeback");
}

/// Values of [`Header::windows`](crate::session::Header::windows).
pub mod used {
    /// Accesses are always observed.
    pub const NO: u32 = 0;
    /// In windows, which take a share of time, and of tracked blocks between them; there may be
    /// light code, too.
    pub const SHARE: u32 = 1;
    /// The same within a budget, and threads may run natively between windows.
    pub const BUDGET: u32 = 2;
}

/// Number of the window that a recording begins with, if it begins with one: before it, nothing was
/// written. The first one in the midst of a run has the next number.
pub const FIRST_WINDOW: u32 = 1;

/// Bytes of a passing map: as many as there are places in a map of grants.
pub const PASSING_BYTES: u64 = 1 << 32;

/// Passing maps of a process, at most.
pub const PASSING_MAPS: u64 = 1 << 11;

/// One of so many neighbouring blocks is tracked; a power of two.
pub const TRACKED_OF: u64 = 64;
