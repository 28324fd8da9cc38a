//! Single instructions by their bytes: address, length and kind of what they access.

use access::AccessKind::{Load, Store, Update};
use access::{Access, AccessKind, Describer, Reach, Registers, Unknown, decode};

const SITE: u64 = 0x40_1000;

/// Each register holds its number times 0x1000, plus 0x100000.
fn registers() -> Registers {
    let mut registers = Registers::default();
    for (number, value) in registers.general.iter_mut().enumerate() {
        *value = 0x10_0000 + 0x1000 * number as u64;
    }
    registers
}

const RAX: u64 = 0x10_0000;
const RCX: u64 = 0x10_1000;
const RDX: u64 = 0x10_2000;
const RBX: u64 = 0x10_3000;
const RSP: u64 = 0x10_4000;
const RBP: u64 = 0x10_5000;
const RSI: u64 = 0x10_6000;
const RDI: u64 = 0x10_7000;
const R13: u64 = 0x10_d000;

/// Address, bytes and kind.
type What = (u64, u32, AccessKind);

/// All accesses of an instruction.
fn all(code: &[u8], registers: &Registers) -> Vec<What> {
    let decoded = decode(&mut Describer::default(), SITE, code).unwrap();
    assert_eq!(usize::from(decoded.length), code.len());
    let accesses = decoded.operands().filter_map(|o| o.access(SITE, registers).ok());
    accesses
        .map(|Access { address, bytes, kind, site }| {
            assert_eq!(site, SITE);
            (address, bytes, kind)
        })
        .collect()
}

/// The access of an instruction that says most.
fn main_one(code: &[u8], registers: &Registers) -> Result<What, Unknown> {
    let decoded = decode(&mut Describer::default(), SITE, code).unwrap();
    let access = decoded.main_operand().unwrap().access(SITE, registers)?;
    Ok((access.address, access.bytes, access.kind))
}

#[test]
fn ordinary_operands() {
    let cases: &[(&[u8], What)] = &[
        // mov rax, [rbx+rcx*8+0x10]
        (b"\x48\x8b\x44\xcb\x10", (RBX + RCX * 8 + 0x10, 8, Load)),
        // mov [r13-8], r9d
        (b"\x45\x89\x4d\xf8", (R13 - 8, 4, Store)),
        // add dword ptr [rip+0x100], 1
        (b"\x83\x05\x00\x01\x00\x00\x01", (SITE + 7 + 0x100, 4, Update)),
        // lock xadd [rdi], rax
        (b"\xf0\x48\x0f\xc1\x07", (RDI, 8, Update)),
        // lock cmpxchg16b [rsi]
        (b"\xf0\x48\x0f\xc7\x0e", (RSI, 16, Update)),
        // cmp byte ptr [rdx], 7
        (b"\x80\x3a\x07", (RDX, 1, Load)),
        // test [rdx], rax
        (b"\x48\x85\x02", (RDX, 8, Load)),
        // cmovne rax, [rdx+8]: reads whatever the flags say
        (b"\x48\x0f\x45\x42\x08", (RDX + 8, 8, Load)),
        // xlatb: only al counts
        (b"\xd7", (RBX + (RAX & 0xff), 1, Load)),
        // mov eax, [ecx+4]
        (b"\x67\x8b\x41\x04", (RCX + 4, 4, Load)),
        // vmovdqu ymm0, [rsi+32]
        (b"\xc5\xfe\x6f\x46\x20", (RSI + 32, 32, Load)),
        // movups [rdi], xmm1
        (b"\x0f\x11\x0f", (RDI, 16, Store)),
        // movnti [rdi], rax
        (b"\x48\x0f\xc3\x07", (RDI, 8, Store)),
        // fld tbyte ptr [rdi]
        (b"\xdb\x2f", (RDI, 10, Load)),
        // xchg [rdi], al: atomic
        (b"\x86\x07", (RDI, 1, Update)),
        // setne [rdi]
        (b"\x0f\x95\x07", (RDI, 1, Store)),
        // mov al, [rbp]
        (b"\x8a\x45\x00", (RBP, 1, Load)),
        // bt dword ptr [rdi], 5
        (b"\x0f\xba\x27\x05", (RDI, 4, Load)),
        // mov rax, [0x1122334455667788]
        (b"\x48\xa1\x88\x77\x66\x55\x44\x33\x22\x11", (0x1122_3344_5566_7788, 8, Load)),
        // vpbroadcastd ymm0, [rdi]
        (b"\xc4\xe2\x7d\x58\x07", (RDI, 4, Load)),
        // pinsrw xmm0, [rdi], 1
        (b"\x66\x0f\xc4\x07\x01", (RDI, 2, Load)),
        // vpcmpeqb k0, ymm16, [rdi+32]
        (b"\x62\xf1\x7d\x20\x74\x47\x01", (RDI + 32, 32, Load)),
        // movbe eax, [rdi]
        (b"\x0f\x38\xf0\x07", (RDI, 4, Load)),
        // fxsave [rdi]
        (b"\x0f\xae\x07", (RDI, 416, Store)),
        // jmp [rip+8]
        (b"\xff\x25\x08\x00\x00\x00", (SITE + 6 + 8, 8, Load)),
    ];
    for (code, expected) in cases {
        assert_eq!(all(code, &registers()), [*expected], "{code:x?}");
    }
}

