use super::*;
use crate::decode::liveness::{self, Live};
use crate::options::Options;
use iced_x86::{Decoder, DecoderOptions};

fn plan_of(bytes: &[u8], disabled: u32) -> Vec<Check> {
    plan_as(Mode::Matrix, bytes, disabled)
}

fn plan_as(mode: Mode, bytes: &[u8], disabled: u32) -> Vec<Check> {
    let all: Vec<Instruction> = Decoder::new(64, bytes, DecoderOptions::NONE).iter().collect();
    let nothing = Live { regs: 0, flags: 0 };
    let live = liveness::analyse(&all, nothing, &mut |_| Live::ALL, true, false);
    let options = Options::new(mode, 6, disabled);
    let surveyed = survey(&all, &live, &options);
    plan(&surveyed, &surveyed.accesses, &live, &options, &|_| false)
}

/// mov rax, [rdi + d]
fn load(d: u8) -> [u8; 4] {
    [0x48, 0x8b, 0x47, d]
}

/// Lowest byte and span of each check.
fn windows_of(checks: &[Check]) -> Vec<(i64, i64)> {
    checks.iter().map(|c| (c.displacement, c.span)).collect()
}

/// Addresses that are asked about, the second only in case they are not aligned.
fn probed(checks: &[Check]) -> Vec<i64> {
    let both = |c: &Check| [Some(c.displacement), c.may_cross.then(|| c.end() - 1)];
    checks.iter().flat_map(both).flatten().collect()
}

#[test]
fn both_ends_of_an_access_are_checked() {
    assert_eq!(probed(&plan_of(&load(0), 0)), [0, 7]);
    // movaps xmm0, [rdi] cannot cross a block; movups can.
    assert_eq!(probed(&plan_of(&[0x0f, 0x28, 0x07], 0)), [0]);
    assert_eq!(probed(&plan_of(&[0x0f, 0x10, 0x07], 0)), [0, 15]);
    // push rax: the stack is aligned to eight.
    assert_eq!(probed(&plan_of(&[0x50], 0)), [-8]);
}

#[test]
fn an_access_larger_than_a_block_has_several_windows() {
    let a = Access {
        position: 0,
        segment: Register::None,
        base: Register::RDI,
        index: Register::None,
        scale: 1,
        displacement: 0,
        size: 64,
        reads: true,
        writes: false,
        aligned: false,
        elements: None,
    };
    let options = |shift| Options::new(Mode::Matrix, shift, 0);
    let of = |a: &Access, shift| windows(a, &options(shift)).collect::<Vec<_>>();
    assert_eq!(of(&a, 4), [(0, 16, true), (16, 16, true), (32, 16, true), (48, 16, true)]);
    assert_eq!(of(&a, 6), [(0, 64, true)]);
    assert_eq!(of(&Access { aligned: true, ..a }, 6), [(0, 64, false)]);
    let trace = Options::new(Mode::Trace, 4, 0);
    assert_eq!(windows(&a, &trace).count(), 1);
}

#[test]
fn the_same_address_is_checked_once() {
    let twice = [load(0), load(0)].concat();
    assert_eq!(plan_of(&twice, 0).len(), 1);
    let off = crate::options::disable::MERGE | crate::options::disable::GROUP;
    assert_eq!(plan_of(&twice, off).len(), 2);
}

#[test]
fn a_run_within_a_block_is_one_check() {
    let run: Vec<u8> = (0..8).flat_map(|k| load(8 * k)).collect();
    let checks = plan_of(&run, 0);
    assert_eq!(windows_of(&checks), [(0, 64)]);
    assert_eq!(checks[0].members.len(), 8);
    let longer: Vec<u8> = (0..9).flat_map(|k| load(8 * k)).collect();
    assert_eq!(windows_of(&plan_of(&longer, 0)), [(0, 64), (64, 8)]);
}

#[test]
fn a_window_reaches_down_as_well() {
    let down: Vec<u8> = [24, 8, 16].into_iter().flat_map(load).collect();
    let checks = plan_of(&down, 0);
    assert_eq!(windows_of(&checks), [(8, 24)]);
    let order: Vec<i64> = checks[0].members.iter().map(|m| m.displacement).collect();
    assert_eq!(order, [24, 8, 16], "program order");
}

#[test]
fn nothing_before_a_barrier_covers_what_follows() {
    // mov rax,[rdi]; pause; mov rax,[rdi]
    let spin = [&load(0)[..], &[0xf3, 0x90], &load(0)].concat();
    assert_eq!(plan_of(&spin, 0).len(), 2);
}

