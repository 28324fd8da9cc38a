//! A set of bytes of one block.

/// A set of bytes of one block, each by its distance from the block's start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ByteSet {
    /// Whether byte i is in the set; bytes beyond the end are not.
    inside: Vec<bool>,
}

impl ByteSet {
    /// The bytes `first..first + bytes`.
    pub fn range(first: u64, bytes: u64) -> Self {
        let mut set = Self::default();
        set.add(&(first..first + bytes));
        set
    }

    /// Adds bytes; returns whether one of them was new.
    pub fn add(&mut self, range: &std::ops::Range<u64>) -> bool {
        if self.inside.len() < range.end as usize {
            self.inside.resize(range.end as usize, false);
        }
        let mut new = false;
        for byte in range.clone() {
            new |= !self.inside[byte as usize];
            self.inside[byte as usize] = true;
        }
        new
    }

    /// Whether `byte`, counted from the start of the block, is in the set.
    pub fn contains(&self, byte: u64) -> bool {
        self.inside.get(byte as usize).copied().unwrap_or(false)
    }

    /// Whether the set has one of these bytes.
    pub fn overlaps(&self, range: &std::ops::Range<u64>) -> bool {
        range.clone().any(|byte| self.contains(byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_in_after_they_were_added() {
        let mut set = ByteSet::range(4, 4);
        assert_eq!((set.contains(3), set.contains(4), set.contains(7)), (false, true, true));
        assert!(!set.contains(8));
        assert!(!set.add(&(5..8)), "nothing new");
        assert!(set.add(&(7..9)), "byte 8 is new");
        assert!(set.overlaps(&(8..20)) && !set.overlaps(&(9..20)) && !set.overlaps(&(0..4)));
    }
}
