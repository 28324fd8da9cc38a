//! Callers of allocation functions, chains of calls, and what the plan says of them.
//!
//! What the launcher has answered is kept: for each caller in one word, so that an allocation that
//! the plan does not mean costs one look; for chains in a table that is read without a lock.

use crate::ask::ask;
use crate::mutex::Mutex;
use crate::session::Session;
use crate::ways;
use allocations::chain::{self, Entry, Trace};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use wire::data::{NONE, caller, what};
use wire::objects::FRAMES;

/// log2 of the callers that are kept; places that are looked at.
const CALLER_BITS: u32 = 15;
const NEAR: usize = 8;
/// Chains that are kept: a power of two; places that are looked at.
const CHAINS: usize = 1 << 12;
const CHAIN_NEAR: usize = 32;
/// Functions that allocate for their callers, at most, on the way to one that the plan may mean.
const MAX_PASSED: usize = 2;
/// Frames that are looked at.
pub const LOOKED_AT: usize = FRAMES + MAX_PASSED;

/// Addresses of callers, with what was answered plus 1 in the lowest two bits; 0 = none.
static CALLERS: [AtomicU64; 1 << CALLER_BITS] = [const { AtomicU64::new(0) }; 1 << CALLER_BITS];
/// Goes up when code may have been unloaded.
static UNLOADED: AtomicU32 = AtomicU32::new(0);

/// A chain of calls that has been asked for.
struct Chain {
    /// Its site plus 1 and, from bit 32 on, the digits; 0 = none.
    word: AtomicU64,
    frames: [AtomicU64; FRAMES],
}

static KNOWN: [Chain; CHAINS] =
    [const { Chain { word: AtomicU64::new(0), frames: [const { AtomicU64::new(0) }; FRAMES] } };
        CHAINS];
static ADDING: Mutex = Mutex::new();

/// Stands for "no site" in a word.
const NO_SITE: u64 = u32::MAX as u64;

#[inline(always)]
fn mixed(word: u64) -> u64 {
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(always)]
fn first_place(address: u64) -> usize {
    (mixed(address) >> (64 - CALLER_BITS)) as usize
}

const fn answered(address: u64, answer: u32) -> u64 {
    address << 2 | (answer as u64 + 1)
}

/// Whether it is known that the plan means no block that is allocated from here. One look, which
/// may say no where a longer one would say yes.
#[inline(always)]
pub fn is_other(stack: u64) -> bool {
    // SAFETY: the word that the call has pushed.
    let address = unsafe { *(stack as *const u64) };
    CALLERS[first_place(address)].load(Relaxed) == answered(address, caller::NO)
}

/// Whether the plan may mean a caller, as one of [`caller`].
fn verdict(session: Session, address: u64) -> u32 {
    let first = first_place(address);
    let places = || (first..first + NEAR).map(|place| &CALLERS[place % CALLERS.len()]);
    let known = places().map(|place| place.load(Relaxed)).find(|word| word >> 2 == address);
    if let Some(word) = known {
        return (word & 3) as u32 - 1;
    }
    let mut frames = [0; FRAMES];
    frames[0] = address;
    let unloaded = UNLOADED.load(Acquire);
    let Some(answer) = ask(session, what::CALLER, 0, &frames) else { return caller::NO };
    if UNLOADED.load(Acquire) == unloaded {
        let free = places().find(|place| place.load(Relaxed) == 0);
        let place = free.unwrap_or(&CALLERS[first]);
        place.store(answered(address, answer.min(2)), Relaxed);
    }
    answer
}

/// The site of the plan from which a block is allocated, where this thread has come the same way
/// just before; `Some(None)`: of no site.
#[inline(always)]
pub fn recent(entry: Entry, digits: u32) -> Option<Option<usize>> {
    ways::place(entry, digits).site(entry, digits, UNLOADED.load(Relaxed))
}

/// The same for an entry that is not [`recent`].
#[cold]
pub fn of(session: Session, entry: Entry, digits: u32) -> Option<usize> {
    let unloaded = UNLOADED.load(Relaxed);
    let (trace, answer) = find(session, entry, digits);
    ways::place(entry, digits).keep(trace, digits, unloaded, answer);
    answer
}

/// The site by walking up the stack.
fn find(session: Session, entry: Entry, digits: u32) -> (Trace<LOOKED_AT>, Option<usize>) {
    let all: Trace<LOOKED_AT> = chain::trace(entry);
    let mut passed = 0;
    let mut found = verdict(session, all.frames[0]);
    while found == caller::PASSES_ON && passed < MAX_PASSED && all.frames[passed + 1] != 0 {
        passed += 1;
        found = verdict(session, all.frames[passed]);
    }
    if found != caller::MAYBE {
        return (all, None);
    }
    let frames: [u64; FRAMES] = core::array::from_fn(|k| all.frames[passed + k]);
    let site = known(&frames, digits).unwrap_or_else(|| learn(session, &frames, digits));
    let site = (site != NO_SITE).then_some(site as usize);
    (all, site.filter(|site| *site < session.sites.len()))
}

