//! How the stack looks where a call returns to: what leads from a frame to its caller's.
//!
//! The unwind tables of each file (.eh_frame) say it for every instruction, and the C library says
//! where they lie (`_dl_find_object`, glibc 2.35 and newer; elsewhere only the immediate caller is
//! known). What comes of it is one word, and kept.

use crate::lock::Lock;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, Pointer};
use gimli::{UnwindContext, UnwindSection};
use inspect::unwind::{encode, rule};

/// What leads on from a frame: a word of [`rule`]s.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rule(u64);

impl Rule {
    /// Whether there is one.
    pub fn leads_on(self) -> bool {
        self.0 & rule::LEADS_ON != 0
    }

    /// Whether the base is %rbp instead of %rsp.
    pub fn is_by_rbp(self) -> bool {
        self.0 & rule::BY_RBP != 0
    }

    /// Whether where the caller's frame begins stands in the word that [`offset`](Self::offset)
    /// leads to, and the caller's %rbp in the word at the base.
    pub fn is_aligned(self) -> bool {
        self.0 & rule::ALIGNED != 0
    }

    /// From the base to where the caller's frame begins.
    pub fn offset(self) -> i64 {
        i64::from(self.0 as i32)
    }

    /// From there to where the caller's %rbp is; `None`: still in the register.
    pub fn saved(self) -> Option<i64> {
        let at = (self.0 >> rule::RBP_SHIFT) as i16;
        (at != 0).then_some(i64::from(at))
    }
}

/// Rules that are kept, by return address: a power of two.
const PLACES: usize = 1 << 14;
/// Places that are looked at for one.
const NEAR: usize = 8;

struct Place {
    address: AtomicU64,
    word: AtomicU64,
}

static KEPT: [Place; PLACES] =
    [const { Place { address: AtomicU64::new(0), word: AtomicU64::new(0) } }; PLACES];

/// Stands where an address is being replaced.
const CHANGES: u64 = 1;

fn places(address: u64) -> impl Iterator<Item = &'static Place> {
    let first = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize;
    (first..first + NEAR).map(|place| &KEPT[place % PLACES])
}

fn known(address: u64) -> Option<Rule> {
    let place = places(address).find(|place| place.address.load(Acquire) == address)?;
    let word = place.word.load(Acquire);
    (place.address.load(Relaxed) == address && word & rule::KNOWN != 0).then_some(Rule(word))
}

/// Under the lock.
fn keep(address: u64, word: u64) {
    let free = places(address).find(|place| place.address.load(Relaxed) == 0);
    let Some(place) = free.or_else(|| places(address).next()) else { return };
    place.address.store(CHANGES, Relaxed);
    place.word.store(word, Release);
    place.address.store(address, Release);
}

/// Forgets all rules: code may have been unloaded.
pub fn forget(lock: &Lock) {
    lock.with(|| KEPT.iter().for_each(|place| place.address.store(0, Release)));
}

/// The rule for code that a call returns to; `None` where others look for rules right now.
pub fn of(address: u64, lock: &Lock) -> Option<Rule> {
    if let Some(rule) = known(address) {
        return Some(rule);
    }
    lock.with(|| {
        // A call may be the last instruction of its function.
        let word = find(address.wrapping_sub(1)).unwrap_or(0) | rule::KNOWN;
        keep(address, word);
        Rule(word)
    })
}

/// What `_dl_find_object` tells.
#[repr(C)]
struct Found {
    flags: u64,
    start: *const c_void,
    end: *const c_void,
    link_map: *const c_void,
    /// The file's .eh_frame_hdr.
    header: *const u8,
    reserved: [u64; 8],
}

type Find = unsafe extern "C" fn(*const c_void, *mut Found) -> c_int;

static FIND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// The one context for unwinding: it is large.
struct Context(UnsafeCell<Option<UnwindContext<usize>>>);

// SAFETY: used under the lock of `chain` only.
unsafe impl Sync for Context {}

static CONTEXT: Context = Context(UnsafeCell::new(None));

/// Finds what is needed, while there is one thread.
pub fn prepare() {
    // SAFETY: a NUL-terminated name.
    let find = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    // SAFETY: nobody else is here yet.
    unsafe { *CONTEXT.0.get() = Some(UnwindContext::new()) };
    FIND.store(find, Release);
}

