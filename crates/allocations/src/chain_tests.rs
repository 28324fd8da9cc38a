//! Chains of calls, on stacks made by hand and on a real one.

extern crate std;
use super::*;
use crate::rules::tests::{alone, teach};
use core::ffi::c_void;
use inspect::unwind::rule::{ALIGNED, BY_RBP, LEADS_ON};

/// Return addresses of code that is not there, for which rules are taught.
const A: u64 = 0xa000_0001;
const B: u64 = 0xb000_0001;
const C: u64 = 0xc000_0001;

/// Words of the stack, aligned as it is.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Stack([u64; 32]);

impl Stack {
    fn new() -> Self {
        let mut stack = Self([0xdead; 32]);
        stack.0[0] = A;
        stack
    }

    fn at(&self, word: usize) -> u64 {
        &raw const self.0[word] as u64
    }

    /// Entered at its first word, with the register leading to another one.
    fn entry(&self, rbp: usize) -> Entry {
        Entry { stack: self.at(0), rbp: self.at(rbp) }
    }
}

/// Runs a test on a stack of which it is known where it ends, alone with the rules.
fn on_a_stack(test: fn()) {
    let _alone = alone();
    rules::forget(&LOCK);
    teach(C, 0, 0, 0);
    std::thread::spawn(test).join().unwrap();
    rules::forget(&LOCK);
}

fn frames(entry: Entry) -> [u64; 4] {
    of(entry)
}

#[test]
fn frames_follow_each_other_by_the_stack_pointer() {
    on_a_stack(|| {
        let mut stack = Stack::new();
        // Two words and the return address; then one.
        teach(A, 24, 0, LEADS_ON);
        teach(B, 16, 0, LEADS_ON);
        (stack.0[3], stack.0[5]) = (B, C);
        assert_eq!(frames(stack.entry(0)), [A, B, C, 0]);
        assert_eq!(of::<2>(stack.entry(0)), [A, B]);
        // An outermost frame has no return address.
        stack.0[5] = 0;
        assert_eq!(frames(stack.entry(0)), [A, B, 0, 0]);
    });
}

#[test]
fn a_saved_register_leads_on_from_the_frame_that_restores_it() {
    on_a_stack(|| {
        let mut stack = Stack::new();
        teach(A, 32, -16, LEADS_ON);
        teach(B, 16, -16, LEADS_ON | BY_RBP);
        (stack.0[4], stack.0[3]) = (B, stack.at(8));
        stack.0[9] = C;
        // The register itself leads nowhere.
        let trace: Trace<4> = trace(stack.entry(31));
        assert_eq!(trace.frames, [A, B, C, 0]);
        assert!(trace.is_of(stack.entry(31)) && trace.is_of(stack.entry(0)));
        for (word, told) in [(0, true), (1, false), (2, false), (3, true), (4, true), (9, true)] {
            let before = stack.0[word];
            stack.0[word] += 8;
            assert_eq!(trace.is_of(stack.entry(31)), !told, "{word}");
            stack.0[word] = before;
        }
        // The same calls by a stack that lies elsewhere.
        let mut other = stack;
        assert!(!trace.is_of(other.entry(31)));
        other.0[3] = other.at(8);
        assert!(trace.is_of(other.entry(31)));
    });
}

#[test]
fn the_register_as_it_was_leads_from_the_first_frame_that_needs_it() {
    on_a_stack(|| {
        let mut stack = Stack::new();
        teach(A, 24, 0, LEADS_ON);
        teach(B, 16, 0, LEADS_ON | BY_RBP);
        (stack.0[3], stack.0[11]) = (B, C);
        let trace: Trace<4> = trace(stack.entry(10));
        assert_eq!(trace.frames, [A, B, C, 0]);
        assert!(trace.is_of(stack.entry(10)) && !trace.is_of(stack.entry(12)));
    });
}

#[test]
fn a_function_that_aligns_its_stack_says_where_its_frame_ends() {
    on_a_stack(|| {
        let mut stack = Stack::new();
        teach(A, -8, 0, LEADS_ON | BY_RBP | ALIGNED);
        teach(B, 16, 0, LEADS_ON | BY_RBP);
        // Below where the register leads: the frame's end; there: the caller's register.
        (stack.0[5], stack.0[6]) = (stack.at(9), stack.at(11));
        (stack.0[8], stack.0[12]) = (B, C);
        let trace: Trace<4> = trace(stack.entry(6));
        assert_eq!(trace.frames, [A, B, C, 0]);
        assert!(trace.is_of(stack.entry(6)));
        for word in [5, 6, 8, 12] {
            stack.0[word] += 8;
            assert!(!trace.is_of(stack.entry(6)), "{word}");
            stack.0[word] -= 8;
        }
        // Ends that lie below, or are no words.
        for end in [stack.at(0), stack.at(9) + 1, 0, u64::MAX, stack.at(1) + 7] {
            stack.0[5] = end;
            assert_eq!(frames(stack.entry(6)), [A, 0, 0, 0]);
        }
        // A register that leads out of the stack.
        for rbp in [0, 8, stack.at(0) - 8, stack.at(6) + 1, u64::MAX - 7, u64::MAX] {
            assert_eq!(frames(Entry { rbp, ..stack.entry(0) }), [A, 0, 0, 0], "{rbp:#x}");
        }
    });
}

