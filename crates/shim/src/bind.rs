//! Binding threads and reading the bindings back.

use crate::plan::{self, Plan};
use crate::stack;
use crate::sys::{self, Mask};
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use wire::launch::{MASK_WORDS, NONE, Slot, life};

/// Puts a claimed thread where the plan says, unless the OpenMP runtime does. `wished` is the mask
/// that it would have without us: a plan outside that would go against the program's own wish, so
/// the wish is kept and reported.
pub fn bind(plan: Plan, slot: &Slot, tid: u32, wished: &Mask) {
    sys::store(&slot.wished, wished);
    if plan::watches(plan) {
        read_back(tid, &slot.first);
        return slot.life.store(life::WATCHED, Release);
    }
    let Some(planned) = sys::only(slot.pu_os.load(Relaxed)) else { return };
    if !sys::contains(wished, &planned) {
        slot.life.store(life::PROGRAMS_OWN, Release);
        return;
    }
    if slot.life.compare_exchange(life::TAKEN, life::BOUND, AcqRel, Relaxed).is_err() {
        return;
    }
    match sys::set_affinity(tid, &planned) {
        Ok(()) => read_back(tid, &slot.first),
        Err(error) => {
            slot.error.store(error, Relaxed);
            slot.life.store(life::FAILED, Release);
        }
    }
}

/// Binds the initial thread, once. This happens when the first other thread is created, so that a
/// runtime that looks at the machine before has seen all of it.
pub fn bind_initial(plan: Plan) {
    let Some(slot) = plan::initial_slot(plan).map(|i| &plan.slots[i as usize]) else { return };
    if slot.life.load(Acquire) == life::TAKEN {
        bind(plan, slot, sys::pid(), &sys::load(&slot.wished));
    }
}

/// The mask of a thread that the calling thread creates, as it would be without us; `None` when the
/// kernel will do the right thing by itself.
pub fn inherited(plan: Plan, creator: u32) -> Option<Mask> {
    let slot = plan.slots.get(creator as usize)?;
    match slot.life.load(Acquire) {
        life::PROGRAMS_OWN | life::WATCHED => None,
        _ => Some(sys::load(&slot.wished)),
    }
}

fn read_back(tid: u32, into: &[AtomicU64; MASK_WORDS]) {
    if let Some(mask) = sys::affinity(tid) {
        sys::store(into, &mask);
    }
}

/// Stores the name of the calling thread.
pub fn note_own_name(into: &[AtomicU64; 2]) {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes 16 bytes.
    unsafe {
        let option = libc::PR_GET_NAME as usize;
        sys::raw(libc::SYS_prctl, option, name.as_mut_ptr() as usize, 0, 0);
    }
    store_name(into, &name);
}

fn store_name(into: &[AtomicU64; 2], name: &[u8; 16]) {
    for (word, bytes) in into.iter().zip(name.chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8])), Relaxed);
    }
}

/// Key whose destructor runs when a thread of the plan ends, plus 1; 0 before it is created.
static END_KEY: AtomicU32 = AtomicU32::new(0);

/// Has the binding of the calling thread read back when it ends, however it ends.
pub fn watch_end(slot: u32) {
    if slot == NONE {
        return;
    }
    let mut key = END_KEY.load(Acquire);
    if key == 0 {
        let mut fresh: libc::pthread_key_t = 0;
        // SAFETY: a valid pointer, and a destructor with the right signature.
        if unsafe { libc::pthread_key_create(&mut fresh, Some(at_thread_end)) } != 0 {
            return;
        }
        match END_KEY.compare_exchange(0, fresh + 1, AcqRel, Acquire) {
            Ok(_) => key = fresh + 1,
            Err(theirs) => {
                // SAFETY: our own key, which no thread has used.
                unsafe { libc::pthread_key_delete(fresh) };
                key = theirs;
            }
        }
    }
    // SAFETY: a valid key; the value is a number, not an address.
    unsafe { libc::pthread_setspecific(key - 1, (slot as usize + 1) as *const c_void) };
}

unsafe extern "C" fn at_thread_end(value: *mut c_void) {
    let Some(plan) = plan::get() else { return };
    if let Some(slot) = plan.slots.get((value as usize).wrapping_sub(1)) {
        note_own_name(&slot.seen_name);
        read_back(0, &slot.last);
        stack::read_back(slot);
        slot.ended.store(1, Release);
    }
}

/// Reads back the bindings and names of all threads of the plan that still run.
pub fn read_back_all() {
    let Some(plan) = plan::get() else { return };
    for slot in plan.slots {
        let running = slot.life.load(Acquire) >= life::BOUND && slot.ended.load(Relaxed) == 0;
        let tid = slot.tid.load(Relaxed);
        if running && tid != 0 {
            read_back(tid, &slot.last);
            stack::read_back(slot);
            note_name(tid, &slot.seen_name);
        }
    }
    let listed = plan.header.strangers.load(Relaxed) as usize;
    for stranger in plan.strangers.iter().take(listed) {
        note_name(stranger.tid.load(Relaxed), &stranger.seen_name);
    }
}

/// Stores the name of a thread that still runs.
fn note_name(tid: u32, into: &[AtomicU64; 2]) {
    let path = comm_path(tid);
    let mut name = [0u8; 17];
    let Ok(path) = core::ffi::CStr::from_bytes_until_nul(&path) else { return };
    let got = sys::read_file(path, &mut name);
    if got > 0 {
        let mut padded = [0u8; 16];
        let length = name[..got].iter().position(|&b| b == b'\n' || b == 0).unwrap_or(got);
        padded[..length.min(15)].copy_from_slice(&name[..length.min(15)]);
        store_name(into, &padded);
    }
}