fn find(address: u64) -> Option<u64> {
    let function = FIND.load(Acquire);
    if function.is_null() {
        return None;
    }
    // SAFETY: the C library's function, which takes no locks; zeroes are a valid `Found`.
    let found = unsafe {
        let function = core::mem::transmute::<*mut c_void, Find>(function);
        let mut found: Found = core::mem::zeroed();
        (function(address as *const c_void, &mut found) == 0).then_some(found)?
    };
    let (header, end) = (found.header as usize, found.end as usize);
    if header == 0 || header >= end {
        return None;
    }
    let bases = BaseAddresses::default().set_eh_frame_hdr(header as u64);
    // SAFETY: from the tables to the end of the file's memory; they are read where they say that
    // they are.
    let bytes = unsafe { core::slice::from_raw_parts(header as *const u8, end - header) };
    let tables = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).ok()?;
    let Pointer::Direct(start) = tables.eh_frame_ptr() else { return None };
    if !(found.start as u64..found.end as u64).contains(&start) {
        return None;
    }
    let bases = bases.set_eh_frame(start);
    // SAFETY: as above.
    let bytes =
        unsafe { core::slice::from_raw_parts(start as *const u8, (end as u64 - start) as usize) };
    let frames = EhFrame::new(bytes, LittleEndian);
    let table = tables.table()?;
    let fde = table.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
    // SAFETY: under the lock.
    let context = unsafe { (*CONTEXT.0.get()).as_mut() }?;
    let row = fde.unwind_info_for_address(&frames, &bases, context, address).ok()?;
    encode(row, &frames)
}

#[cfg(test)]
pub(crate) mod tests {
    extern crate std;
    use super::*;
    use std::sync::{Mutex, MutexGuard};

    /// Who has it is alone with the rules that are kept.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A rule for code that is not there, instead of the one before.
    pub(crate) fn teach(address: u64, offset: i32, saved: i16, flags: u64) {
        let words = u64::from(offset as u32) | u64::from(saved as u16) << rule::RBP_SHIFT;
        let before = places(address).filter(|place| place.address.load(Relaxed) == address);
        before.for_each(|place| place.address.store(0, Relaxed));
        keep(address, words | flags | rule::KNOWN);
    }

    #[test]
    fn a_rule_is_read_as_it_was_encoded() {
        let _alone = alone();
        let rule = |offset, saved, flags| {
            teach(0x1234_5678, offset, saved, flags);
            let rule = known(0x1234_5678).unwrap();
            let flags = [rule.leads_on(), rule.is_by_rbp(), rule.is_aligned()];
            (rule.offset(), rule.saved(), flags)
        };
        assert_eq!(rule(8, 0, rule::LEADS_ON), (8, None, [true, false, false]));
        assert_eq!(rule(i32::MAX, -16, 0), (i32::MAX.into(), Some(-16), [false; 3]));
        let both = rule::BY_RBP | rule::ALIGNED;
        assert_eq!(rule(-8, i16::MIN, both), (-8, Some(i16::MIN.into()), [false, true, true]));
        assert_eq!(rule(i32::MIN, i16::MAX, rule::BY_RBP).0, i32::MIN.into());
    }

    #[test]
    fn rules_of_addresses_that_share_places_are_not_mixed_up() {
        let _alone = alone();
        let first = |address| core::ptr::from_ref(places(address).next().unwrap());
        let wanted = first(0x7000_0000);
        let same = (0x7000_0000_u64..).filter(|at| first(*at) == wanted).take(NEAR + 4);
        let same: std::vec::Vec<u64> = same.collect();
        forget(&Lock::new());
        for (k, address) in same.iter().enumerate() {
            assert!(known(*address).is_none());
            teach(*address, k as i32, 0, 0);
            assert_eq!(known(*address).unwrap().offset(), k as i64);
        }
        // Later ones push others out, and no more than one each.
        let left: std::vec::Vec<i64> =
            same.iter().filter_map(|at| known(*at)).map(Rule::offset).collect();
        assert!(left.len() == NEAR && left.contains(&(NEAR as i64 + 3)));
        forget(&Lock::new());
        assert!(!same.iter().any(|at| known(*at).is_some()));
    }

    #[test]
    fn an_address_is_looked_up_once_also_where_there_is_no_code() {
        let _alone = alone();
        let lock = Lock::new();
        forget(&lock);
        assert!(!of(0x10, &lock).unwrap().leads_on());
        // Known by now, so the lock is not needed.
        assert_eq!(
            lock.with(|| (of(0x10, &lock).is_some(), of(0x20, &lock).is_some())),
            Some((true, false))
        );
        forget(&lock);
    }
}
