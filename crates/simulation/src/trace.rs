//! Traces in a file: every access of a run, in order.
//!
//! A file is a head (magic, version), blocks, and an end with what is known of the run as a whole.
//! Each block is compressed and carries its length and a checksum. In a block a record says only
//! what could not be guessed: for each thread and instruction, the next address, the number of
//! bytes and the next instruction are those that follow from the last ones. What is guessed carries
//! over from block to block. Neighbours: `guesses.rs` guesses; `stream.rs` is what goes in and
//! comes out; `traced.rs` has the end; files are the callers'.

use crate::guesses::Guesses;
use crate::stream::{Access, Part, Stream, StreamError, What};
use crate::traced::TraceEnd;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Version of the format. 2: filtered streams; 3: blocks in Snappy's format; 4: windows;
/// 5: ways.
pub const TRACE_VERSION: u32 = 5;
/// The oldest version that is still read.
const OLDEST: u32 = 3;
const MAGIC: &[u8; 8] = b"TTTRACE\n";

/// Whether a file that begins like this is meant to be a trace.
pub fn is_trace(beginning: &[u8]) -> bool {
    beginning.starts_with(&MAGIC[..MAGIC.len().min(beginning.len())])
}

/// Records of a block.
const BLOCK_RECORDS: usize = 1 << 16;
/// Most bytes of a block: a record has up to 50.
const MAX_BLOCK_BYTES: u32 = 1 << 22;
/// In a block's length: the block is not compressed.
const PLAIN: u32 = 1 << 31;
/// Bytes before the first block.
const HEAD_BYTES: u64 = 12;
/// Length and checksum before each block.
const BLOCK_HEAD_BYTES: u64 = 8;
/// Threads of a trace, at most: their numbers take 16 bits.
const MAX_THREADS: u32 = (1 << 16) - 1;
/// Most bytes of the end.
const MAX_END_BYTES: u64 = 1 << 30;

const WINDOW: u8 = 3;
const SAME_THREAD: u8 = 4;
const SAME_SITE: u8 = 8;
const SAME_ADDRESS: u8 = 16;
const SAME_BYTES: u8 = 32;
const HELD: u8 = 64;
const SKIPS: u8 = 128;

/// Room for traces that are written at the same time.
#[derive(Debug)]
pub struct Room {
    most: u64,
    taken: AtomicU64,
}

impl Room {
    /// For about `most` bytes in all.
    pub fn new(most: u64) -> Self {
        Self { most, taken: AtomicU64::new(0) }
    }

    /// Takes some; whether there is any left.
    fn take(&self, bytes: u64) -> bool {
        self.taken.fetch_add(bytes, Relaxed).saturating_add(bytes) < self.most
    }
}

/// Writes a trace.
pub struct TraceWriter<W> {
    to: W,
    guesses: Guesses,
    block: Vec<u8>,
    records: usize,
    end: TraceEnd,
    /// Bytes of head and blocks.
    bytes: u64,
    room: Arc<Room>,
    /// Compresses blocks; `None`: they stay as they are.
    packer: Option<snap::raw::Encoder>,
}