#[test]
fn what_accesses_nothing() {
    let cases: &[&[u8]] = &[
        b"\x48\x8d\x04\x0b", // lea rax, [rbx+rcx]
        b"\x0f\x1f\x04\x00", // nop dword ptr [rax+rax]
        b"\x0f\x18\x0f",     // prefetcht0 [rdi]
        b"\x0f\xae\x3f",     // clflush [rdi]
        b"\x48\x01\xd8",     // add rax, rbx
    ];
    for code in cases {
        assert_eq!(all(code, &registers()), [], "{code:x?}");
        assert!(decode(&mut Describer::default(), SITE, code).unwrap().main_operand().is_none());
    }
}

#[test]
fn the_stack_counts_less_than_data() {
    let here = registers();
    assert_eq!(all(b"\x53", &here), [(RSP - 8, 8, Store)]); // push rbx
    assert_eq!(all(b"\x59", &here), [(RSP, 8, Load)]); // pop rcx
    assert_eq!(all(b"\xc3", &here), [(RSP, 8, Load)]); // ret
    assert_eq!(all(b"\xc9", &here), [(RBP, 8, Load)]); // leave
    // push [rbx]; call [rax+0x18]
    assert_eq!(main_one(b"\xff\x33", &here), Ok((RBX, 8, Load)));
    assert_eq!(main_one(b"\xff\x50\x18", &here), Ok((RAX + 0x18, 8, Load)));
    let pushed = all(b"\xff\x50\x18", &here);
    assert!(pushed.contains(&(RSP - 8, 8, Store)), "{pushed:x?}");
    // pop [rsp+8]: its address counts from where rsp is afterwards.
    assert!(all(b"\x8f\x44\x24\x08", &here).contains(&(RSP + 16, 8, Store)));
}

