//! Files that were mapped while the program ran, as the agent numbers them (`wire::objects`).
//!
//! Neighbours: `session` has the records, `objects` says which events are in them, `places` names
//! what lies there.

use crate::error::RecorderError;
use crate::session::Session;
use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Acquire;
use wire::objects::{MAPPING_PATH, MAX_MAPPINGS, Mapping};
use wire::session::{Header, MAPPINGS_OFFSET};

/// What has the name of all files that found no place in the table.
const FURTHER: &str = "further files";

/// A file that was mapped.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mapped {
    pub path: String,
    /// Address of its first byte; `u64::MAX`: mapped shared, at any address.
    base: u64,
}

impl Mapped {
    /// From the words of a record: its number, and the file.
    fn of(words: &[u64]) -> (u32, Self) {
        let bytes = words[offset_of!(Mapping, path_bytes) / 8].min(MAPPING_PATH as u64) as usize;
        let path =
            words[offset_of!(Mapping, path) / 8..].iter().flat_map(|word| word.to_le_bytes());
        let path: Vec<u8> = path.take(bytes).collect();
        let path = match path.is_empty() {
            true => FURTHER.into(),
            false => String::from_utf8_lossy(&path).into_owned(),
        };
        let number = words[offset_of!(Mapping, group) / 8] as u32;
        (number, Self { path, base: words[offset_of!(Mapping, base) / 8] })
    }

    /// Whether it is the library that was loaded like this.
    pub fn is(&self, path: &str, bias: u64) -> bool {
        self.base == bias && self.path == path
    }
}

/// Reads what the agent has left, by the numbers that events have.
///
/// # Errors
/// Fails when the session cannot be read.
pub fn read(session: &Session, header: &Header) -> Result<HashMap<u32, Mapped>, RecorderError> {
    const WORDS: usize = size_of::<Mapping>() / 8;
    let count = (header.mappings.load(Acquire) as usize).min(MAX_MAPPINGS);
    let words = session.words(MAPPINGS_OFFSET, count * WORDS)?;
    let files = words.chunks_exact(WORDS).map(Mapped::of);
    Ok(files.filter(|(number, _)| *number != 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_number_base_and_path() {
        let mut words = [0; size_of::<Mapping>() / 8];
        words[..3].copy_from_slice(&[7, 0x1000, 4]);
        words[3] = u64::from_le_bytes(*b"/a/b/c/d");
        let (number, file) = Mapped::of(&words);
        assert_eq!(number, 7);
        assert!(file.is("/a/b", 0x1000) && !file.is("/a/b", 0x2000) && !file.is("/a", 0x1000));
        words[2] = 0;
        assert_eq!(Mapped::of(&words).1.path, "further files");
        words[2] = u64::MAX;
        assert_eq!(Mapped::of(&words).1.path.len(), MAPPING_PATH);
    }
}