impl<W: Write + Seek> TraceWriter<W> {
    /// A trace of at most about `max_bytes`.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn new(to: W, max_bytes: u64) -> io::Result<Self> {
        Self::sharing(to, Arc::new(Room::new(max_bytes)))
    }

    /// A trace that shares its room with others.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn sharing(mut to: W, room: Arc<Room>) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        to.write_all(&TRACE_VERSION.to_le_bytes())?;
        let (guesses, block, end) = Default::default();
        let packer = Some(snap::raw::Encoder::new());
        Ok(Self { to, guesses, block, records: 0, end, bytes: HEAD_BYTES, room, packer })
    }

    /// The same, but faster and larger: for traces that are not kept.
    #[must_use]
    pub fn without_compression(self) -> Self {
        Self { packer: None, ..self }
    }

    /// The same for a stream that is filtered by a cache of which it knows `lines` lines of each
    /// set.
    #[must_use]
    pub fn with_ways(mut self, lines: u32) -> Self {
        self.end.cache_ways = lines;
        self
    }

    /// The next access. Once the trace is full, or cannot be written, nothing more is taken, and
    /// the end says why.
    pub fn access(&mut self, access: &Access) {
        if self.end.cut.is_some() {
            return;
        }
        self.encode(access);
        self.records += 1;
        if self.records == BLOCK_RECORDS {
            self.flush();
        }
    }

    fn encode(&mut self, access: &Access) {
        let Access { thread, what, address, bytes, site, skipped, held, ways } = *access;
        let mut tag = match what {
            What::Read => 0,
            What::Write => 1,
            What::Forget => 2,
            What::Window(_) => WINDOW,
        };
        let bytes = match what {
            What::Window(part) => part as u64,
            _ => bytes,
        };
        let expected = self.guesses.expected(thread);
        let expects_site = self.guesses.get(thread, expected).site == site;
        let guessed = if expects_site { expected } else { self.guesses.number(thread, site) };
        let guess = self.guesses.get(thread, guessed);
        let next = guess.address.wrapping_add(guess.step);
        tag |= if thread == self.guesses.thread { SAME_THREAD } else { 0 };
        tag |= if expects_site { SAME_SITE } else { 0 };
        tag |= if address == next { SAME_ADDRESS } else { 0 };
        tag |= if bytes == guess.bytes { SAME_BYTES } else { 0 };
        tag |= if held { HELD } else { 0 };
        tag |= if skipped > 0 { SKIPS } else { 0 };
        self.block.push(tag);
        if tag & SAME_THREAD == 0 {
            number(&mut self.block, u64::from(thread));
        }
        if tag & SAME_SITE == 0 {
            number(&mut self.block, u64::from(site));
        }
        if tag & SAME_ADDRESS == 0 {
            let away = address.wrapping_sub(guess.address) as i64;
            number(&mut self.block, (away << 1 ^ away >> 63) as u64);
        }
        if tag & SAME_BYTES == 0 {
            number(&mut self.block, bytes);
        }
        if skipped > 0 {
            number(&mut self.block, skipped);
        }
        if self.end.cache_ways > 0 {
            self.block.push(ways);
        }
        self.guesses.note(&Access { bytes, ..*access }, guessed);
    }

    fn flush(&mut self) {
        if self.records == 0 {
            return;
        }
        let written = self.write_block();
        let records = std::mem::take(&mut self.records) as u64;
        self.block.clear();
        match written {
            Ok(bytes) => {
                self.bytes += bytes;
                self.end.accesses += records;
                if !self.room.take(bytes) {
                    let most = types::numbers::grouped(self.room.most);
                    self.end.cut = Some(format!("the limit of {most} bytes was reached"));
                }
            }
            Err(error) => self.end.cut = Some(format!("it could not be written: {error}")),
        }
    }

    fn write_block(&mut self) -> io::Result<u64> {
        let packed = match &mut self.packer {
            Some(packer) => Cow::Owned(packer.compress_vec(&self.block).map_err(io::Error::other)?),
            None => Cow::Borrowed(&self.block[..]),
        };
        let plain = if self.packer.is_none() { PLAIN } else { 0 };
        let mut head = (packed.len() as u32 | plain).to_le_bytes().to_vec();
        head.extend(checksum(&packed).to_le_bytes());
        self.to.write_all(&head)?;
        self.to.write_all(&packed)?;
        Ok(BLOCK_HEAD_BYTES + packed.len() as u64)
    }

    /// Writes what is left and the end, which `complete` may add to.
    ///
    /// # Errors
    /// When not even the end can be written.
    pub fn finish(mut self, complete: impl FnOnce(&mut TraceEnd)) -> io::Result<(W, TraceEnd)> {
        self.flush();
        complete(&mut self.end);
        // Over what was left of a block that could not be written.
        self.to.seek(SeekFrom::Start(self.bytes))?;
        let text = serde_json::to_vec(&self.end).map_err(io::Error::other)?;
        let mut all = 0u32.to_le_bytes().to_vec();
        all.extend(checksum(&text).to_le_bytes());
        all.extend(&text);
        all.extend((text.len() as u64).to_le_bytes());
        all.extend(MAGIC);
        self.to.write_all(&all)?;
        self.to.flush()?;
        Ok((self.to, self.end))
    }
}

