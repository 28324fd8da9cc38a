//! The accesses behind samples, for any number of processes.
//!
//! Neighbours: [`access`] computes them, [`code`](crate::code) reads the code that they need.

use crate::code::ProcessCode;
use crate::event::{Event, Watch, Watched};
use crate::sample::{Record, Sample};
use access::{Access, AccessKind, Describer, Reconstructor, Refused, Step};
use rustc_hash::FxHashMap;

/// Addresses of code whose meaning is kept, for each process.
const ADDRESSES: usize = 2048;
/// `nop`.
const NO_OPERATION: u8 = 0x90;

/// How many samples led to an access, and why others did not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Yield {
    /// The hardware gave the address.
    pub precise: u64,
    /// By an instruction before the sampled address, at it, after it.
    pub before: u64,
    /// Whose access is that of the sampled instruction.
    pub at: u64,
    /// Whose access is that of a later instruction.
    pub after: u64,
    /// No instruction in reach accesses memory at an address that can be known.
    pub no_access: u64,
    /// Only accesses relative to a segment, whose base is not sampled.
    pub segment: u64,
    /// Only gathers, scatters and masked accesses.
    pub hidden: u64,
    /// The code could not be read.
    pub no_code: u64,
    /// The kernel had no registers of the program.
    pub no_registers: u64,
}

impl Yield {
    /// Samples with an access.
    pub fn found(&self) -> u64 {
        self.precise + self.before + self.at + self.after
    }

    /// Samples in all.
    pub fn samples(&self) -> u64 {
        let refused = self.no_access + self.segment + self.hidden + self.no_code;
        self.found() + refused + self.no_registers
    }
}

struct Process {
    /// Its tables are large: none until there is a sample.
    reconstructor: Option<Reconstructor>,
    code: ProcessCode,
}

/// Computes accesses; is told all records in their order.
#[derive(Default)]
pub struct Accesses {
    processes: FxHashMap<u32, Process>,
    describer: Describer,
    /// What a debug register notices accesses to, if that is sampled.
    watched: Option<Watched>,
    made: Yield,
    /// Those of the last sample.
    found: Vec<Access>,
}

impl Accesses {
    /// Makes the decoder's tables, too, which takes longer than to find many accesses: best before
    /// anything is sampled.
    pub fn new() -> Self {
        let mut new = Self::default();
        access::decode(&mut new.describer, 0, &[NO_OPERATION]);
        new
    }

    /// For samples of this event, where all are of one.
    pub fn of_event(event: &Event) -> Self {
        Self { watched: event.watched(), ..Self::new() }
    }

    /// What came of samples so far.
    pub fn made(&self) -> Yield {
        self.made
    }

    /// Takes note of mappings, other programs and ends, which change what code there is. Returns of
    /// a mapping whether the file is at its path, where that had to be looked at.
    pub fn note(&mut self, record: &Record) -> Option<bool> {
        match record {
            Record::Mapped { pid, .. } => {
                let process = self.process(*pid);
                let noted = process.code.note(record);
                if noted.replaces
                    && let Some(reconstructor) = &mut process.reconstructor
                {
                    reconstructor.forget();
                }
                return noted.is_at_path;
            }
            Record::Named { pid, exec: true, .. } => {
                self.processes.remove(pid);
            }
            Record::Exited { pid, tid, .. } if pid == tid => {
                self.processes.remove(pid);
            }
            _ => {}
        }
        None
    }

