//! Callers, on stacks made by hand and on a real one.

use super::*;
use crate::frames::Frames;
use crate::program::tests::words_at_end;
use core::hint::black_box;

/// The code that runs, and where its callers go on.
const PC: u64 = 0x40_1000;
const BACK: [u64; 3] = [0x40_2000, 0x40_3000, 0x40_4000];

/// By %rsp: how far above it the frame ends, and where below that %rbp is saved; 0 = nowhere.
fn by_rsp(end: u64, saved: i16) -> u64 {
    rule::LEADS_ON | end | u64::from(saved as u16) << rule::RBP_SHIFT
}

fn by_rbp(end: u64, saved: i16) -> u64 {
    by_rsp(end, saved) | rule::BY_RBP
}

/// Functions up the stack: what each runs, its stack pointer, %rbp, end, and return address.
type Climbed = Vec<[u64; 5]>;

/// Climbs from a function with these registers, whose rules are those of `PC`, `BACK[0]`...
fn climbed(low: u64, rbp: u64, rules: &[u64]) -> Climbed {
    let mut modules = Modules::new();
    for (address, rule) in [PC].into_iter().chain(BACK).zip(rules) {
        modules.frames.know(address, *rule);
    }
    let mut registers = Registers { pc: PC, ..Registers::default() };
    (registers.general[RSP], registers.general[RBP]) = (low, rbp);
    let mut all = Vec::new();
    climb(&mut modules, &registers, 8, |r| all.push([r.code, r.low, r.rbp, r.end, r.back]));
    let frames = all.iter().map(|frame| frame[4]).chain([0; 8]).take(8).collect::<Vec<_>>();
    assert_eq!(walk::<8>(&mut modules, &registers).to_vec(), frames);
    all
}

#[test]
fn frames_by_the_stack_pointer_lie_above_each_other() {
    // Two words, and a return address; one word; none.
    let stack = words_at_end(&[1, 2, BACK[0], 3, BACK[1], BACK[2]]);
    let all = climbed(stack, 77, &[by_rsp(24, 0), by_rsp(16, 0), by_rsp(8, 0)]);
    let expected = [
        [PC, stack, 77, stack + 24, BACK[0]],
        [BACK[0] - 1, stack + 24, 77, stack + 40, BACK[1]],
        [BACK[1] - 1, stack + 40, 77, stack + 48, BACK[2]],
    ];
    assert_eq!(all, expected);
}

#[test]
fn frames_by_rbp_follow_what_their_callers_have_saved() {
    let stack = words_at_end(&[1, 2, 0, BACK[0], 3, 0, BACK[1], 4]);
    let saved = [stack + 16, stack + 40, 99];
    // push %rbp; mov %rsp, %rbp: the frame ends two words above it, and begins with it.
    for (at, value) in saved[..2].iter().zip(&saved[1..]) {
        assert_eq!(program::give(*at, &[*value]), 0);
    }
    let all = climbed(stack, saved[0], &[by_rbp(16, -16); 2]);
    let expected = [
        [PC, stack, saved[0], stack + 32, BACK[0]],
        [BACK[0] - 1, stack + 32, saved[1], stack + 56, BACK[1]],
    ];
    assert_eq!(all, expected);
}

#[test]
fn a_function_that_has_saved_rbp_need_not_use_it() {
    // Its caller has the value that lies two words below the frame's end.
    let stack = words_at_end(&[0, 5, BACK[0], 6, BACK[1]]);
    let rbp = stack + 24;
    assert_eq!(program::give(stack, &[rbp]), 0);
    let all = climbed(stack, 1, &[by_rsp(24, -24), by_rbp(16, 0)]);
    assert_eq!(all[1], [BACK[0] - 1, stack + 24, rbp, stack + 40, BACK[1]]);
}

#[test]
fn a_function_that_has_aligned_its_stack_says_where_it_ends() {
    // %rbp points to the caller's %rbp; the word below it says where the frame ends.
    let stack = words_at_end(&[1, 0, 88, 2, 3, BACK[0], BACK[1]]);
    let (rbp, end) = (stack + 16, stack + 48);
    assert_eq!(program::give(rbp - 8, &[end]), 0);
    let aligned = rule::LEADS_ON | rule::BY_RBP | rule::ALIGNED | u64::from(-8i32 as u32);
    let all = climbed(stack, rbp, &[aligned, by_rsp(8, 0)]);
    let expected = [[PC, stack, rbp, end, BACK[0]], [BACK[0] - 1, end, 88, stack + 56, BACK[1]]];
    assert_eq!(all, expected);
    assert!(climbed(stack, 16, &[aligned]).is_empty(), "the word is not there");
}