/// Reads a trace.
pub struct TraceReader<R> {
    from: R,
    name: String,
    guesses: Guesses,
    end: TraceEnd,
    block: u64,
    accesses: u64,
    packed: Vec<u8>,
}

impl<R: Read + Seek> TraceReader<R> {
    /// Opens a trace; `name` is what errors call it.
    ///
    /// # Errors
    /// When it is none, is of a newer version, or has no end.
    pub fn new(mut from: R, name: &str) -> Result<Self, StreamError> {
        let unreadable = |source| StreamError::Read { name: name.into(), source };
        let no_trace =
            |reason: &str| StreamError::NoTrace { name: name.into(), reason: reason.into() };
        let mut head = [0; HEAD_BYTES as usize];
        let bytes = from.seek(SeekFrom::End(0)).map_err(unreadable)?;
        from.rewind().map_err(unreadable)?;
        if bytes < HEAD_BYTES {
            return Err(no_trace("it is too short"));
        }
        from.read_exact(&mut head).map_err(unreadable)?;
        if &head[..8] != MAGIC {
            return Err(no_trace("it does not begin like one"));
        }
        let found = u32::from_le_bytes(head[8..].try_into().expect("four bytes"));
        match found.cmp(&TRACE_VERSION) {
            Ordering::Greater => {
                return Err(StreamError::Newer { name: name.into(), found, newest: TRACE_VERSION });
            }
            _ if found < OLDEST => return Err(StreamError::Older { name: name.into(), found }),
            _ => {}
        }
        let end = read_end(&mut from, bytes, name)?;
        from.seek(SeekFrom::Start(HEAD_BYTES)).map_err(unreadable)?;
        let (guesses, packed) = Default::default();
        Ok(Self { from, name: name.into(), guesses, end, block: 0, accesses: 0, packed })
    }

    /// What is known of the run as a whole.
    pub fn end(&self) -> &TraceEnd {
        &self.end
    }

    fn damaged(&self, reason: &str) -> StreamError {
        let place = format!("in block {}", self.block);
        StreamError::Damaged { name: self.name.clone(), place, reason: reason.into() }
    }

    /// The next block as it was before it was compressed; `None` at the end.
    fn next_block(&mut self) -> Result<Option<Vec<u8>>, StreamError> {
        let mut head = [0; BLOCK_HEAD_BYTES as usize];
        self.from.read_exact(&mut head).map_err(|_| self.damaged("it is cut off"))?;
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        let sum = u32::from_le_bytes(head[4..].try_into().expect("four bytes"));
        if length == 0 {
            return match self.accesses == self.end.accesses {
                true => Ok(None),
                false => Err(self.damaged("accesses are missing")),
            };
        }
        let (is_plain, length) = (length & PLAIN != 0, length & !PLAIN);
        if length > MAX_BLOCK_BYTES {
            return Err(self.damaged("its length makes no sense"));
        }
        self.packed.resize(length as usize, 0);
        if self.from.read_exact(&mut self.packed).is_err() {
            return Err(self.damaged("it is cut off"));
        }
        if checksum(&self.packed) != sum {
            return Err(self.damaged("its checksum does not match"));
        }
        if is_plain {
            return Ok(Some(std::mem::take(&mut self.packed)));
        }
        let unpacked = snap::raw::decompress_len(&self.packed)
            .ok()
            .filter(|bytes| *bytes <= MAX_BLOCK_BYTES as usize)
            .and_then(|_| snap::raw::Decoder::new().decompress_vec(&self.packed).ok());
        match unpacked {
            Some(unpacked) => Ok(Some(unpacked)),
            None => Err(self.damaged("it cannot be decompressed")),
        }
    }

