//! Questions to the launcher, which reads the program's debugging information for us. Each caller
//! and each chain of calls is asked for once.

use crate::session::{self, Session};
use core::sync::atomic::{AtomicU32, Ordering::*};
use injected::raw::{now_ns, raw6};
use wire::data::{Request, request};
use wire::objects::FRAMES;

/// How long a thread waits for an answer, ns. Debugging information of a large program takes a
/// while to read.
const PATIENCE_NS: i64 = 10_000_000_000;
/// Number of unanswered questions after which no more are asked.
const MAX_UNANSWERED: u32 = 3;
/// How long it sleeps before it looks whether the launcher is still there, ns.
const NAP_NS: i64 = 50_000_000;

/// The answer; `None` where there is none.
pub fn ask(session: Session, what: u32, digits: u32, frames: &[u64; FRAMES]) -> Option<u32> {
    let header = session.header;
    let silent = header.unanswered.load(Relaxed) >= MAX_UNANSWERED;
    if session::is_filtered() {
        header.filtered.fetch_add(1, Relaxed);
        return None;
    }
    if silent || header.closed.load(Acquire) != 0 {
        return None;
    }
    let take = |request: &&Request| {
        let state = &request.state;
        state.compare_exchange(request::FREE, request::TAKEN, AcqRel, Relaxed).is_ok()
    };
    let request = session.requests.iter().find(take)?;
    request.what.store(what, Relaxed);
    request.digits.store(digits, Relaxed);
    request.frames.iter().zip(frames).for_each(|(to, from)| to.store(*from, Relaxed));
    request.state.store(request::ASKED, Release);
    header.asked.fetch_add(1, Release);
    futex(&header.asked, libc::FUTEX_WAKE, 1);
    let until = now_ns() + PATIENCE_NS;
    while request.state.load(Acquire) == request::ASKED {
        futex(&request.state, libc::FUTEX_WAIT, request::ASKED);
        let closed = header.closed.load(Acquire) != 0;
        let state = &request.state;
        if (closed || now_ns() > until)
            && state.compare_exchange(request::ASKED, request::FREE, AcqRel, Acquire).is_ok()
        {
            header.unanswered.fetch_add(1, Relaxed);
            return None;
        }
    }
    let answer = request.answer.load(Relaxed);
    request.state.store(request::FREE, Release);
    Some(answer)
}

/// Shared with another process, so not a private one.
fn futex(word: &AtomicU32, operation: i32, value: u32) {
    let nap = libc::timespec { tv_sec: 0, tv_nsec: NAP_NS };
    let limit = if operation == libc::FUTEX_WAIT { &raw const nap as usize } else { 0 };
    let word = core::ptr::from_ref(word) as usize;
    // SAFETY: a word of the shared memory, and a time limit or none.
    unsafe { raw6(libc::SYS_futex, word, operation as usize, value as usize, limit, 0, 0) };
}
