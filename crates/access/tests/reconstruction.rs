//! From samples in known code to accesses: which instruction is taken, and what is refused.

use access::{Code, Found, Reconstructor, Refused, Registers, Step};

const START: u64 = 0x40_1000;
const RDI: u64 = 0x5000;

/// Code from `START` on, that reads are counted of.
struct Text {
    bytes: Vec<u8>,
    fixed: bool,
    reads: usize,
}

impl Code for Text {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        self.reads += 1;
        let Some(start) = address.checked_sub(START).map(|at| at as usize) else { return 0 };
        let Some(rest) = self.bytes.get(start..) else { return 0 };
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        count
    }

    fn is_fixed(&mut self, _: u64) -> bool {
        self.fixed
    }
}

/// A page-aligned start, 200 bytes of one-byte instructions that change nothing of interest (`cwde`
/// and `cdq` by turns), then the code; samples are at an offset in that.
fn text(code: &[u8]) -> Text {
    let mut bytes: Vec<u8> = b"\x98\x99".repeat(100);
    bytes.extend_from_slice(code);
    // What comes after ends the walk: ret.
    bytes.extend(b"\xc3\x90\x90\x90\x90\x90\x90\x90".repeat(4));
    Text { bytes, fixed: true, reads: 0 }
}

fn at(code: &[u8], offset: u64) -> Result<Found, Refused> {
    let mut registers = Registers::default();
    for (number, value) in registers.general.iter_mut().enumerate() {
        *value = 0x10_0000 * (number as u64 + 1);
    }
    registers.general[7] = RDI;
    first(Reconstructor::new(16).reconstruct(START + 200 + offset, &registers, &mut text(code)))
}

/// The likeliest access.
fn first(found: Result<&[Found], Refused>) -> Result<Found, Refused> {
    found.map(|found| found[0])
}

/// Step and address of what is found.
fn found(code: &[u8], offset: u64) -> Result<(Step, u64), Refused> {
    at(code, offset).map(|found| (found.step, found.access.address))
}

#[test]
fn the_instruction_before_comes_first_then_the_one_at_the_address() {
    // mov rax, [rdi]; mov [rdi+0x40], rcx
    let code = b"\x48\x8b\x07\x48\x89\x4f\x40";
    assert_eq!(found(code, 0), Ok((Step::At, RDI)));
    assert_eq!(found(code, 3), Ok((Step::Before(1), RDI)));
    assert_eq!(found(code, 7), Ok((Step::Before(1), RDI + 0x40)));
    let access = at(code, 3).unwrap().access;
    assert_eq!((access.site, access.bytes), (START + 200, 8));
}

#[test]
fn what_overwrites_its_own_address_is_not_looked_back_at() {
    // mov rdi, [rdi]; mov [rsi], rax
    let code = b"\x48\x8b\x3f\x48\x89\x06";
    assert_eq!(found(code, 3), Ok((Step::At, 0x70_0000)));
    // mov rdi, [rdi]; xor eax, eax: nothing is left.
    assert_eq!(found(b"\x48\x8b\x3f\x31\xc0", 3), Err(Refused::NoAccess));
}