#[test]
fn what_leads_out_of_the_stack_ends_the_chain() {
    on_a_stack(|| {
        let mut stack = Stack::new();
        stack.0[1..].fill(C);
        for (offset, saved, flags) in [
            // No room for a return address, or none at a word.
            (0, 0, 0),
            (-8, 0, 0),
            (12, 0, 0),
            (i32::MAX & !7, 0, 0),
            (i32::MIN, 0, 0),
            // The register's place above the frame, below the stack, at no word.
            (16, 8, 0),
            (16, -32, 0),
            (16, -12, 0),
            // By a register that leads back, or nowhere.
            (16, 0, BY_RBP),
        ] {
            teach(A, offset, saved, LEADS_ON | flags);
            let entry = Entry { rbp: stack.at(0) - 16, ..stack.entry(0) };
            assert_eq!(frames(entry), [A, 0, 0, 0], "{offset} {saved}");
        }
        teach(A, 16, -16, LEADS_ON);
        assert_eq!(frames(stack.entry(0)), [A, C, 0, 0]);
        teach(A, 16, -16, 0);
        assert_eq!(frames(stack.entry(0)), [A, 0, 0, 0]);
        teach(A, 16, 0, LEADS_ON | BY_RBP);
        for rbp in [u64::MAX, u64::MAX - 7, 0, 1 << 62] {
            assert_eq!(frames(Entry { rbp, ..stack.entry(0) }), [A, 0, 0, 0]);
        }
    });
}

#[test]
fn words_that_find_no_room_are_left_out() {
    let mut trace = Trace::<2>::NONE;
    let entry = Entry { stack: 0x1000, rbp: 0 };
    (0..9).for_each(|k| trace.tell(entry, 0x1000 + k * 8, 0x1000, true));
    assert_eq!(trace.told_count, 6);
    let told = trace.told[1][2];
    assert_eq!((told.above, told.on_stack, told.value), (40, true, 0));
}

const DEPTH: usize = 8;

/// What a walk of ours and one of the C compiler's library have found.
#[repr(C)]
struct Walked {
    entry: Entry,
    ours: [u64; DEPTH],
    again: bool,
    theirs: [*mut c_void; DEPTH + 1],
}

/// Notes where it was entered, as our allocation functions do.
#[unsafe(naked)]
unsafe extern "C" fn enter(_: &mut Walked) {
    core::arch::naked_asm!(
        "mov [rdi], rsp",
        "mov [rdi + 8], rbp",
        "jmp {walk}",
        walk = sym walk,
    )
}

extern "C" fn walk(walked: &mut Walked) {
    let trace: Trace<DEPTH> = trace(walked.entry);
    (walked.ours, walked.again) = (trace.frames, trace.is_of(walked.entry));
    // SAFETY: as much room as said.
    unsafe { libc::backtrace(walked.theirs.as_mut_ptr(), DEPTH as i32 + 1) };
}

#[inline(never)]
fn deep(walked: &mut Walked, depth: usize) -> u64 {
    let local = core::hint::black_box([depth as u64; 5]);
    match depth {
        // SAFETY: the structure that it fills.
        0 => unsafe { enter(walked) },
        _ => _ = deep(walked, depth - 1) + deep_elsewhere(depth),
    }
    local.iter().sum()
}

#[inline(never)]
fn deep_elsewhere(depth: usize) -> u64 {
    core::hint::black_box(depth as u64)
}

#[test]
fn real_frames_are_those_that_the_compilers_library_finds() {
    let _alone = alone();
    rules::forget(&LOCK);
    rules::prepare();
    // SAFETY: a NUL-terminated name.
    let known = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    let walk = || {
        let (entry, theirs) = (Entry { stack: 0, rbp: 0 }, [core::ptr::null_mut(); DEPTH + 1]);
        let mut walked = Walked { entry, ours: [0; DEPTH], again: false, theirs };
        deep(&mut walked, 5);
        (walked.ours, walked.again, walked.theirs.map(|at| at.addr() as u64))
    };
    // By tables that are looked up, then by rules that are kept.
    for _ in 0..2 {
        let (ours, again, theirs) = std::thread::spawn(walk).join().unwrap();
        assert!(again);
        // Before glibc 2.35 only the caller is known.
        let count = if known.is_null() { 1 } else { DEPTH };
        assert_eq!(ours[..count], theirs[1..=count]);
    }
    rules::forget(&LOCK);
}
