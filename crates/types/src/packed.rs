//! Instructions, loads and stores in one word, so that translated code counts with one addition.
//!
//! Neighbours: `engine` emits the additions, `agent` unpacks, readers of a recording add what is left.

/// Bits of stores, from bit 0, and of loads above them; instructions have the rest. A carry out of
/// the word means [`INSTRUCTIONS`] more. No instruction that is counted this way has more than one
/// load and one store, so neither can overflow first.
pub const STORE_BITS: u32 = 11;
pub const LOAD_BITS: u32 = 11;
/// Instructions that a carry stands for.
pub const INSTRUCTIONS: u32 = 1 << (32 - STORE_BITS - LOAD_BITS);

/// The word for these numbers.
pub const fn word(instructions: u32, loads: u32, stores: u32) -> u32 {
    instructions << (STORE_BITS + LOAD_BITS) | loads << STORE_BITS | stores
}

/// Instructions, loads and stores of a word.
pub const fn parts(word: u32) -> [u64; 3] {
    let loads = word >> STORE_BITS & ((1 << LOAD_BITS) - 1);
    let stores = word & ((1 << STORE_BITS) - 1);
    [(word >> (STORE_BITS + LOAD_BITS)) as u64, loads as u64, stores as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_add_up() {
        let sum = word(96, 40, 7) + word(300, 2, 300);
        assert_eq!(parts(sum), [396, 42, 307]);
    }

    #[test]
    fn a_carry_leaves_the_other_parts_alone() {
        let (sum, carry) = word(INSTRUCTIONS - 1, 5, 6).overflowing_add(word(3, 1, 1));
        assert!(carry);
        assert_eq!(parts(sum), [2, 6, 7]);
    }
}