#[test]
fn strings_by_what_is_left() {
    let mut here = registers();
    // movsq: the store says more.
    assert_eq!(main_one(b"\x48\xa5", &here), Ok((RDI, 8, Store)));
    here.general[1] = 100;
    assert_eq!(all(b"\xf3\xa4", &here).len(), 2);
    assert_eq!(main_one(b"\xf3\xa4", &here), Ok((RDI, 100, Store))); // rep movsb
    assert_eq!(main_one(b"\xf3\x48\xab", &here), Ok((RDI, 800, Store))); // rep stosq
    // Downwards: the first element is the last in memory.
    here.flags = Registers::DIRECTION;
    assert_eq!(main_one(b"\xf3\x48\xab", &here), Ok((RDI + 8 - 800, 800, Store)));
    here.flags = 0;
    // repe cmpsb, repne scasw: until a difference, so only the next element is certain.
    assert_eq!(main_one(b"\xf3\xa6", &here).map(|(_, bytes, kind)| (bytes, kind)), Ok((1, Load)));
    assert_eq!(main_one(b"\x66\xf2\xaf", &here), Ok((RDI, 2, Load)));
    here.general[1] = 0;
    assert_eq!(main_one(b"\xf3\x48\xab", &here), Err(Unknown::Nothing));
    assert_eq!(main_one(b"\x66\xf2\xaf", &here), Err(Unknown::Nothing));
    here.general[1] = 1 << 60;
    assert_eq!(main_one(b"\xf3\x48\xab", &here), Ok((RDI, u32::MAX, Store)));
}

#[test]
fn segments_need_their_base() {
    let mut here = registers();
    let fs = b"\x64\x8b\x04\x25\x28\x00\x00\x00"; // mov eax, fs:[0x28]
    let gs = b"\x65\x8b\x01"; // mov eax, gs:[rcx]
    assert_eq!(main_one(fs, &here), Err(Unknown::Segment));
    assert_eq!(main_one(gs, &here), Err(Unknown::Segment));
    here.fs_base = Some(0x7f00_0000_0000);
    here.gs_base = Some(0x1000);
    assert_eq!(main_one(fs, &here), Ok((0x7f00_0000_0028, 4, Load)));
    assert_eq!(main_one(gs, &here), Ok((RCX + 0x1000, 4, Load)));
}

#[test]
fn addresses_of_32_bits_wrap_there() {
    let mut here = registers();
    here.general[1] = 0xffff_ffff_ffff_fffe;
    assert_eq!(main_one(b"\x67\x8b\x41\x04", &here), Ok((2, 4, Load))); // mov eax, [ecx+4]
    assert_eq!(main_one(b"\x8b\x41\x04", &here), Ok((2, 4, Load))); // mov eax, [rcx+4]
    here.general[1] = 0x1_0000_0000;
    assert_eq!(main_one(b"\x67\x8b\x41\x04", &here), Ok((4, 4, Load)));
    assert_eq!(main_one(b"\x8b\x41\x04", &here), Ok((0x1_0000_0004, 4, Load)));
}

#[test]
fn what_vectors_and_masks_decide_is_refused() {
    let cases: &[&[u8]] = &[
        b"\x62\xf1\x7f\x49\x6f\x06", // vmovdqu8 zmm0{k1}, [rsi]
        b"\xc4\xe2\x6d\x92\x04\x88", // vgatherdps ymm0, [rax+ymm1*4], ymm2
        b"\xc4\xe2\x7d\x2e\x0f",     // vmaskmovps [rdi], ymm0, ymm1
        b"\x48\x0f\xa3\x07",         // bt [rdi], rax: any bit of memory
        b"\x0f\xae\x27",             // xsave [rdi]
        b"\x0f\x01\xfc",             // clzero
        b"\x62\xf2\x7d\x49\x8b\x07", // vpcompressd [rdi]{k1}, zmm0
    ];
    for code in cases {
        let decoded = decode(&mut Describer::default(), SITE, code).unwrap();
        let operand = decoded.main_operand().unwrap();
        assert_eq!(operand.reach(), Reach::Hidden, "{code:x?}");
        assert_eq!(operand.access(SITE, &registers()), Err(Unknown::Hidden));
    }
}

#[test]
fn damaged_code_is_no_instruction() {
    assert_eq!(decode(&mut Describer::default(), SITE, b""), None);
    assert_eq!(decode(&mut Describer::default(), SITE, b"\x48\x8b\x44\xcb"), None);
    assert_eq!(decode(&mut Describer::default(), SITE, b"\x06"), None);
}
