//! Sums, comparisons and shifts as the processor does them: results and flags.
//!
//! Source: Intel SDM, volume 2, the instructions' pages; what is undefined there is not said here.

use crate::effect::Operation;

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;

/// What comes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) value: u64,
    /// Values of the flags in `defined`.
    pub(crate) flags: u64,
    pub(crate) defined: u64,
    /// Flags that are what they were before.
    pub(crate) kept: u64,
}

/// The low `bits` bits, 8 to 64, of a number.
pub(crate) fn low(value: u64, bits: u8) -> u64 {
    value & (u64::MAX >> (64 - bits))
}

/// A number of `bits` bits with its sign in all 64.
pub(crate) fn signed(value: u64, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits);
    ((value << unused) as i64) >> unused
}

/// The operation on two numbers of `bits` bits.
pub(crate) fn compute(operation: Operation, bits: u8, a: u64, b: u64) -> Outcome {
    let (a, b) = (low(a, bits), low(b, bits));
    let sign = 1 << (bits - 1);
    let plain = |value, carry, overflow| {
        let value = low(value, bits);
        let flags = if carry { CARRY } else { 0 } | if overflow { OVERFLOW } else { 0 };
        let defined = CARRY | OVERFLOW | PARITY | ZERO | SIGN;
        Outcome { value, flags: flags | of_result(value, bits), defined, kept: 0 }
    };
    match operation {
        Operation::Move => Outcome { value: b, flags: 0, defined: 0, kept: u64::MAX },
        Operation::Add => {
            let sum = low(a.wrapping_add(b), bits);
            plain(sum, sum < a, (a ^ sum) & (b ^ sum) & sign != 0)
        }
        Operation::Subtract => {
            let difference = low(a.wrapping_sub(b), bits);
            plain(difference, a < b, (a ^ b) & (a ^ difference) & sign != 0)
        }
        Operation::And => plain(a & b, false, false),
        Operation::Or => plain(a | b, false, false),
        Operation::Xor => plain(a ^ b, false, false),
        Operation::Multiply => {
            let product = i128::from(signed(a, bits)) * i128::from(signed(b, bits));
            let value = low(product as u64, bits);
            let lost = i128::from(signed(value, bits)) != product;
            let flags = if lost { CARRY | OVERFLOW } else { 0 };
            Outcome { value, flags, defined: CARRY | OVERFLOW, kept: 0 }
        }
        Operation::ShiftLeft | Operation::ShiftRight | Operation::ShiftRightSigned => {
            shift(operation, bits, a, b)
        }
    }
}

fn shift(operation: Operation, bits: u8, a: u64, count: u64) -> Outcome {
    let count = (count & if bits == 64 { 63 } else { 31 }) as u32;
    if count == 0 {
        return Outcome { value: a, flags: 0, defined: 0, kept: u64::MAX };
    }
    let wide = u128::from(a);
    let (value, out) = match operation {
        Operation::ShiftLeft => ((wide << count) as u64, (wide << count) >> bits & 1),
        Operation::ShiftRight => ((wide >> count) as u64, wide >> (count - 1) & 1),
        _ => {
            let a = i128::from(signed(a, bits));
            ((a >> count) as u64, (a >> (count - 1) & 1) as u128)
        }
    };
    let value = low(value, bits);
    // Beyond the number's width only a signed shift's carry is defined.
    let is_within = count < u32::from(bits) || operation == Operation::ShiftRightSigned;
    let defined = PARITY | ZERO | SIGN | if is_within { CARRY } else { 0 };
    let flags = of_result(value, bits) | if out == 1 { CARRY } else { 0 };
    Outcome { value, flags, defined, kept: 0 }
}

/// The flags that say what a result is like.
fn of_result(value: u64, bits: u8) -> u64 {
    let zero = if value == 0 { ZERO } else { 0 };
    let sign = if value >> (bits - 1) & 1 == 1 { SIGN } else { 0 };
    let even = if (value as u8).count_ones().is_multiple_of(2) { PARITY } else { 0 };
    zero | sign | even
}