fn places(frames: &[u64; FRAMES], digits: u32) -> impl Iterator<Item = &'static Chain> {
    let mix = |hash: u64, word: &u64| mixed(hash ^ word).rotate_left(29);
    let first = (frames.iter().fold(u64::from(digits), mix) >> 32) as usize;
    (first..first + CHAIN_NEAR).map(|place| &KNOWN[place % CHAINS])
}

fn known(frames: &[u64; FRAMES], digits: u32) -> Option<u64> {
    let of_chain = |chain: &&Chain| {
        chain.word.load(Acquire) >> 32 == u64::from(digits)
            && chain.frames.iter().zip(frames).all(|(a, b)| a.load(Relaxed) == *b)
    };
    let mut there = places(frames, digits).take_while(|chain| chain.word.load(Acquire) != 0);
    let word = there.find(of_chain)?.word.load(Acquire) as u32;
    Some(if word == 0 { NO_SITE } else { u64::from(word - 1) })
}

/// Asks for a chain, and keeps the answer; its site, or [`NO_SITE`].
fn learn(session: Session, frames: &[u64; FRAMES], digits: u32) -> u64 {
    let unloaded = UNLOADED.load(Acquire);
    let Some(answer) = ask(session, what::CHAIN, digits, frames) else { return NO_SITE };
    ADDING.with(|| {
        let free = places(frames, digits).find(|chain| chain.word.load(Relaxed) == 0);
        let Some(chain) = free.filter(|_| UNLOADED.load(Acquire) == unloaded) else { return };
        chain.frames.iter().zip(frames).for_each(|(to, from)| to.store(*from, Relaxed));
        chain.word.store(u64::from(digits) << 32 | u64::from(answer), Release);
    });
    if answer == 0 { NO_SITE } else { u64::from(answer - 1) }
}

/// The entry of the next block of a site, if the plan has one.
pub fn next_entry(session: Session, site: usize) -> Option<u32> {
    let site = &session.sites[site];
    let first = site.first.load(Relaxed) as usize;
    if site.count.load(Relaxed) == 0 {
        return Some(site.others.load(Relaxed)).filter(|o| (*o as usize) < session.entries.len());
    }
    let ordinal = site.seen.fetch_add(1, Relaxed);
    let numbered = session.entries.get(first..first + site.count.load(Relaxed) as usize)?;
    let found = numbered.binary_search_by_key(&ordinal, |entry| entry.ordinal.load(Relaxed));
    let number = found.map_or(site.others.load(Relaxed), |at| (first + at) as u32);
    (number != NONE && (number as usize) < session.entries.len()).then_some(number)
}

/// Forgets what is known of code, some of which may have been unloaded.
pub fn forget() {
    chain::forget();
    UNLOADED.fetch_add(1, AcqRel);
    CALLERS.iter().for_each(|place| place.store(0, Relaxed));
    ADDING.with(|| KNOWN.iter().for_each(|chain| chain.word.store(0, Release)));
}