#[test]
fn further_back_and_forward_as_long_as_registers_hold() {
    // mov rax, [rdi]; test rax, rax; inc rcx
    let code = b"\x48\x8b\x07\x48\x85\xc0\x48\xff\xc1";
    assert_eq!(found(code, 6), Ok((Step::Before(2), RDI)));
    // The same with inc rdi between.
    let code = b"\x48\x8b\x07\x48\xff\xc7\x48\xff\xc1";
    assert_eq!(found(code, 6), Err(Refused::NoAccess));
    // inc rcx; inc rdx; mov [rdi], rax
    let code = b"\x48\xff\xc1\x48\xff\xc2\x48\x89\x07";
    assert_eq!(found(code, 0), Ok((Step::After(2), RDI)));
    // inc rdi; mov [rdi], rax
    assert_eq!(found(b"\x48\xff\xc7\x48\x89\x07", 0), Ok((Step::After(1), RDI + 1)));
    // bswap rdi; mov [rdi], rax; mov [rsi], rax: the first has an address that is not computed.
    let code = b"\x48\x0f\xcf\x48\x89\x07\x48\x89\x06";
    assert_eq!(found(code, 0), Ok((Step::After(2), 0x70_0000)));
    // cmp eax, ecx, which differ; jz; mov [rdi], rax
    assert_eq!(found(b"\x39\xc8\x74\x20\x48\x89\x07", 0), Ok((Step::After(2), RDI)));
    // jmp over mov [rdi], rax to mov [rsi], rax: certainly.
    let code = b"\xeb\x03\x48\x89\x07\x48\x89\x06";
    assert_eq!(found(code, 0), Ok((Step::After(1), 0x70_0000)));
    // L: mov [rdi], rax; xor eax, eax; jmp L: at the jump, what was before comes first.
    let code = b"\x48\x89\x07\x31\xc0\xeb\xf9";
    assert_eq!(found(code, 5).map(|(step, _)| step), Ok(Step::Before(2)));
    // jmp out of sight, and to itself.
    assert_eq!(found(b"\xe9\x00\x00\x00\x70", 0), Err(Refused::NoAccess));
    assert_eq!(found(b"\xeb\xfe", 0), Err(Refused::NoAccess));
}

/// As [`found`] with flags.
fn found_with(code: &[u8], flags: u64) -> Result<(Step, u64), Refused> {
    let mut registers = Registers { flags, ..Registers::default() };
    (registers.general[6], registers.general[7]) = (0x70_0000, RDI);
    let mut reconstructor = Reconstructor::new(16);
    let found = reconstructor.reconstruct(START + 200, &registers, &mut text(code));
    first(found).map(|found| (found.step, found.access.address))
}

#[test]
fn one_branch_is_followed_by_the_sampled_flags() {
    const CARRY: u64 = 1;
    const ZERO: u64 = 1 << 6;
    const SIGN: u64 = 1 << 7;
    const OVERFLOW: u64 = 1 << 11;
    // jcc +4; mov [rdi], rax; ret; mov [rsi], rax
    let branch = |opcode: u8, flags: u64| {
        let code = [opcode, 4, 0x48, 0x89, 0x07, 0xc3, 0x48, 0x89, 0x06];
        match found_with(&code, flags) {
            Ok((Step::After(1), RDI)) => false,
            Ok((Step::After(1), 0x70_0000)) => true,
            other => panic!("{other:x?}"),
        }
    };
    for flags in [0, CARRY, ZERO, SIGN, OVERFLOW, SIGN | OVERFLOW, CARRY | ZERO, 4] {
        let has = |flag: u64| flags & flag != 0;
        let less = has(SIGN) != has(OVERFLOW);
        let holds = [
            has(OVERFLOW),
            has(CARRY),
            has(ZERO),
            has(CARRY) || has(ZERO),
            has(SIGN),
            has(4),
            less,
            has(ZERO) || less,
        ];
        for (pair, holds) in (0_u8..).zip(holds) {
            assert_eq!(branch(0x70 + 2 * pair, flags), holds, "{pair} {flags:x}");
            assert_eq!(branch(0x71 + 2 * pair, flags), !holds, "{pair} {flags:x}");
        }
    }
    // bswap eax; cmp eax, ecx before it: the flags at the branch are unknown.
    let code = b"\x0f\xc8\x39\xc8\x74\x04\x48\x89\x07\xc3\x48\x89\x06";
    assert_eq!(found_with(code, 0), Err(Refused::NoAccess));
    // lea before it leaves them; then a second branch by the same flags.
    let code = b"\x48\x8d\x7f\x01\x74\x05\x48\x89\x07\x74\x03\x48\x89\x06\x48\x89\x06";
    assert_eq!(found_with(code, 0), Ok((Step::After(2), RDI + 1)));
    assert_eq!(found_with(code, ZERO), Ok((Step::After(2), 0x70_0000)));
}

