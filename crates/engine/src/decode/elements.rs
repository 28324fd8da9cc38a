//! Operands of which only the run tells what they touch: gathers, scatters, masked moves, bit
//! strings, areas of processor state, tiles.
//!
//! Their addresses and masks are in vector and mask registers, or in general ones that are no part
//! of an address. Before the slow path is asked, translated code puts those registers into the
//! thread's control block ([`Elements::sources`]); the descriptor of the operand says how to read
//! them, and the slow path goes through what is really touched. An operand that lies in one piece
//! ([`Kind::Masked`]) has an ordinary check over the whole piece in front: where all of it is
//! known, so is every part.
//!
//! Neighbours: [`access`](crate::decode::access) finds operands, [`probing`](crate::body::probing)
//! emits the way to the slow path, the agent's `slow/elements.h` and `slow/areas.h` are the other
//! side of the descriptor.

use crate::control;
use crate::descriptor::{self, laid_out};
use crate::regs;
use alloc::vec::Vec;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// What decides which bytes are touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Elements in one piece, those that the mask selects; neighbours count as one access.
    Masked = 0,
    /// As many elements from the operand's first byte on as the mask selects (compress, expand).
    Packed = 1,
    /// Elements at base + index · scale, those that the mask selects (gather, scatter).
    Indexed = 2,
    /// The word that holds a bit, numbered by a register, of a string of bits at the base.
    BitString = 3,
    /// The byte at base + AL.
    Table = 4,
    /// The line of 64 bytes that holds the address.
    Line = 5,
    /// Rows of a tile, their distance in a register.
    Tile = 6,
    /// Areas of processor state: components by %edx:%eax, XCR0, what is in use, the area's header.
    Xsave = 7,
    /// The same for `xsaveopt`.
    Xsaveopt = 8,
    /// The same for `xsavec`.
    Xsavec = 9,
    /// The same for `xrstor`.
    Xrstor = 10,
}

/// Where the mask is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mask {
    /// All elements are touched.
    All = 0,
    /// A bit for each element.
    Bits = 1,
    /// The top bit of each element of a vector.
    Signs = 2,
}

/// One such operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elements {
    /// What decides which bytes are touched.
    pub kind: Kind,
    /// Bytes of an element.
    pub bytes: u8,
    /// Elements that the mask tells apart.
    pub count: u8,
    /// Elements in memory: fewer than `count` where each is used more than once (broadcasts).
    pub stored: u8,
    /// Where the mask is.
    pub mask: Mask,
    mask_register: Register,
    /// Vector of indices, bit number or distance of rows.
    index_register: Register,
    /// Bytes of an index.
    pub index_bytes: u8,
    /// What an index is multiplied by.
    pub scale: u8,
    /// Addresses have 32 bits.
    pub address32: bool,
}

/// What translated code puts into the control block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The value of a register.
    Register(Register),
    /// The two words of an area's header that say what is in it.
    Header,
    /// The tile configuration, as `sttilecfg` stores it.
    TileConfiguration,
}

/// First word of a descriptor of elements, where others have the number of their members.
pub const MARK: descriptor::Count = 1 << 31;

/// Header of an area of processor state.
pub const AREA_HEADER: i64 = 512;

/// A descriptor of elements, as the slow path reads it.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct Record {
    /// [`MARK`].
    pub mark: descriptor::Count,
    /// One of [`Kind`].
    pub kind: u8,
    /// Bytes of an element; of a tile, its number.
    pub bytes: u8,
    /// Elements that the mask tells apart.
    pub count: u8,
    /// Elements in memory.
    pub stored: u8,
    /// [`READS`] and [`WRITES`].
    pub access: u8,
    /// One of [`Mask`].
    pub mask: u8,
    /// Bytes of an index.
    pub index_bytes: u8,
    /// With [`ADDRESS32`] if addresses are short.
    pub scale: u8,
    /// Code site.
    pub site: u32,
}

/// In [`Record::access`].
pub const READS: u8 = 1;
/// In [`Record::access`]: it writes.
pub const WRITES: u8 = 2;
/// In [`Record::scale`]: addresses have 32 bits.
pub const ADDRESS32: u8 = 0x80;

/// Where in a descriptor the code site stands.
pub(crate) const SITE_OFFSET: usize = core::mem::offset_of!(Record, site);