    fn decode(&mut self, bytes: &mut &[u8]) -> Option<Access> {
        let tag = take_byte(bytes)?;
        let what = match tag & 3 {
            0 => What::Read,
            1 => What::Write,
            2 => What::Forget,
            _ => What::Window(Part::Unseen),
        };
        let thread = match tag & SAME_THREAD {
            0 => u32::try_from(take_number(bytes)?).ok()?,
            _ => self.guesses.thread,
        };
        if thread >= MAX_THREADS {
            return None;
        }
        let mut guessed = self.guesses.expected(thread);
        if tag & SAME_SITE == 0 {
            let site = u32::try_from(take_number(bytes)?).ok()?;
            guessed = self.guesses.number(thread, site);
        }
        let guess = self.guesses.get(thread, guessed);
        let address = match tag & SAME_ADDRESS {
            0 => {
                let zigzag = take_number(bytes)?;
                let away = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                guess.address.wrapping_add_signed(away)
            }
            _ => guess.address.wrapping_add(guess.step),
        };
        let count = if tag & SAME_BYTES == 0 { take_number(bytes)? } else { guess.bytes };
        let skipped = if tag & SKIPS == 0 { 0 } else { take_number(bytes)? };
        let ways = if self.end.cache_ways > 0 { take_byte(bytes)? } else { 0 };
        let (site, held) = (guess.site, tag & HELD != 0);
        let access = Access { thread, what, address, bytes: count, site, skipped, held, ways };
        self.guesses.note(&access, guessed);
        if let What::Window(_) = what {
            let part = [Part::Unseen, Part::WarmUp, Part::Counted];
            let what = What::Window(*part.get(usize::try_from(count).ok()?)?);
            return Some(Access { what, bytes: 0, ..access });
        }
        Some(access)
    }
}

impl<R: Read + Seek> TraceReader<R> {
    /// Begins again.
    ///
    /// # Errors
    /// When the source cannot be read.
    pub fn rewind(&mut self) -> Result<(), StreamError> {
        let sought = self.from.seek(SeekFrom::Start(HEAD_BYTES));
        sought.map_err(|source| StreamError::Read { name: self.name.clone(), source })?;
        self.guesses = Guesses::default();
        (self.block, self.accesses) = (0, 0);
        Ok(())
    }
}

/// A trace as a stream.
impl<R: Read + Seek> Stream for TraceReader<R> {
    fn read(&mut self, into: &mut Vec<Access>) -> Result<bool, StreamError> {
        let Some(block) = self.next_block()? else { return Ok(false) };
        let mut bytes = &block[..];
        while !bytes.is_empty() {
            let access =
                self.decode(&mut bytes).ok_or_else(|| self.damaged("a record makes no sense"))?;
            self.accesses += 1;
            into.push(access);
        }
        self.block += 1;
        Ok(true)
    }
}

fn read_end<R: Read + Seek>(from: &mut R, bytes: u64, name: &str) -> Result<TraceEnd, StreamError> {
    let unreadable = |source| StreamError::Read { name: name.into(), source };
    let damaged = |reason: &str| StreamError::Damaged {
        name: name.into(),
        place: "at its end".into(),
        reason: reason.into(),
    };
    let cut = || damaged("it is cut off");
    if bytes < HEAD_BYTES + BLOCK_HEAD_BYTES + 16 {
        return Err(cut());
    }
    let mut tail = [0; 16];
    from.seek(SeekFrom::End(-16)).map_err(unreadable)?;
    from.read_exact(&mut tail).map_err(unreadable)?;
    let length = u64::from_le_bytes(tail[..8].try_into().expect("eight bytes"));
    if &tail[8..] != MAGIC || length > MAX_END_BYTES.min(bytes - HEAD_BYTES - BLOCK_HEAD_BYTES - 16)
    {
        return Err(cut());
    }
    let mut text = vec![0; length as usize + 4];
    from.seek(SeekFrom::End(-16 - length as i64 - 4)).map_err(unreadable)?;
    from.read_exact(&mut text).map_err(unreadable)?;
    let sum = u32::from_le_bytes(text[..4].try_into().expect("four bytes"));
    if checksum(&text[4..]) != sum {
        return Err(damaged("its checksum does not match"));
    }
    serde_json::from_slice(&text[4..]).map_err(|error| damaged(&error.to_string()))
}

/// Seven bits at a time, lowest first.
fn number(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(byte)
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(bytes)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
