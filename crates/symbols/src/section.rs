//! A section of a file, of which only those pieces are in memory that were needed lately.
//!
//! Problem: the debug information of the C library alone has 8 MB, that of large programs hundreds,
//! and a few units of it answer all that is asked. Approach: pieces are read from the file when a
//! reader comes to them. Compressed sections are unpacked piece by piece from their beginning,
//! because what is asked mostly goes forwards. A reader that goes back begins again, and after a
//! few times keeps the whole.
//!
//! Not mapped, since a mapped file that is shortened meanwhile kills its reader. Neighbours: `elf`
//! finds sections, `reader` reads them for the parser of DWARF.

use flate2::read::ZlibDecoder;
use object::read::{CompressedData, CompressedFileRange, CompressionFormat};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes that are read at once, and most such pieces of a section that are kept.
const PIECE: usize = 8 << 10;
const MAX_PIECES: usize = 256;
/// How often unpacking may begin, before the whole is kept.
const MAX_BEGINNINGS: u32 = 3;

/// Contents that begin at a byte of the section.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    pub start: usize,
    pub bytes: Arc<Vec<u8>>,
}

/// A section.
#[derive(Debug, Default)]
pub(crate) struct Section {
    length: usize,
    source: Source,
    pieces: Mutex<FxHashMap<usize, Piece>>,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    Nothing,
    /// As it stands, from a byte of the file on.
    Plain(File, u64),
    Packed(Packed),
    /// Another section with gaps.
    Gaps(Arc<Section>, Vec<Gap>),
}

/// What stands in a gap: first some bytes, then zeroes.
#[derive(Debug)]
pub(crate) struct Gap {
    pub range: Range<usize>,
    pub first: Vec<u8>,
}

impl Section {
    /// The part of `file` in which a section is; `None` if it cannot be.
    pub fn of(file: File, part: &CompressedFileRange) -> Option<Self> {
        let end = part.offset.checked_add(part.compressed_size)?;
        if end > file.metadata().ok()?.len() {
            return None;
        }
        let length = usize::try_from(part.uncompressed_size).ok()?;
        let source = match part.format {
            CompressionFormat::None => Source::Plain(file, part.offset),
            _ => Source::Packed(Packed::new(file, part, length)),
        };
        Some(Self { length, source, ..Self::default() })
    }

