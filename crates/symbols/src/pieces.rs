//! A file as the parser of object files wants it: what it asks for is read once, and kept.
//!
//! Not mapped, since a mapped file that is shortened meanwhile kills its reader. The parser asks
//! for whole sections, or for the string at a place; the latter costs nothing once the section with
//! the strings has been read. Neighbour: `elf`.

use elsa::FrozenVec;
use object::read::ReadRef;
use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Larger pieces are not read: ten times the largest symbol table that is known.
const MAX_BYTES: u64 = 1 << 30;
/// Bytes that are read for a string outside all pieces; longer strings there are not found.
const STRING: u64 = 64 << 10;
/// A file that needs more pieces is damaged.
const MAX_PIECES: usize = 1024;

/// The pieces of a file that have been read.
pub(crate) struct Pieces {
    file: File,
    length: u64,
    read: FrozenVec<Box<Piece>>,
    /// The piece that held what was asked for last: mostly the next one, too.
    last: Cell<usize>,
}

struct Piece {
    start: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = range.start.checked_sub(self.start)? as usize;
        let end = range.end.checked_sub(self.start)? as usize;
        self.bytes.get(start..end)
    }
}

impl Pieces {
    /// # Errors
    /// When the file's length is not known.
    pub fn of(file: File) -> std::io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length, read: FrozenVec::new(), last: Cell::new(0) })
    }

    /// The first piece, beginning with the one used last, that `get` finds something in.
    fn find<'a>(&'a self, get: impl Fn(&'a Piece) -> Option<&'a [u8]>) -> Option<&'a [u8]> {
        let last = self.read.get(self.last.get()).and_then(&get);
        last.or_else(|| {
            let (number, found) =
                self.read.iter().enumerate().find_map(|(n, piece)| Some((n, get(piece)?)))?;
            self.last.set(number);
            Some(found)
        })
    }

    /// Reads a piece; `None` when the file has not so much, or cannot be read.
    fn read(&self, range: Range<u64>) -> Option<&[u8]> {
        let bytes = range.end.checked_sub(range.start)?;
        if range.end > self.length || bytes > MAX_BYTES || self.read.len() >= MAX_PIECES {
            return None;
        }
        let mut piece = Piece { start: range.start, bytes: vec![0; bytes as usize] };
        self.file.read_exact_at(&mut piece.bytes, range.start).ok()?;
        self.last.set(self.read.len());
        Some(&self.read.push_get(Box::new(piece)).bytes)
    }
}

impl<'a> ReadRef<'a> for &'a Pieces {
    fn len(self) -> Result<u64, ()> {
        Ok(self.length)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        let range = offset..offset.checked_add(size).ok_or(())?;
        if range.is_empty() {
            return Ok(&[]);
        }
        self.find(|piece| piece.get(&range)).or_else(|| self.read(range)).ok_or(())
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let string = |bytes: &'a [u8]| {
            let end = memchr::memchr(delimiter, bytes)?;
            Some(&bytes[..end])
        };
        let known = self.find(|piece| {
            let end = range.end.min(piece.start + piece.bytes.len() as u64);
            string(piece.get(&(range.start..end))?)
        });
        let window = range.start..range.end.min(range.start.saturating_add(STRING));
        known.or_else(|| string(self.read(window)?)).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pieces(contents: &[u8]) -> Pieces {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(contents).unwrap();
        Pieces::of(file).unwrap()
    }

    #[test]
    fn what_has_been_read_is_not_read_again() {
        let pieces = pieces(b"0123456789");
        assert_eq!((&pieces).read_bytes_at(2, 6), Ok(&b"234567"[..]));
        assert_eq!((&pieces).read_bytes_at(3, 2), Ok(&b"34"[..]));
        assert_eq!(pieces.read.len(), 1);
        assert_eq!((&pieces).read_bytes_at(7, 2), Ok(&b"78"[..]));
        assert_eq!(pieces.read.len(), 2);
        assert_eq!((&pieces).read_bytes_at(8, 3), Err(()));
        assert_eq!((&pieces).read_bytes_at(u64::MAX, 3), Err(()));
        assert_eq!((&pieces).read_bytes_at(99, 0), Ok(&[][..]));
    }

    #[test]
    fn strings_end_with_their_delimiter() {
        let pieces = pieces(b"\0main\0loop\0end");
        assert_eq!((&pieces).read_bytes_at(0, 11).map(<[u8]>::len), Ok(11));
        assert_eq!((&pieces).read_bytes_at_until(1..14, 0), Ok(&b"main"[..]));
        assert_eq!((&pieces).read_bytes_at_until(8..14, 0), Ok(&b"op"[..]));
        assert_eq!(pieces.read.len(), 1, "both lie in what was read");
        assert_eq!((&pieces).read_bytes_at_until(11..14, 0), Err(()), "it never ends");
        assert_eq!((&pieces).read_bytes_at_until(6..9, 0), Err(()), "not within its table");
    }
}
