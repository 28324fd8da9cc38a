//! Whole numbers for the page: LEB128 (seven bits a byte, least first, the top bit says that more
//! follow), in base64. A twentieth of the size of JSON numbers, and exact beyond 2^53.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Numbers in a row.
#[derive(Default)]
pub(super) struct Varints(Vec<u8>);

impl Varints {
    pub(super) fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn encode(self) -> String {
        BASE64_STANDARD.encode(self.0)
    }
}

/// The inverse, for tests.
#[cfg(test)]
pub(super) fn decode(text: &str) -> Vec<u64> {
    let mut numbers = vec![];
    let (mut number, mut shift) = (0_u64, 0);
    for byte in BASE64_STANDARD.decode(text).unwrap() {
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            numbers.push(number);
            (number, shift) = (0, 0);
        }
    }
    assert_eq!(shift, 0, "the last number has no end");
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, 1 << 53, u64::MAX];
        let mut varints = Varints::default();
        numbers.iter().for_each(|&number| varints.push(number));
        assert_eq!(varints.0[..6], [0, 1, 127, 0x80, 1, 0xac]);
        assert_eq!(decode(&varints.encode()), numbers);
    }
}