#[test]
fn a_path_ends_where_no_rule_leads_on() {
    let stack = words_at_end(&[BACK[0], BACK[1]]);
    assert!(climbed(stack, 0, &[8]).is_empty());
    assert_eq!(climbed(stack, 0, &[by_rsp(8, 0), 8]).len(), 1);
    assert_eq!(climbed(stack, 0, &[by_rsp(8, 0); 2]).len(), 2);
}

#[test]
fn what_is_no_frame_ends_the_path() {
    let stack = words_at_end(&[7, BACK[0], 0]);
    let frames = |low, rbp, rule| climbed(low, rbp, &[rule]).len();
    assert_eq!(frames(stack, 0, by_rsp(16, 0)), 1);
    assert_eq!(frames(stack, 0, by_rsp(0, 0)), 0, "no room for a return address");
    assert_eq!(frames(stack, 0, by_rsp(12, 0)), 0, "not aligned");
    assert_eq!(frames(stack, 0, by_rsp(24, 0)), 0, "returns to nowhere");
    assert_eq!(frames(stack, 0, by_rsp(32, 0)), 0, "the return address is not there");
    assert_eq!(frames(stack, 0, by_rsp(16, 8)), 0, "the saved register is not there");
    assert_eq!(frames(stack, stack - 64, by_rbp(16, 0)), 0, "below the stack pointer");
    assert_eq!(frames(stack, stack, by_rbp(16, 0)), 1);
    assert_eq!(frames(stack, stack + MAX_FRAME, by_rbp(16, 0)), 0, "too long");
    assert_eq!(frames(!7, 0, by_rsp(16, 0)), 0, "wraps around");
}

#[test]
fn the_largest_frame_is_one_word_short_of_the_limit() {
    let bytes = MAX_FRAME as usize / 8 + 1;
    let mut words = vec![1; bytes];
    (words[bytes - 3], words[bytes - 2]) = (BACK[0], BACK[0]);
    let stack = words.as_ptr() as u64;
    let frames = |end| climbed(stack, 0, &[by_rsp(end, 0)]).len();
    assert_eq!([MAX_FRAME - 8, MAX_FRAME].map(frames), [1, 0]);
}

#[test]
fn no_more_functions_are_told_of_than_wanted() {
    let stack = words_at_end(&[BACK[0]; 100]);
    let mut modules = Modules::new();
    [PC, BACK[0]].iter().for_each(|at| modules.frames.know(*at, by_rsp(8, 0)));
    let mut registers = Registers { pc: PC, ..Registers::default() };
    registers.general[RSP] = stack;
    for most in [0, 1, 16] {
        let mut told = 0;
        climb(&mut modules, &registers, most, |_| told += 1);
        assert_eq!(told, most);
    }
    assert_eq!(walk::<3>(&mut modules, &registers), [BACK[0]; 3]);
}

/// Return addresses of as many calls of itself, and of the one from outside.
#[inline(never)]
fn recursive(depth: u32) -> [u64; 8] {
    // Not as a last step, which would be a jump.
    black_box(if depth == 0 { walk_from_here() } else { recursive(black_box(depth - 1)) })
}

#[inline(never)]
fn walk_from_here() -> [u64; 8] {
    let mut modules = Modules::new();
    modules.frames = Frames::of_this_program();
    let (pc, rsp, rbp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe {
        core::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
            out(reg) pc, out(reg) rsp, out(reg) rbp, options(nostack, nomem));
    }
    let mut registers = Registers { pc, ..Registers::default() };
    (registers.general[RSP], registers.general[RBP]) = (rsp, rbp);
    walk(&mut modules, &registers)
}

#[test]
fn a_real_stack_is_walked_by_the_programs_own_tables() {
    let [first, calls @ .., outer, beyond] = black_box(recursive(black_box(5)));
    // The call at depth 0, those of itself, which are one place in the code, and what comes next.
    let own = recursive as *const () as u64;
    assert!((own..own + 4096).contains(&first) && first != calls[0]);
    assert_eq!(calls, [calls[0]; 5]);
    assert!((own..own + 4096).contains(&calls[0]));
    let test = a_real_stack_is_walked_by_the_programs_own_tables as *const () as u64;
    assert!((test..test + 4096).contains(&outer) && beyond != 0);
}
