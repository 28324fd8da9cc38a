//! From the bytes of records to [`Record`]s, by the kernel's ABI
//! (`include/uapi/linux/perf_event.h`, comments at `enum perf_event_type`).
//!
//! Only what [`Event::sample_type`](crate::Event) asks for is read; crates that read everything
//! leave out what matters here (source and latency of the data). Records that are too short or of
//! unknown kinds are left out and counted.

use crate::event::{Event, REGISTERS, Rate};
use crate::ibs;
use crate::sample::{Precise, Record, Registers, Sample};
use crate::source_bits;
use perf_event_open_sys::bindings as b;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What the records of some events look like.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layouts {
    /// Of each of the sampler's events.
    kinds: Vec<Kind>,
    /// Event by the kernel's number for it.
    by_id: FxHashMap<u64, usize>,
}

/// What samples of an event hold, and what they do not say.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// `sample_type`.
    holds: u64,
    period: u64,
}

impl Kind {
    fn of((event, rate): &(Event, Rate)) -> Self {
        let period = if let Rate::Period(period) = *rate { period.max(1) } else { 1 };
        Self { holds: event.sample_type(*rate), period }
    }
}

/// A record with its time; `None`: of a kind that says nothing to us.
pub(crate) type Parsed = Result<Option<(u64, Record)>, Damaged>;

/// A record that is not as the ABI says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damaged;

impl Layouts {
    /// For these events, in the order of [`Sample::event`].
    pub fn new(events: &[(Event, Rate)]) -> Self {
        Self { kinds: events.iter().map(Kind::of).collect(), by_id: FxHashMap::default() }
    }

    /// Records that bear `id` are of the `event`th.
    pub fn add(&mut self, id: u64, event: usize) {
        self.by_id.insert(id, event);
    }

    /// Reads what follows the header of a record.
    pub fn parse(&self, kind: u32, misc: u16, body: &[u8]) -> Parsed {
        if kind == b::PERF_RECORD_SAMPLE {
            let sample = self.sample(misc, body).ok_or(Damaged)?;
            return Ok(sample.map(|sample| (sample.time_ns, Record::Sample(sample))));
        }
        // The end of all others: thread, time, processor, event.
        const TRAILER: usize = 32;
        let (body, mut trailer) = match body.len().checked_sub(TRAILER) {
            Some(end) => (&body[..end], Bytes(&body[end..])),
            None => return Err(Damaged),
        };
        let (_thread, time_ns) = (trailer.u64(), trailer.u64().ok_or(Damaged)?);
        let record = other(kind, misc, body, time_ns).ok_or(Damaged)?;
        Ok(record.map(|record| (time_ns, record)))
    }

    /// `None`: damaged; `Some(None)`: a sample of the kernel that the event could not leave out.
    fn sample(&self, misc: u16, body: &[u8]) -> Option<Option<Sample>> {
        let mut bytes = Bytes(body);
        let id = bytes.u64()?;
        let event = if self.kinds.len() == 1 { 0 } else { *self.by_id.get(&id)? };
        let Kind { holds, period } = *self.kinds.get(event)?;
        let has = |bit: u32| holds & u64::from(bit) != 0;
        let ip = bytes.u64()?;
        let (pid, tid) = (bytes.u32()?, bytes.u32()?);
        let time_ns = bytes.u64()?;
        let address = if has(b::PERF_SAMPLE_ADDR) { Some(bytes.u64()?) } else { None };
        let (cpu, _) = (bytes.u32()?, bytes.u32()?);
        let period = if has(b::PERF_SAMPLE_PERIOD) { bytes.u64()? } else { period };
        let raw = if has(b::PERF_SAMPLE_RAW) {
            let size = bytes.u32()? as usize;
            Some(bytes.take(size)?)
        } else {
            None
        };
        let registers = if has(b::PERF_SAMPLE_REGS_USER) { registers(&mut bytes)? } else { None };
        let weight = if has(b::PERF_SAMPLE_WEIGHT) { bytes.u64()? } else { 0 };
        let source = if has(b::PERF_SAMPLE_DATA_SRC) { bytes.u64()? } else { 0 };
        let in_kernel = matches!(
            u32::from(misc) & b::PERF_RECORD_MISC_CPUMODE_MASK,
            b::PERF_RECORD_MISC_KERNEL | b::PERF_RECORD_MISC_HYPERVISOR
        );
        let mut sample =
            Sample { time_ns, pid, tid, cpu, event, ip, period, registers, precise: None };
        if raw.is_some() || address.is_some() {
            if in_kernel {
                return Some(None);
            }
            sample.precise = match (raw, address) {
                (Some(raw), _) => ibs::precise(raw).map(|(address_ip, precise)| {
                    sample.ip = address_ip.unwrap_or(ip);
                    precise
                }),
                (None, Some(address)) if address != 0 => Some(Precise {
                    address,
                    bytes: None,
                    kind: source_bits::kind(source),
                    latency: weight.min(u64::from(u32::MAX)) as u32,
                    from: source_bits::from(source),
                }),
                _ => None,
            };
            if sample.precise.is_none() {
                // The registers are those of the interrupt, later than the address of the
                // instruction.
                sample.registers = None;
            }
        } else if in_kernel {
            // Where the program has called the kernel, or been interrupted.
            sample.ip = registers.map_or(0, |r| r.ip());
        }
        Some(Some(sample))
    }
}