impl Elements {
    fn new(kind: Kind, bytes: usize, count: usize) -> Self {
        Elements {
            kind,
            bytes: bytes as u8,
            count: count as u8,
            stored: count as u8,
            mask: Mask::All,
            mask_register: Register::None,
            index_register: Register::None,
            index_bytes: 0,
            scale: 1,
            address32: false,
        }
    }

    fn masked(self, mask: Mask, mask_register: Register) -> Self {
        Elements { mask, mask_register, ..self }
    }

    fn indexed(self, index_register: Register, index_bytes: usize) -> Self {
        Elements { index_register, index_bytes: index_bytes as u8, ..self }
    }

    /// The memory operand of `i`, if it is such a one.
    pub fn of(i: &Instruction) -> Option<Self> {
        if let Some(wide) = i.vsib() {
            return Some(by_indices(i, if wide { 8 } else { 4 }));
        }
        let operand = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
        if operand && i.op_mask() != Register::None {
            return by_mask_register(i);
        }
        by_name(i, operand)
    }

    /// Whether a check over the whole operand can spare the slow path.
    pub fn in_one_piece(&self) -> bool {
        self.kind == Kind::Masked
    }

    /// Bytes from the operand's first to its last.
    pub fn extent(&self) -> i64 {
        match self.kind {
            Kind::Masked | Kind::Packed => i64::from(self.bytes) * i64::from(self.stored),
            // A row as long as any: where a tile ends, only its configuration tells.
            Kind::Tile => 64,
            _ => i64::from(self.bytes),
        }
    }

    /// What goes into the control block, and where.
    pub fn sources(&self) -> Vec<(Source, i32)> {
        let mut all = Vec::new();
        let register =
            |r: Register, at: i32| (r != Register::None).then_some((Source::Register(r), at));
        all.extend(register(self.index_register, control::INDICES));
        all.extend(register(self.mask_register, control::SELECTED));
        match self.kind {
            Kind::Xsave | Kind::Xsaveopt | Kind::Xsavec | Kind::Xrstor => {
                all.extend(register(Register::RAX, control::INDICES));
                all.extend(register(Register::RDX, control::INDICES + 8));
            }
            Kind::Tile => all.push((Source::TileConfiguration, control::SELECTED)),
            _ => {}
        }
        if self.kind == Kind::Xrstor {
            all.push((Source::Header, control::SELECTED));
        }
        all
    }

    /// The general registers among them.
    pub fn registers(&self) -> u16 {
        let number = |source| match source {
            Source::Register(r) => regs::number(r),
            _ => None,
        };
        self.sources().into_iter().filter_map(|s| number(s.0)).fold(0, |set, r| set | regs::bit(r))
    }

    /// Writes the descriptor.
    pub fn encode(&self, reads: bool, writes: bool, site: u32, out: &mut Vec<u8>) {
        let if_set = |condition, bit| if condition { bit } else { 0 };
        let record = Record {
            mark: MARK,
            kind: self.kind as u8,
            bytes: self.bytes,
            count: self.count,
            stored: self.stored,
            access: if_set(reads, READS) | if_set(writes, WRITES),
            mask: self.mask as u8,
            index_bytes: self.index_bytes,
            scale: self.scale | if_set(self.address32, ADDRESS32),
            site,
        };
        out.extend(laid_out!(
            record,
            Record,
            mark,
            kind,
            bytes,
            count,
            stored,
            access,
            mask,
            index_bytes,
            scale,
            site
        ));
    }
}

/// Gathers and scatters. A mask register, or a vector whose top bits select.
fn by_indices(i: &Instruction, index_bytes: usize) -> Elements {
    let bytes = i.memory_size().size();
    let indices = i.memory_index().size() / index_bytes;
    // The other side: the first operand of a gather, the last of a scatter.
    let vector = if i.op0_kind() == OpKind::Register { i.op0_register() } else { i.op1_register() };
    let count = indices.min(vector.size() / bytes);
    let (mask, register) = match i.op_mask() {
        Register::None => (Mask::Signs, i.op2_register()),
        k => (Mask::Bits, k),
    };
    Elements {
        scale: i.memory_index_scale() as u8,
        address32: i.memory_base().is_gpr32(),
        ..Elements::new(Kind::Indexed, bytes, count)
    }
    .masked(mask, register)
    .indexed(i.memory_index(), index_bytes)
}