/// Steps and addresses of everything that is found.
fn all(code: &[u8], offset: u64) -> Vec<(Step, u64)> {
    let mut registers = Registers::default();
    (registers.general[6], registers.general[7]) = (0x70_0000, RDI);
    let mut reconstructor = Reconstructor::new(16);
    let found = reconstructor.reconstruct(START + 200 + offset, &registers, &mut text(code));
    found.unwrap().iter().map(|found| (found.step, found.access.address)).collect()
}

#[test]
fn all_accesses_around_are_named_the_likeliest_first() {
    // mov rax, [rdi]; mov [rdi+0x40], rcx; mov eax, [rsi]; mov [rdi+0x80], rcx
    let code = b"\x48\x8b\x07\x48\x89\x4f\x40\x8b\x06\x48\x89\x8f\x80\x00\x00\x00";
    let expected = [
        (Step::Before(1), RDI + 0x40),
        (Step::At, 0x70_0000),
        (Step::Before(2), RDI),
        (Step::After(1), RDI + 0x80),
    ];
    assert_eq!(all(code, 7), expected);
    // push rbx; mov [rdi], rax: the stack is named where there is nothing else only.
    assert_eq!(all(b"\x53\x48\x89\x07", 1), [(Step::At, RDI)]);
    // L: add rdi, 64; mov [rdi], rax; jmp L: once around, until the sampled address comes again.
    assert_eq!(all(b"\x48\x83\xc7\x40\x48\x89\x07\xeb\xf7", 0), [(Step::After(1), RDI + 64)]);
}

#[test]
fn calls_are_followed_and_returned_from() {
    // call F; mov [rsi], rax; ret; F: mov [rdi], rax; ret
    let code = b"\xe8\x04\x00\x00\x00\x48\x89\x06\xc3\x48\x89\x07\xc3";
    assert_eq!(all(code, 0), [(Step::After(1), RDI), (Step::After(3), 0x70_0000)]);
    // call F; mov [rsi], rax; ret; F: push rax; mov [rdi], rax; ret: not to where it came from.
    let code = b"\xe8\x04\x00\x00\x00\x48\x89\x06\xc3\x50\x48\x89\x07\xc3";
    assert_eq!(all(code, 0), [(Step::After(2), RDI)]);
}

#[test]
fn who_may_have_come_by_a_branch_is_not_looked_behind() {
    // mov rax, [rdi]; L: inc rcx; jnz L; ret
    let code = b"\x48\x8b\x07\x48\xff\xc1\x75\xfb";
    assert_eq!(found(code, 3), Err(Refused::NoAccess));
    // Behind the branch that was not taken: inc rcx, but not further.
    let code = b"\x48\x8b\x07\x48\xff\xc1\x75\xfb\x48\xff\xc2";
    assert_eq!(found(code, 8), Err(Refused::NoAccess));
    // mov rax, [rdi]; jz +2 (beyond); inc rdx: the branch was not taken.
    let code = b"\x48\x8b\x07\x74\x20\x48\xff\xc2";
    assert_eq!(found(code, 5), Ok((Step::Before(2), RDI)));
    // mov rax, [rdi]; call; inc rdx: registers are others.
    let code = b"\x48\x8b\x07\xe8\x40\x00\x00\x00\x48\xff\xc2";
    assert_eq!(found(code, 8), Err(Refused::NoAccess));
}

#[test]
fn a_loop_that_is_entered_at_its_test_is_looked_through() {
    // jmp T; nop 6; L: lock add [rdi], 1; T: mov eax, [rsi]; test eax, eax; je L; ret
    let code = b"\xeb\x0b\x66\x0f\x1f\x44\x00\x00\xf0\x48\x83\x07\x01\x8b\x06\x85\xc0\x74\xf5\xc3";
    assert_eq!(found(code, 13), Ok((Step::Before(1), RDI)));
    // Without the branch back the thread came by the jump: je T+6 instead.
    let mut straight = code.to_vec();
    straight[18] = 0;
    assert_eq!(found(&straight, 13), Ok((Step::At, 0x70_0000)));
    // And so it may have where the branch leads behind the body.
    let mut elsewhere = code.to_vec();
    elsewhere[18] = 0xfa;
    assert_eq!(found(&elsewhere, 13), Ok((Step::At, 0x70_0000)));
}