/// Registers of the program, if there are any; `None`: damaged.
fn registers(bytes: &mut Bytes) -> Option<Option<Registers>> {
    let abi = bytes.u64()?;
    if abi == u64::from(b::PERF_SAMPLE_REGS_ABI_NONE) {
        return Some(None);
    }
    let mut all = Registers::default();
    for bit in (0..24).filter(|bit| REGISTERS >> bit & 1 != 0) {
        all.0[bit] = bytes.u64()?;
    }
    Some((abi == u64::from(b::PERF_SAMPLE_REGS_ABI_64)).then_some(all))
}

/// Records other than samples, less what ends all of them.
fn other(kind: u32, misc: u16, body: &[u8], time_ns: u64) -> Option<Option<Record>> {
    let mut bytes = Bytes(body);
    let misc = u32::from(misc);
    let record = match kind {
        b::PERF_RECORD_LOST => {
            let _event = bytes.u64()?;
            Record::Lost { count: bytes.u64()? }
        }
        b::PERF_RECORD_LOST_SAMPLES => Record::Lost { count: bytes.u64()? },
        b::PERF_RECORD_THROTTLE => Record::Throttled { time_ns },
        b::PERF_RECORD_FORK | b::PERF_RECORD_EXIT => {
            let (pid, parent_pid) = (bytes.u32()?, bytes.u32()?);
            let (tid, parent_tid) = (bytes.u32()?, bytes.u32()?);
            match kind {
                b::PERF_RECORD_EXIT => Record::Exited { time_ns, pid, tid },
                _ => Record::Forked { time_ns, pid, tid, parent_pid, parent_tid },
            }
        }
        b::PERF_RECORD_COMM => Record::Named {
            time_ns,
            pid: bytes.u32()?,
            tid: bytes.u32()?,
            name: bytes.text(),
            exec: misc & b::PERF_RECORD_MISC_COMM_EXEC != 0,
        },
        b::PERF_RECORD_MMAP | b::PERF_RECORD_MMAP2 => {
            let (pid, _tid) = (bytes.u32()?, bytes.u32()?);
            let (start, length, file_offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
            let (mut device, mut inode) = ((0, 0), 0);
            if kind == b::PERF_RECORD_MMAP2 {
                let numbers = (bytes.u32()?, bytes.u32()?, bytes.u64()?, bytes.u64()?);
                let _protection_and_flags = bytes.u64()?;
                if misc & b::PERF_RECORD_MISC_MMAP_BUILD_ID == 0 {
                    (device, inode) = ((numbers.0, numbers.1), numbers.2);
                }
            }
            let path = OsStr::from_bytes(bytes.to_zero()).to_owned();
            Record::Mapped { time_ns, pid, start, bytes: length, file_offset, path, device, inode }
        }
        _ => return Some(None),
    };
    Some(Some(record))
}

/// Reads from the front of bytes.
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    /// What comes before the first byte 0.
    fn to_zero(&self) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }

    /// The same as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.to_zero()).into_owned()
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