#[test]
fn what_may_have_been_answered_is_asked_about_again() {
    let (store, flag) = ([0x89, 0x46, 0], [0x83, 0x7a, 0, 0]); // mov [rsi],eax; cmp dword [rdx],0
    let branch = [0x75, 0]; // jne +0
    let asked = |parts: &[&[u8]]| {
        let checks = plan_of(&parts.concat(), 0);
        checks.iter().filter(|c| c.key.base == Register::RDI).count()
    };
    let (old, new) = (&load(0)[..], &load(0)[..]);
    assert_eq!(
        asked(&[old, &store, &flag, &branch, new]),
        2,
        "handed over, and got something back"
    );
    assert_eq!(asked(&[old, &flag, &store, &branch, new]), 1, "nothing read since");
    assert_eq!(asked(&[old, &store, &flag, new, &branch]), 1, "nothing known yet");
    assert_eq!(asked(&[&store, old, &flag, &branch, new]), 1, "the first read is as late");
    assert_eq!(asked(&[old, &[0x50], &flag, &branch, new]), 1, "push rax: nobody sees that");
    assert_eq!(asked(&[old, &store, &flag, &branch, new, &branch, new]), 2, "once is enough");
}

#[test]
fn a_read_and_a_write_of_one_word_share_a_check() {
    // mov rax,[rdi]; mov [rdi],rax
    let checks = plan_of(&[0x48, 0x8b, 0x07, 0x48, 0x89, 0x07], 0);
    assert_eq!(checks.len(), 1);
    assert!(checks[0].exclusive && checks[0].position == 0);
    let kinds: Vec<_> = checks[0].members.iter().map(|m| (m.reads, m.writes)).collect();
    assert_eq!(kinds, [(true, false), (false, true)]);
}

#[test]
fn a_write_after_a_branch_keeps_its_own_check() {
    // mov rax,[rdi]; je +0; mov [rdi],rax: the branch may leave before the write.
    let checks = plan_of(&[0x48, 0x8b, 0x07, 0x74, 0, 0x48, 0x89, 0x07], 0);
    let writes: Vec<&Check> = checks.iter().filter(|c| c.exclusive).collect();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].position, 2);
}

#[test]
fn a_wider_write_is_not_covered_where_bytes_are_told_apart() {
    // mov [rdi],eax; je +0; mov [rdi],rax; mov [rdi],eax
    let code = [0x89, 0x07, 0x74, 0, 0x48, 0x89, 0x07, 0x89, 0x07];
    assert_eq!(windows_of(&plan_as(Mode::Detail, &code, 0)), [(0, 4), (0, 8)]);
    // mov [rdi],rax; je +0; mov [rdi+4],eax
    let narrower = [0x48, 0x89, 0x07, 0x74, 0, 0x89, 0x47, 4];
    assert_eq!(windows_of(&plan_as(Mode::Detail, &narrower, 0)), [(0, 8)]);
}

#[test]
fn joined_writes_keep_their_bytes() {
    // mov [rdi],eax; mov [rdi+8],eax; mov [rdi+16],al
    let code = [0x89, 0x07, 0x89, 0x47, 8, 0x88, 0x47, 16];
    let checks = plan_as(Mode::Detail, &code, 0);
    assert_eq!(windows_of(&checks), [(0, 17)]);
    assert_eq!(checks[0].written, 0x1_0f0f);
}

#[test]
fn undirected_checks_treat_reads_as_writes() {
    assert!(plan_as(Mode::Undirected, &load(0), 0).iter().all(|c| c.exclusive));
}

#[test]
fn a_trace_has_a_check_for_every_access() {
    let twice = [load(0), load(0)].concat();
    assert_eq!(plan_as(Mode::Trace, &twice, 0).len(), 2);
}

#[test]
fn checks_move_back_to_where_flags_are_dead() {
    // mov rcx,rdx; cmp rcx,rdx; mov rax,[rdi]; sete al
    let code = [0x48, 0x89, 0xd1, 0x48, 0x39, 0xd1, 0x48, 0x8b, 0x07, 0x0f, 0x94, 0xc0];
    assert!(plan_of(&code, 0).iter().all(|c| c.position == 1));
    assert!(plan_of(&code, crate::options::disable::HOIST).iter().all(|c| c.position == 2));
}