/// In a forked child.
pub fn break_open() {
    ADDING.break_open();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::{attached, made};
    use std::sync::atomic::AtomicBool;
    use wire::data::request;

    /// Runs `action` while a launcher answers every question by `answer`; returns how many it got.
    fn answered_by(
        session: Session,
        answer: fn(u32, u32, u64) -> u32,
        action: impl FnOnce(),
    ) -> u32 {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let launcher = scope.spawn(|| {
                let mut count = 0;
                while !over.load(Acquire) {
                    for question in session.requests {
                        if question.state.load(Acquire) != request::ASKED {
                            continue;
                        }
                        count += 1;
                        let [what, digits] =
                            [&question.what, &question.digits].map(|word| word.load(Relaxed));
                        let said = answer(what, digits, question.frames[0].load(Relaxed));
                        question.answer.store(said, Relaxed);
                        question.state.store(request::ANSWERED, Release);
                        let state = question.state.as_ptr();
                        // SAFETY: wakes the threads that wait for the word to change.
                        unsafe { libc::syscall(libc::SYS_futex, state, libc::FUTEX_WAKE, 9) };
                    }
                    std::thread::yield_now();
                }
                count
            });
            action();
            over.store(true, Release);
            launcher.join().unwrap()
        })
    }

    #[test]
    fn a_caller_is_asked_for_once_until_code_is_unloaded() {
        let (_, _alone) = attached();
        let session = made(0, &[]);
        let address = |k: u64| 0x7f12_3456_0000 + k;
        let is_other = |k| {
            let stack = address(k);
            super::is_other(&raw const stack as u64)
        };
        forget();
        let ask_all = || {
            let asked = || [0, 1, 2, 3].map(|k| verdict(session, address(k)));
            assert_eq!(asked(), [caller::NO, caller::MAYBE, caller::PASSES_ON, caller::NO]);
            assert_eq!(asked(), [caller::NO, caller::MAYBE, caller::PASSES_ON, caller::NO]);
        };
        let answer: fn(u32, u32, u64) -> u32 = |_, _, frame| (frame & 3) as u32 % 3;
        assert_eq!(answered_by(session, answer, ask_all), 4);
        assert_eq!([0, 1, 2, 4].map(is_other), [true, false, false, false]);
        forget();
        assert!(!is_other(0));
        assert_eq!(answered_by(session, answer, ask_all), 4);
        // Unloaded while the launcher thinks: what it says may be of other code.
        forget();
        let forgetful: fn(u32, u32, u64) -> u32 = |_, _, _| {
            UNLOADED.fetch_add(1, AcqRel);
            caller::NO
        };
        let count = answered_by(session, forgetful, || {
            (0..2).for_each(|_| assert_eq!(verdict(session, address(0)), caller::NO));
        });
        assert_eq!((count, is_other(0)), (2, false));
    }

    #[test]
    fn a_launcher_that_has_gone_is_asked_for_nothing_and_nothing_is_kept_of_it() {
        let (_, _alone) = attached();
        let session = made(0, &[]);
        forget();
        session.header.closed.store(1, Release);
        assert_eq!(verdict(session, 0x5000), caller::NO);
        assert_eq!(learn(session, &[0x5000; FRAMES], 5), NO_SITE);
        let stack = 0x5000_u64;
        assert!(!is_other(&raw const stack as u64));
        assert_eq!(known(&[0x5000; FRAMES], 5), None);
    }

    #[test]
    fn callers_that_share_places_have_answers_of_their_own() {
        let (_, _alone) = attached();
        let session = made(0, &[]);
        forget();
        // More than there are places near the first one.
        let same: Vec<u64> =
            (1_u64 << 40..).filter(|at| first_place(*at) == 77).take(NEAR + 3).collect();
        let answer: fn(u32, u32, u64) -> u32 = |_, _, frame| (frame % 3) as u32;
        let count = answered_by(session, answer, || {
            for at in same.iter().chain(&same) {
                assert_eq!(u64::from(verdict(session, *at)), at % 3);
            }
        });
        assert!((same.len()..2 * same.len()).contains(&(count as usize)), "{count}");
        forget();
    }

    #[test]
    fn a_chain_is_known_by_all_of_its_frames_and_the_digits() {
        let (_, _alone) = attached();
        let session = made(0, &[]);
        forget();
        let chain = |last: u64| [1, 2, 3, 4, 5, last];
        assert_eq!(known(&chain(6), 10), None);
        let answer: fn(u32, u32, u64) -> u32 = |asked, digits, _| {
            assert_eq!(asked, what::CHAIN);
            digits - 10
        };
        let count = answered_by(session, answer, || {
            assert_eq!(learn(session, &chain(6), 13), 2);
            assert_eq!(learn(session, &chain(7), 10), NO_SITE);
        });
        assert_eq!(count, 2);
        // What is no site is known, too; site 2 was said as 3.
        assert_eq!((known(&chain(6), 13), known(&chain(7), 10)), (Some(2), Some(NO_SITE)));
        assert_eq!((known(&chain(6), 10), known(&chain(7), 13)), (None, None));
        assert_eq!(known(&[1, 2, 3, 4, 6, 6], 13), None);
        forget();
        assert_eq!(known(&chain(6), 13), None);
    }

    #[test]
    fn blocks_get_the_entry_of_their_number_or_that_of_all_others() {
        let session = made(3, &[(0, [].as_slice()); 5]);
        let site = |number: usize, [first, count, others]: [u32; 3]| {
            let site = &session.sites[number];
            site.first.store(first, Relaxed);
            site.count.store(count, Relaxed);
            site.others.store(others, Relaxed);
        };
        let next = |site, n: usize| (0..n).map(|_| next_entry(session, site)).collect::<Vec<_>>();
        // Entries 1 to 3 are of blocks 0, 2 and 5.
        [0, 2, 5].iter().enumerate().for_each(|(k, ordinal)| {
            session.entries[k + 1].ordinal.store(*ordinal, Relaxed);
        });
        site(0, [1, 3, 4]);
        let (others, of) = (Some(4), Some);
        assert_eq!(next(0, 7), [of(1), others, of(2), others, others, of(3), others]);
        site(0, [1, 3, NONE]);
        session.sites[0].seen.store(4, Relaxed);
        assert_eq!(next(0, 3), [None, of(3), None]);
        // Without numbers, blocks need not be counted.
        site(1, [0, 0, 2]);
        assert_eq!((next(1, 2), session.sites[1].seen.load(Relaxed)), (vec![of(2); 2], 0));
        site(1, [0, 0, NONE]);
        assert_eq!(next(1, 1), [None]);
        // Damaged: entries that do not exist.
        site(2, [4, 2, 1]);
        assert_eq!(next(2, 1), [None]);
        site(2, [0, 0, 5]);
        assert_eq!(next(2, 1), [None]);
    }
}