#[test]
fn a_thread_in_a_system_call_has_not_got_its_registers_back() {
    // mov rax, [rdi]; syscall; mov rcx, [rax]; mov rdx, [rdi+8]
    let code = b"\x48\x8b\x07\x0f\x05\x48\x8b\x08\x48\x8b\x57\x08";
    assert_eq!(found(code, 5), Ok((Step::After(1), RDI + 8)));
}

#[test]
fn the_stack_comes_last() {
    // push rbx; mov [rdi], rax
    assert_eq!(found(b"\x53\x48\x89\x07", 1), Ok((Step::At, RDI)));
    // push rbx alone, at it.
    assert_eq!(found(b"\x53\x31\xc0", 0), Ok((Step::At, 0x50_0000 - 8)));
}

#[test]
fn reasons_are_told() {
    // mov eax, fs:[0x28]
    let fs = b"\x64\x8b\x04\x25\x28\x00\x00\x00";
    assert_eq!(found(fs, 0), Err(Refused::Segment));
    // vgatherdps ymm0, [rax+ymm1*4], ymm2
    assert_eq!(found(b"\xc4\xe2\x6d\x92\x04\x88", 0), Err(Refused::Hidden));
    let mut reconstructor = Reconstructor::new(1);
    let nowhere = reconstructor.reconstruct(0x1000, &Registers::default(), &mut text(b""));
    assert_eq!(nowhere, Err(Refused::NoCode));
    // A segment is no reason to give up: mov eax, fs:[0x28]; mov [rdi], rax
    let code = b"\x64\x8b\x04\x25\x28\x00\x00\x00\x48\x89\x07";
    assert_eq!(found(code, 0), Ok((Step::After(1), RDI)));
}

#[test]
fn fixed_code_is_read_once_and_code_that_changes_is_noticed() {
    let registers = Registers::default();
    let mut fixed = text(b"\x48\x8b\x47\x08"); // mov rax, [rdi+8]
    let mut reconstructor = Reconstructor::new(64);
    let mut ask = |code: &mut Text| {
        reconstructor
            .reconstruct(START + 200, &registers, code)
            .map(|found| found[0].access.address)
    };
    assert_eq!(ask(&mut fixed), Ok(8));
    let reads = fixed.reads;
    assert_eq!(ask(&mut fixed), Ok(8));
    assert_eq!(fixed.reads, reads);

    let mut changing = text(b"\x48\x8b\x47\x08");
    changing.fixed = false;
    let mut reconstructor = Reconstructor::new(64);
    let mut ask = |code: &mut Text| {
        reconstructor
            .reconstruct(START + 200, &registers, code)
            .map(|found| found[0].access.address)
    };
    assert_eq!(ask(&mut changing), Ok(8));
    assert_eq!(ask(&mut changing), Ok(8));
    changing.bytes[203] = 0x18;
    assert_eq!(ask(&mut changing), Ok(0x18));
}

#[test]
fn forgetting_lets_fixed_code_be_read_again() {
    let registers = Registers::default();
    let mut code = text(b"\x48\x8b\x47\x08");
    let mut reconstructor = Reconstructor::new(64);
    let once = first(reconstructor.reconstruct(START + 200, &registers, &mut code)).unwrap();
    code.bytes[203] = 0x18;
    assert_eq!(reconstructor.reconstruct(START + 200, &registers, &mut code).unwrap()[0], once);
    reconstructor.forget();
    let again = first(reconstructor.reconstruct(START + 200, &registers, &mut code)).unwrap();
    assert_eq!((once.access.address, again.access.address), (8, 0x18));
}