    /// The accesses that a sample may be about, at least one, the likeliest first: all of them are
    /// made around it. What hardware names is one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn of(&mut self, sample: &Sample) -> Result<&[Access], NoAccess> {
        self.found.clear();
        let result = match (sample.precise, self.watched) {
            (Some(_), _) => Ok(self.precise(sample)),
            (None, Some(watched)) => Ok(self.watched(sample, watched)),
            (None, None) => self.around(sample).map(Some),
        };
        let made = &mut self.made;
        *match &result {
            Ok(None) => &mut made.precise,
            Ok(Some(Step::Before(_))) => &mut made.before,
            Ok(Some(Step::At)) => &mut made.at,
            Ok(Some(Step::After(_))) => &mut made.after,
            Err(NoAccess::Refused(Refused::NoAccess)) => &mut made.no_access,
            Err(NoAccess::Refused(Refused::Segment)) => &mut made.segment,
            Err(NoAccess::Refused(Refused::Hidden)) => &mut made.hidden,
            Err(NoAccess::Refused(Refused::NoCode)) => &mut made.no_code,
            Err(NoAccess::NoRegisters) => &mut made.no_registers,
        } += 1;
        result.map(|_| &self.found[..])
    }

    /// What the hardware says.
    fn precise(&mut self, sample: &Sample) -> Option<Step> {
        let precise = sample.precise?;
        let decoded = self.main_operand(sample);
        let bytes = precise.bytes.or(decoded.map(|(bytes, _)| bytes)).unwrap_or(1);
        let kind = precise.kind.or(decoded.map(|(_, kind)| kind)).unwrap_or(AccessKind::Load);
        // A load that is part of an update takes the line for writing.
        let kind = match decoded {
            Some((_, AccessKind::Update)) => AccessKind::Update,
            _ => kind,
        };
        self.found.push(Access { address: precise.address, bytes, kind, site: sample.ip });
        None
    }

    /// The access that a debug register has noticed. The code around says which instruction it was
    /// and what it did, but if that has changed the registers that made the address, what was
    /// watched must do.
    fn watched(&mut self, sample: &Sample, watched: Watched) -> Option<Step> {
        let Watched { address, bytes, watch } = watched;
        let end = address.saturating_add(bytes.into());
        let is_it = |access: &Access| {
            let overlaps = access.address < end
                && access.address.saturating_add(access.bytes.into()) > address;
            overlaps && (watch == Watch::All || access.kind.writes())
        };
        let step = self.around(sample).ok();
        let known = self.found.iter().copied().find(is_it);
        // The trap comes after the instruction; the byte before is one of its own.
        let site = sample.ip.saturating_sub(1);
        // Mostly `mov rax,[rax]`.
        let kind = if watch == Watch::Writes { AccessKind::Store } else { AccessKind::Load };
        self.found.clear();
        self.found.push(known.unwrap_or(Access { address, bytes, kind, site }));
        step.filter(|_| known.is_some())
    }

    /// What the code around the sampled address accesses; the step of the likeliest.
    fn around(&mut self, sample: &Sample) -> Result<Step, NoAccess> {
        let registers = sample.registers.ok_or(NoAccess::NoRegisters)?.for_addresses();
        let Process { reconstructor, code } = process(&mut self.processes, sample.pid);
        let reconstructor = reconstructor.get_or_insert_with(|| Reconstructor::new(ADDRESSES));
        let found = reconstructor.reconstruct(sample.ip, &registers, code);
        let found = found.map_err(NoAccess::Refused)?;
        self.found.extend(found.iter().map(|found| found.access));
        Ok(found[0].step)
    }

    /// Length and kind of what the sampled instruction accesses.
    fn main_operand(&mut self, sample: &Sample) -> Option<(u32, AccessKind)> {
        use access::Code;
        let mut bytes = [0; 15];
        let count = self.process(sample.pid).code.read(sample.ip, &mut bytes);
        let decoded = access::decode(&mut self.describer, sample.ip, &bytes[..count])?;
        let operand = decoded.main_operand()?;
        match operand.reach() {
            access::Reach::Bytes(bytes) => Some((bytes, operand.kind())),
            access::Reach::Repeated { element } | access::Reach::Compared { element } => {
                Some((element, operand.kind()))
            }
            access::Reach::Hidden => None,
        }
    }

    fn process(&mut self, pid: u32) -> &mut Process {
        process(&mut self.processes, pid)
    }
}

fn process(processes: &mut FxHashMap<u32, Process>, pid: u32) -> &mut Process {
    let new = || Process { reconstructor: None, code: ProcessCode::new(pid) };
    processes.entry(pid).or_insert_with(new)
}

/// Why a sample has no access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NoAccess {
    /// It has no registers.
    NoRegisters,
    /// The code around it gives none.
    Refused(Refused),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_debug_register_noticed_is_known_without_the_code() {
        let sample = Sample {
            time_ns: 1,
            pid: 0,
            tid: 0,
            cpu: 0,
            event: 0,
            ip: 0x1000,
            period: 7,
            registers: None,
            precise: None,
        };
        for (watch, kind) in [(Watch::Writes, AccessKind::Store), (Watch::All, AccessKind::Load)] {
            let watched = Watched { address: 0x404040, bytes: 4, watch };
            let mut accesses = Accesses::of_event(&Event::watching("mem", watched));
            let access = Access { address: 0x404040, bytes: 4, kind, site: 0xfff };
            assert_eq!(accesses.of(&sample), Ok(&[access][..]));
            assert_eq!(accesses.made().precise, 1);
        }
        assert_eq!(Accesses::new().of(&sample), Err(NoAccess::NoRegisters));
    }
}