    /// The same with gaps, ascending.
    pub fn with_gaps(self: &Arc<Self>, gaps: Vec<Gap>) -> Self {
        let source = Source::Gaps(Arc::clone(self), gaps);
        Self { length: self.length, source, ..Self::default() }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// The piece with byte `at`; `None` behind the end, or if it cannot be read.
    pub fn piece(&self, at: usize) -> Option<Piece> {
        if at >= self.length {
            return None;
        }
        if let Source::Packed(packed) = &self.source
            && let Some(bytes) = packed.whole()
        {
            return (at < bytes.len()).then_some(Piece { start: 0, bytes });
        }
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let number = at / PIECE;
        if let Some(known) = pieces.get(&number) {
            return Some(known.clone());
        }
        let range = number * PIECE..self.length.min((number + 1) * PIECE);
        let piece = self.read(range)?;
        if pieces.len() >= MAX_PIECES {
            pieces.clear();
        }
        pieces.insert(number, piece.clone());
        Some(piece)
    }

    fn read(&self, range: Range<usize>) -> Option<Piece> {
        let start = range.start;
        let bytes = match &self.source {
            Source::Nothing => return None,
            Source::Plain(file, offset) => {
                let mut bytes = vec![0; range.len()];
                file.read_exact_at(&mut bytes, offset + start as u64).ok()?;
                bytes
            }
            Source::Packed(packed) => packed.read(range)?,
            Source::Gaps(section, gaps) => with_gaps(section, gaps, range)?,
        };
        Some(Piece { start, bytes: Arc::new(bytes) })
    }
}

/// A piece of a section with gaps.
fn with_gaps(section: &Section, gaps: &[Gap], range: Range<usize>) -> Option<Vec<u8>> {
    let first = gaps.partition_point(|gap| gap.range.end <= range.start);
    let gaps = gaps[first..].iter().take_while(|gap| gap.range.start < range.end);
    let mut bytes = vec![0; range.len()];
    let mut at = range.start;
    for gap in gaps {
        copy(section, at, &mut bytes[at - range.start..gap.range.start.max(at) - range.start])?;
        for (place, byte) in (gap.range.start..).zip(&gap.first) {
            if range.contains(&place) {
                bytes[place - range.start] = *byte;
            }
        }
        at = gap.range.end.min(range.end);
    }
    copy(section, at, &mut bytes[at - range.start..])?;
    Some(bytes)
}

/// Fills `into` from byte `at` on.
fn copy(section: &Section, mut at: usize, mut into: &mut [u8]) -> Option<()> {
    while !into.is_empty() {
        let Piece { start, bytes } = section.piece(at)?;
        let rest = &bytes[at - start..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        at += count;
        into = &mut into[count..];
    }
    Some(())
}

/// A compressed section.
#[derive(Debug)]
struct Packed {
    part: Part,
    format: CompressionFormat,
    length: usize,
    stream: Mutex<Stream>,
    /// `Some` once all of it is kept; the inner `None`: it is damaged.
    whole: OnceLock<Option<Arc<Vec<u8>>>>,
}

/// Unpacks a section from its beginning on.
#[derive(Debug, Default)]
struct Stream {
    decoder: Option<ZlibDecoder<Part>>,
    /// Bytes that were unpacked.
    position: usize,
    beginnings: u32,
}

impl Packed {
    fn new(file: File, part: &CompressedFileRange, length: usize) -> Self {
        let range = part.offset..part.offset + part.compressed_size;
        let (part, format) = (Part { file: Arc::new(file), range }, part.format);
        Self { part, format, length, stream: Mutex::default(), whole: OnceLock::new() }
    }

    /// All of it, if that is kept.
    fn whole(&self) -> Option<Arc<Vec<u8>>> {
        if self.format != CompressionFormat::Zlib {
            return self.whole.get_or_init(|| self.unpack().map(Arc::new)).clone();
        }
        self.whole.get()?.clone()
    }

    fn read(&self, range: Range<usize>) -> Option<Vec<u8>> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.decoder.is_none() || range.start < stream.position {
            if stream.beginnings >= MAX_BEGINNINGS {
                let whole = self.whole.get_or_init(|| self.unpack().map(Arc::new));
                return Some(whole.as_ref()?.get(range)?.to_vec());
            }
            stream.decoder = Some(ZlibDecoder::new(self.part.clone()));
            stream.position = 0;
            stream.beginnings += 1;
        }
        let bytes = stream.read(range);
        if bytes.is_none() {
            stream.decoder = None;
        }
        bytes
    }

    fn unpack(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        if self.format == CompressionFormat::Zlib {
            let decoder = ZlibDecoder::new(self.part.clone());
            decoder.take(self.length as u64).read_to_end(&mut bytes).ok()?;
        } else {
            let mut data = Vec::new();
            self.part.clone().read_to_end(&mut data).ok()?;
            let (format, uncompressed_size) = (self.format, self.length as u64);
            let data = CompressedData { format, data: &data, uncompressed_size };
            bytes = data.decompress().ok()?.into_owned();
        }
        (bytes.len() == self.length).then_some(bytes)
    }
}

impl Stream {
    /// What is in a range that has not been passed yet.
    fn read(&mut self, range: Range<usize>) -> Option<Vec<u8>> {
        let decoder = self.decoder.as_mut()?;
        let passed = (range.start - self.position) as u64;
        let skipped = io::copy(&mut decoder.by_ref().take(passed), &mut io::sink()).ok()?;
        let mut bytes = vec![0; range.len()];
        decoder.read_exact(&mut bytes).ok()?;
        self.position = range.end;
        (skipped == passed).then_some(bytes)
    }
}

/// A part of a file.
#[derive(Clone, Debug)]
struct Part {
    file: Arc<File>,
    range: Range<u64>,
}

impl Read for Part {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.range.end - self.range.start).unwrap_or(0));
        let count = self.file.read_at(&mut into[..most], self.range.start)?;
        self.range.start += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use std::io::Write;

    /// Bytes that compress, but not to nothing, and repeat nowhere near.
    fn contents(length: usize) -> Vec<u8> {
        let byte = |k: usize| (k.wrapping_mul(0x9e37_79b9) >> 13) as u8 & 0x3f;
        (0..length).map(byte).collect()
    }

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn section(contents: &[u8], packed: bool) -> Section {
        let mut file = b"before".to_vec();
        let format = match packed {
            true => {
                let mut encoder = ZlibEncoder::new(&mut file, Compression::fast());
                encoder.write_all(contents).unwrap();
                encoder.finish().unwrap();
                CompressionFormat::Zlib
            }
            false => {
                file.extend(contents);
                CompressionFormat::None
            }
        };
        let compressed_size = file.len() as u64 - 6;
        file.extend(b"behind");
        let uncompressed_size = contents.len() as u64;
        let part = CompressedFileRange { format, offset: 6, compressed_size, uncompressed_size };
        Section::of(file_of(&file), &part).unwrap()
    }

    fn read(section: &Section, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0xff; range.len()];
        copy(section, range.start, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn pieces_are_what_is_there_in_any_order() {
        let contents = contents(10 * PIECE + 17);
        for packed in [false, true] {
            let section = section(&contents, packed);
            assert_eq!(section.len(), contents.len());
            for start in [5 * PIECE - 3, 0, 9 * PIECE, 2, 7 * PIECE, PIECE, 3 * PIECE, 10 * PIECE] {
                let end = contents.len().min(start + PIECE + 9);
                assert_eq!(read(&section, start..end), contents[start..end], "{packed} {start}");
            }
            assert!(section.piece(contents.len()).is_none());
        }
    }

    #[test]
    fn few_pieces_are_kept_and_none_of_what_was_only_passed() {
        let contents = contents(2 * MAX_PIECES * PIECE);
        for packed in [false, true] {
            let section = section(&contents, packed);
            let kept = || section.pieces.lock().unwrap().len();
            section.piece(contents.len() - 1).unwrap();
            assert_eq!(kept(), 1);
            assert_eq!(read(&section, 0..contents.len()), contents);
            assert!(kept() <= MAX_PIECES);
        }
    }

    #[test]
    fn who_goes_back_again_and_again_gets_the_whole() {
        let contents = contents(2 * MAX_PIECES * PIECE);
        let section = section(&contents, true);
        let Source::Packed(packed) = &section.source else { panic!("it is packed") };
        for _ in 0..MAX_BEGINNINGS {
            assert!(packed.whole().is_none());
            section.pieces.lock().unwrap().clear();
            section.piece(PIECE).unwrap();
        }
        section.pieces.lock().unwrap().clear();
        assert_eq!(*section.piece(0).unwrap().bytes, contents[..PIECE]);
        assert_eq!(section.piece(7).unwrap().bytes.len(), contents.len());
    }

    #[test]
    fn gaps_hold_their_first_bytes_and_zeroes() {
        let contents = contents(4 * PIECE);
        let whole = Arc::new(section(&contents, false));
        let gap = |range: Range<usize>| Gap { range, first: vec![1, 2, 3] };
        let ranges = [0..5, 9..9 + PIECE, 2 * PIECE - 2..2 * PIECE + 2, 3 * PIECE..4 * PIECE];
        let mut expected = contents.clone();
        for range in &ranges {
            expected[range.clone()].fill(0);
            expected[range.start..range.start + 3].copy_from_slice(&[1, 2, 3]);
        }
        let with_gaps = whole.with_gaps(ranges.map(gap).into());
        assert_eq!(read(&with_gaps, 0..contents.len()), expected);
        assert!(!whole.pieces.lock().unwrap().contains_key(&3), "it lies in a gap");
    }

    #[test]
    fn what_is_damaged_or_shortened_is_not_read() {
        let part = |size| CompressedFileRange {
            format: CompressionFormat::Zlib,
            offset: 0,
            compressed_size: size,
            uncompressed_size: 1 << 40,
        };
        assert!(Section::of(file_of(b"no zlib"), &part(8)).is_none(), "longer than the file");
        let damaged = Section::of(file_of(b"no zlib"), &part(7)).unwrap();
        assert!((0..9).all(|_| damaged.piece(0).is_none()));
        let file = file_of(&[7; 100]);
        let shortened = file.try_clone().unwrap();
        let section = Section::of(file, &CompressedFileRange::none(Some((0, 100)))).unwrap();
        shortened.set_len(50).unwrap();
        assert!(section.piece(0).is_none());
    }
}