/// The file with the name of a thread.
fn comm_path(tid: u32) -> [u8; 32] {
    let mut path = *b"/proc/self/task/0000000000/comm\0";
    let mut rest = tid;
    for digit in path[16..26].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The kernel does not take leading zeroes.
    let zeroes = path[16..26].iter().take_while(|&&d| d == b'0').count();
    path.copy_within(16 + zeroes.., 16);
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::made;

    fn name(of: &[AtomicU64; 2]) -> Vec<u8> {
        of.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect()
    }

    #[test]
    fn a_threads_file_has_its_number_without_leading_zeroes() {
        let path = |tid| {
            let path = comm_path(tid);
            core::ffi::CStr::from_bytes_until_nul(&path).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(path(7), "/proc/self/task/7/comm");
        assert_eq!(path(1_020_300), "/proc/self/task/1020300/comm");
        assert_eq!(path(u32::MAX), "/proc/self/task/4294967295/comm");
    }

    #[test]
    fn names_are_read_by_the_thread_itself_and_by_others() {
        for text in ["x", "fifteen bytes!!", "with\nline"] {
            let builder = std::thread::Builder::new().name(text.into());
            let check = move || {
                let [own, seen] = [(); 2].map(|()| [const { AtomicU64::new(u64::MAX) }; 2]);
                note_own_name(&own);
                note_name(sys::tid(), &seen);
                let expected = format!("{text:\0<16}").into_bytes();
                assert_eq!(name(&own), expected);
                // In the file, the name ends with a line.
                let line = text.split('\n').next().unwrap();
                assert_eq!(name(&seen), format!("{line:\0<16}").into_bytes());
            };
            builder.spawn(check).unwrap().join().unwrap();
        }
        let untouched = [const { AtomicU64::new(5) }; 2];
        note_name(0, &untouched);
        note_name(u32::MAX, &untouched);
        assert!(untouched.iter().all(|word| word.load(Relaxed) == 5));
    }

    #[test]
    fn a_plan_outside_of_what_the_program_wishes_is_not_carried_out() {
        let plan = made(4);
        let slot = |k: usize, pu: u32, life: u32| {
            plan.slots[k].pu_os.store(pu, Relaxed);
            plan.slots[k].life.store(life, Relaxed);
            &plan.slots[k]
        };
        let before = sys::affinity(0);
        let wished = sys::only(70).unwrap();
        let outside = slot(0, 6, life::TAKEN);
        bind(plan, outside, 0, &wished);
        assert_eq!(outside.life.load(Relaxed), life::PROGRAMS_OWN);
        assert!(sys::load(&outside.wished) == wished);
        // Longer than any mask, and a slot whose life has changed meanwhile.
        let beyond = slot(1, 64 * MASK_WORDS as u32, life::TAKEN);
        bind(plan, beyond, 0, &[u64::MAX; MASK_WORDS]);
        assert_eq!(beyond.life.load(Relaxed), life::TAKEN);
        let own = slot(2, 70, life::PROGRAMS_OWN);
        bind(plan, own, 0, &wished);
        assert_eq!(own.life.load(Relaxed), life::PROGRAMS_OWN);
        plan.header.watch.store(1, Relaxed);
        let watched = slot(3, 6, life::TAKEN);
        bind(plan, watched, 0, &wished);
        assert_eq!(watched.life.load(Relaxed), life::WATCHED);
        assert!(Some(sys::load(&watched.first)) == before && sys::affinity(0) == before);
    }

    #[test]
    fn a_binding_is_read_back_and_one_that_the_kernel_refuses_is_reported() {
        let check = || {
            let plan = made(2);
            let all = sys::affinity(0).unwrap();
            let cpu = (0..).find(|cpu| sys::contains(&all, &sys::only(*cpu).unwrap())).unwrap();
            let slots = [cpu, 64 * MASK_WORDS as u32 - 1].map(|cpu| {
                let slot = plan.slots.iter().find(|slot| slot.life.load(Relaxed) == 0).unwrap();
                slot.pu_os.store(cpu, Relaxed);
                slot.life.store(life::TAKEN, Relaxed);
                bind(plan, slot, 0, &[u64::MAX; MASK_WORDS]);
                slot
            });
            let lives = slots.map(|slot| (slot.life.load(Relaxed), slot.error.load(Relaxed)));
            assert_eq!(lives, [(life::BOUND, 0), (life::FAILED, libc::EINVAL as u32)]);
            assert!(Some(sys::load(&slots[0].first)) == sys::only(cpu));
            assert!(sys::affinity(0) == sys::only(cpu));
        };
        // A thread of its own: its mask stays narrow.
        std::thread::spawn(check).join().unwrap();
    }

    #[test]
    fn threads_inherit_what_their_creator_would_have_without_us() {
        let plan = made(1);
        let wished = sys::only(5).unwrap();
        sys::store(&plan.slots[0].wished, &wished);
        for (life, expected) in [
            (life::TAKEN, Some(wished)),
            (life::BOUND, Some(wished)),
            (life::FAILED, Some(wished)),
            (life::PROGRAMS_OWN, None),
            (life::WATCHED, None),
        ] {
            plan.slots[0].life.store(life, Relaxed);
            assert!(inherited(plan, 0) == expected, "{life}");
        }
        assert!(inherited(plan, NONE).is_none() && inherited(plan, 1).is_none());
    }
}
