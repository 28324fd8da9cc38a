//! Sets of CPUs by operating-system number (P#), in Linux list notation.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A set of PUs by their operating-system index.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuSet {
    words: Vec<u64>,
}

/// A CPU list that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuSetError {
    /// The part that is not a number or a range `a-b`.
    pub part: String,
}

impl fmt::Display for CpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a CPU list; write numbers and ranges like 0-3,8", self.part)
    }
}

impl core::error::Error for CpuSetError {}

impl CpuSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds CPU `os`.
    pub fn insert(&mut self, os: usize) {
        if self.words.len() <= os / 64 {
            self.words.resize(os / 64 + 1, 0);
        }
        self.words[os / 64] |= 1 << (os % 64);
    }

    /// Whether CPU `os` is in the set.
    pub fn contains(&self, os: usize) -> bool {
        self.words.get(os / 64).is_some_and(|w| w >> (os % 64) & 1 != 0)
    }

    /// Number of CPUs.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.words.len() * 64).filter(|&os| self.contains(os))
    }

    /// The CPUs in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.iter().filter(|&os| other.contains(os)).collect()
    }

    /// Reads Linux list notation, `0-3,8`.
    ///
    /// # Errors
    /// Fails when the text is no such list, or names CPUs that no machine has.
    pub fn parse_list(text: &str) -> Result<Self, CpuSetError> {
        let mut set = Self::new();
        for part in text.trim().split(',').filter(|p| !p.trim().is_empty()) {
            let bad = || CpuSetError { part: part.trim().into() };
            let number = |s: &str| s.trim().parse::<usize>().ok().filter(|n| *n < 1 << 20);
            let (first, last) = match part.split_once('-') {
                Some((a, b)) => (number(a).ok_or_else(bad)?, number(b).ok_or_else(bad)?),
                None => (number(part).ok_or_else(bad)?, number(part).ok_or_else(bad)?),
            };
            if first > last {
                return Err(bad());
            }
            (first..=last).for_each(|os| set.insert(os));
        }
        Ok(set)
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Self {
        let mut set = Self::new();
        iter.into_iter().for_each(|os| set.insert(os));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn list_notation_round_trips() {
        for text in ["", "0", "0-3", "0-3,8", "1,3,5-7,64-127,200"] {
            assert_eq!(CpuSet::parse_list(text).unwrap().to_string(), text);
        }
        assert_eq!(CpuSet::parse_list("0-1,2\n").unwrap().to_string(), "0-2");
    }

    #[test]
    fn bad_lists_name_the_part() {
        for (text, part) in [("0-", "0-"), ("1,x", "x"), ("3-1", "3-1"), ("-1", "-1")] {
            assert_eq!(CpuSet::parse_list(text).unwrap_err().part, part);
        }
    }
}
