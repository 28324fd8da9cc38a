//! Bytes of a 64-byte line: a bit set, for people a list of offset ranges.

use serde::{Serialize, Serializer};
use ts_rs::TS;

/// Bytes of a line, bit i = byte i. Serialises to `{"ranges": "0-7 16", "mask": "0x…"}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, TS)]
#[ts(as = "WrittenBytes")]
pub struct Bytes(pub u64);

/// How [`Bytes`] are written.
#[derive(Serialize, TS)]
struct WrittenBytes {
    /// First and last offset of each run of bytes: `0-7 16`.
    ranges: String,
    /// Bit i = byte i: `0x00000000000100ff`.
    mask: String,
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WrittenBytes { ranges: self.ranges(), mask: self.mask() }.serialize(serializer)
    }
}

impl Bytes {
    /// First and last offset of each run of bytes, in order.
    pub fn runs(self) -> Vec<(u32, u32)> {
        let mut runs = Vec::new();
        let mut left = self.0;
        while left != 0 {
            let first = left.trailing_zeros();
            let length = (left >> first).trailing_ones();
            runs.push((first, first + length - 1));
            // A shift by 64 would overflow: the run that ends with the last byte is the last one.
            left =
                if first + length == 64 { 0 } else { left >> (first + length) << (first + length) };
        }
        runs
    }

    /// `0-7 16 20-23`, decimal offsets in the line, both ends included.
    pub fn ranges(self) -> String {
        self.joined('-')
    }

    /// The same for people: `0–7 16 20–23`.
    pub(crate) fn for_people(self) -> String {
        self.joined('–')
    }

    fn joined(self, to: char) -> String {
        let run = |&(first, last): &(u32, u32)| match first == last {
            true => first.to_string(),
            false => format!("{first}{to}{last}"),
        };
        self.runs().iter().map(run).collect::<Vec<_>>().join(" ")
    }

    /// `0x00000000000000ff`.
    pub fn mask(self) -> String {
        format!("{:#018x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_bytes() {
        let cases = [
            (0, ""),
            (0xff, "0-7"),
            (1 << 63, "63"),
            (u64::MAX, "0-63"),
            (0xff00_0000_0000_0101, "0 8 56-63"),
            (0b0110, "1-2"),
        ];
        for (mask, expected) in cases {
            assert_eq!(Bytes(mask).ranges(), expected, "{mask:#x}");
        }
        assert_eq!(Bytes(0x0f).for_people(), "0–3");
        let json = serde_json::to_string(&Bytes(0x1_00ff)).unwrap();
        assert_eq!(json, r#"{"ranges":"0-7 16","mask":"0x00000000000100ff"}"#);
    }
}