/// AVX-512: elements without their bit are not touched, and may lie where nothing is mapped.
fn by_mask_register(i: &Instruction) -> Option<Elements> {
    if reads_all(i) {
        return None;
    }
    let size_of = |is_broadcast| {
        let mut other = *i;
        other.set_is_broadcast(is_broadcast);
        other.memory_size()
    };
    // What can be broadcast is an element of the mask; else the type of the operand says what is.
    let (whole, one) = (size_of(false), size_of(true).size());
    let bytes = match one {
        _ if is_complex_scalar(i.mnemonic()) => whole.size(),
        0 => whole.element_size(),
        one => one,
    };
    let stored = whole.size() / bytes;
    let (count, stored) = if i.is_broadcast() {
        (stored, 1)
    } else if is_broadcast(i.mnemonic()) {
        (i.op0_register().size() / bytes, stored)
    } else {
        (stored, stored)
    };
    let kind = if is_packed(i.mnemonic()) { Kind::Packed } else { Kind::Masked };
    let elements = Elements { stored: stored as u8, ..Elements::new(kind, bytes, count) };
    Some(elements.masked(Mask::Bits, i.op_mask()))
}

fn by_name(i: &Instruction, operand: bool) -> Option<Elements> {
    use Mnemonic::*;
    let signs = |bytes: usize, count: usize, n: u32| {
        Some(Elements::new(Kind::Masked, bytes, count).masked(Mask::Signs, i.op_register(n)))
    };
    match i.mnemonic() {
        Vmaskmovps | Vpmaskmovd => signs(4, i.memory_size().size() / 4, 1),
        Vmaskmovpd | Vpmaskmovq => signs(8, i.memory_size().size() / 8, 1),
        Maskmovq => signs(1, 8, 2),
        Maskmovdqu | Vmaskmovdqu => signs(1, 16, 2),
        Bt | Bts | Btr | Btc if operand && i.op1_kind() == OpKind::Register => {
            let bytes = i.memory_size().size();
            let bit = i.op1_register();
            Some(Elements::new(Kind::BitString, bytes, 1).indexed(bit.full_register(), bytes))
        }
        Xlatb => Some(Elements::new(Kind::Table, 1, 1).indexed(Register::RAX, 1)),
        Clzero => Some(Elements::new(Kind::Line, 64, 1)),
        Tileloadd | Tileloaddt1 | Tilestored => {
            let tile =
                if i.op0_kind() == OpKind::Register { i.op0_register() } else { i.op1_register() };
            let number = tile as usize - Register::TMM0 as usize;
            let rows = Elements::new(Kind::Tile, number, 1);
            Some(match i.memory_index() {
                Register::None => rows,
                distance => rows.indexed(distance.full_register(), distance.size()),
            })
        }
        Xsave | Xsave64 => Some(Elements::new(Kind::Xsave, 1, 1)),
        Xsaveopt | Xsaveopt64 => Some(Elements::new(Kind::Xsaveopt, 1, 1)),
        Xsavec | Xsavec64 => Some(Elements::new(Kind::Xsavec, 1, 1)),
        Xrstor | Xrstor64 => Some(Elements::new(Kind::Xrstor, 1, 1)),
        _ => None,
    }
}

fn is_packed(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Vcompressps
            | Vcompresspd
            | Vpcompressb
            | Vpcompressw
            | Vpcompressd
            | Vpcompressq
            | Vexpandps
            | Vexpandpd
            | Vpexpandb
            | Vpexpandw
            | Vpexpandd
            | Vpexpandq
    )
}

fn is_broadcast(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Vbroadcastss
            | Vbroadcastsd
            | Vbroadcastf32x2
            | Vbroadcastf32x4
            | Vbroadcastf32x8
            | Vbroadcastf64x2
            | Vbroadcastf64x4
            | Vbroadcasti32x2
            | Vbroadcasti32x4
            | Vbroadcasti32x8
            | Vbroadcasti64x2
            | Vbroadcasti64x4
            | Vpbroadcastb
            | Vpbroadcastw
            | Vpbroadcastd
            | Vpbroadcastq
    )
}

/// A complex number of two halves, for which the mask has one bit.
fn is_complex_scalar(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(mnemonic, Vfcmaddcsh | Vfcmulcsh | Vfmaddcsh | Vfmulcsh)
}

