//! How the parser of DWARF reads a section: piece by piece.
//!
//! A reader keeps the piece that it read last, because nearly all that it reads next lies there.
//! Neighbour: `section` has the pieces.

use crate::section::{Piece, Section};
use gimli::{Error, LittleEndian, ReaderOffsetId, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// A range of a section.
#[derive(Clone)]
pub(crate) struct Reader {
    section: Arc<Section>,
    piece: Piece,
    at: usize,
    end: usize,
}

impl Reader {
    /// All of a section.
    pub fn of(section: Arc<Section>) -> Self {
        let end = section.len();
        Self { section, piece: Piece::default(), at: 0, end }
    }

    /// What is left of the piece from here on; empty where it does not hold this place.
    fn rest(&self) -> &[u8] {
        let Piece { start, bytes } = &self.piece;
        let from = self.at.wrapping_sub(*start);
        let Some(rest) = bytes.get(from..) else { return &[] };
        &rest[..rest.len().min(self.end - self.at)]
    }

    /// Sees to it that the piece holds this place, which is not the end.
    fn fetch(&mut self) -> Result<()> {
        if self.rest().is_empty() {
            self.piece = self.section.piece(self.at).ok_or(Error::Io)?;
        }
        Ok(())
    }

    fn has(&self, bytes: usize) -> Result<()> {
        match bytes <= self.end - self.at {
            true => Ok(()),
            false => Err(Error::UnexpectedEof(gimli::Reader::offset_id(self))),
        }
    }

    fn read_across(&mut self, mut into: &mut [u8]) -> Result<()> {
        while !into.is_empty() {
            self.fetch()?;
            let rest = self.rest();
            let count = rest.len().min(into.len());
            into[..count].copy_from_slice(&rest[..count]);
            into = &mut into[count..];
            self.at += count;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({:#x}..{:#x})", self.at, self.end)
    }
}

impl gimli::Reader for Reader {
    type Endian = LittleEndian;
    type Offset = usize;

    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    fn len(&self) -> usize {
        self.end - self.at
    }

    fn empty(&mut self) {
        self.end = self.at;
    }

    fn truncate(&mut self, len: usize) -> Result<()> {
        self.has(len)?;
        self.end = self.at + len;
        Ok(())
    }

    fn offset_from(&self, base: &Self) -> usize {
        self.at - base.at
    }

    fn offset_id(&self) -> ReaderOffsetId {
        ReaderOffsetId(self.at as u64)
    }

    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        let at = usize::try_from(id.0).ok()?;
        (self.at..=self.end).contains(&at).then(|| at - self.at)
    }

    fn find(&self, byte: u8) -> Result<usize> {
        let mut ahead = self.clone();
        while ahead.at < ahead.end {
            ahead.fetch()?;
            let rest = ahead.rest();
            if let Some(place) = memchr::memchr(byte, rest) {
                return Ok(ahead.at + place - self.at);
            }
            ahead.at += rest.len();
        }
        Err(Error::UnexpectedEof(ahead.offset_id()))
    }

    fn skip(&mut self, len: usize) -> Result<()> {
        self.has(len)?;
        self.at += len;
        Ok(())
    }

    fn split(&mut self, len: usize) -> Result<Self> {
        let mut first = self.clone();
        first.truncate(len)?;
        self.at += len;
        Ok(first)
    }

    fn to_slice(&self) -> Result<Cow<'_, [u8]>> {
        let rest = self.rest();
        if rest.len() == self.len() {
            return Ok(rest.into());
        }
        let mut bytes = vec![0; self.len()];
        self.clone().read_across(&mut bytes)?;
        Ok(bytes.into())
    }

    fn to_string(&self) -> Result<Cow<'_, str>> {
        match self.to_slice()? {
            Cow::Borrowed(bytes) => {
                str::from_utf8(bytes).map(Cow::from).map_err(|_| Error::BadUtf8)
            }
            Cow::Owned(bytes) => {
                String::from_utf8(bytes).map(Cow::from).map_err(|_| Error::BadUtf8)
            }
        }
    }

    fn to_string_lossy(&self) -> Result<Cow<'_, str>> {
        Ok(match self.to_slice()? {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        })
    }

    #[inline]
    fn read_slice(&mut self, into: &mut [u8]) -> Result<()> {
        let from = self.at.wrapping_sub(self.piece.start);
        let inside = self.piece.bytes.get(from..).and_then(|rest| rest.get(..into.len()));
        self.has(into.len())?;
        let Some(bytes) = inside else { return self.read_across(into) };
        into.copy_from_slice(bytes);
        self.at += into.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::Reader as _;
    use object::read::CompressedFileRange;
    use std::io::Write;

    fn reader(contents: &[u8]) -> Reader {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(contents).unwrap();
        let part = CompressedFileRange::none(Some((0, contents.len() as u64)));
        Reader::of(Arc::new(Section::of(file, &part).unwrap()))
    }

    #[test]
    fn it_reads_what_a_slice_reads() {
        let contents: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut ours = reader(&contents);
        let mut slice = gimli::EndianSlice::new(&contents, LittleEndian);
        let mut state = 1_u64;
        while !slice.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match state >> 60 {
                0 => assert_eq!(ours.read_u64(), slice.read_u64()),
                1 => assert_eq!(ours.read_uleb128(), slice.read_uleb128()),
                2 => {
                    let bytes = (state >> 40 & 0xffff) as usize % slice.len();
                    let (mut ours, slice) =
                        (ours.split(bytes).unwrap(), slice.split(bytes).unwrap());
                    assert_eq!(ours.to_slice().unwrap(), slice.to_slice().unwrap());
                    let all = ours.len();
                    assert!(ours.skip(all + 1).is_err() && ours.truncate(all + 1).is_err());
                }
                3 => assert_eq!(ours.find(7).ok(), gimli::Reader::find(&slice, 7).ok()),
                4 => {
                    let lossy = gimli::Reader::to_string_lossy(&slice).unwrap();
                    assert_eq!(ours.to_string_lossy().unwrap(), lossy);
                    assert_eq!(ours.to_string().is_ok(), slice.to_string().is_ok());
                }
                _ => assert_eq!(ours.read_u8(), slice.read_u8()),
            }
            assert_eq!(ours.len(), slice.len());
        }
        assert!(ours.is_empty() && ours.read_u8().is_err());
    }

    #[test]
    fn strings_end_at_their_zero_wherever_pieces_do() {
        let long = "x".repeat(100_000);
        let mut reader = reader(format!("{long}\0ä\0end").as_bytes());
        let mut string = || reader.read_null_terminated_slice();
        assert_eq!(string().unwrap().to_string().unwrap(), long);
        assert_eq!(string().unwrap().to_string_lossy().unwrap(), "ä");
        assert!(string().is_err(), "it never ends");
    }

    #[test]
    fn offsets_are_relative_to_where_one_began() {
        let mut reader = reader(&[0; 100]);
        let begin = reader.clone();
        reader.skip(40).unwrap();
        assert_eq!(reader.offset_from(&begin), 40);
        assert_eq!(begin.lookup_offset_id(reader.offset_id()), Some(40));
        assert_eq!(reader.lookup_offset_id(begin.offset_id()), None);
        reader.empty();
        assert!(reader.is_empty() && reader.read_u8().is_err());
    }
}