/// Instructions whose mask only decides about the result: they read the whole operand (exception
/// classes E4NF, E5NF and E6NF of the manual).
#[allow(clippy::too_many_lines, reason = "a table")]
fn reads_all(i: &Instruction) -> bool {
    use Mnemonic::*;
    let by_one_count = matches!(
        i.mnemonic(),
        Vpslld | Vpsllq | Vpsllw | Vpsrad | Vpsraq | Vpsraw | Vpsrld | Vpsrlq | Vpsrlw
    );
    // The other form of these has its operand in memory before an immediate count.
    by_one_count && i.op2_kind() == OpKind::Memory
        || matches!(
            i.mnemonic(),
            Valignd
                | Valignq
                | Vcvtne2ps2bf16
                | Vdbpsadbw
                | Vgf2p8affineinvqb
                | Vgf2p8affineqb
                | Vinsertf32x4
                | Vinsertf32x8
                | Vinsertf64x2
                | Vinsertf64x4
                | Vinserti32x4
                | Vinserti32x8
                | Vinserti64x2
                | Vinserti64x4
                | Vmovddup
                | Vmovshdup
                | Vmovsldup
                | Vpackssdw
                | Vpacksswb
                | Vpackusdw
                | Vpackuswb
                | Vpalignr
                | Vpconflictd
                | Vpconflictq
                | Vpermb
                | Vpermd
                | Vpermi2b
                | Vpermi2d
                | Vpermi2pd
                | Vpermi2ps
                | Vpermi2q
                | Vpermi2w
                | Vpermilpd
                | Vpermilps
                | Vpermpd
                | Vpermps
                | Vpermq
                | Vpermt2b
                | Vpermt2d
                | Vpermt2pd
                | Vpermt2ps
                | Vpermt2q
                | Vpermt2w
                | Vpermw
                | Vpmaddubsw
                | Vpmaddwd
                | Vpmultishiftqb
                | Vpshufb
                | Vpshufd
                | Vpshufhw
                | Vpshuflw
                | Vpunpckhbw
                | Vpunpckhdq
                | Vpunpckhqdq
                | Vpunpckhwd
                | Vpunpcklbw
                | Vpunpckldq
                | Vpunpcklqdq
                | Vpunpcklwd
                | Vshuff32x4
                | Vshuff64x2
                | Vshufi32x4
                | Vshufi64x2
                | Vshufpd
                | Vshufps
                | Vunpckhpd
                | Vunpckhps
                | Vunpcklpd
                | Vunpcklps
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::access::collect;
    use iced_x86::{Code, InstructionInfoFactory, MemoryOperand};

    #[test]
    fn the_code_site_stands_where_it_is_looked_for() {
        let mut descriptor = Vec::new();
        Elements::new(Kind::Indexed, 4, 8).encode(true, false, 0x1234_5678, &mut descriptor);
        assert_eq!(descriptor[SITE_OFFSET..], 0x1234_5678u32.to_le_bytes());
    }

    /// Few processors have half-precision numbers: `tests/extents.rs` cannot ask most of them.
    #[test]
    fn a_complex_number_is_one_element() {
        let at_rbx = MemoryOperand::with_base(Register::RBX);
        let xmm = Register::XMM3;
        let with = |code| {
            let mut i = Instruction::with3(code, xmm, xmm, at_rbx).unwrap();
            i.set_op_mask(Register::K1);
            let e = Elements::of(&i).unwrap();
            (e.bytes, e.count)
        };
        assert_eq!(with(Code::EVEX_Vfmulcsh_xmm_k1z_xmm_xmmm32_er), (4, 1));
        assert_eq!(with(Code::EVEX_Vfmulcph_xmm_k1z_xmm_xmmm128b32), (4, 4));
        assert_eq!(with(Code::EVEX_Vmulsh_xmm_k1z_xmm_xmmm16_er), (2, 1));
    }

    #[test]
    fn every_tile_is_seen() {
        for tile in 0..8_u32 {
            let at = MemoryOperand::with_base_index(Register::RBX, Register::RCX);
            let tile = Register::TMM0 + tile;
            let i = Instruction::with2(Code::VEX_Tilestored_sibmem_tmm, at, tile).unwrap();
            let mut found = Vec::new();
            let unseen = collect(&mut InstructionInfoFactory::new(), &i, 0, &mut found);
            assert_eq!((unseen, found.len()), (0, 1), "{tile:?}");
            assert!(found[0].writes && found[0].size > 0, "{tile:?}");
        }
    }
}
