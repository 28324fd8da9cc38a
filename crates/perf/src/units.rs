//! Units that count, as the kernel lists them:
//! `/sys/bus/event_source/devices/UNIT/{type,format,events}`
//! (Documentation/ABI/testing/sysfs-bus-event_source-devices-*).

use crate::event::{Event, Supplies};
use crate::name_error::{NameError, near, number};
use crate::sys::cpu_list;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel lists units that count.
const UNITS: &str = "/sys/bus/event_source/devices";

/// All units.
pub(crate) struct Units {
    folder: PathBuf,
}

/// One of them.
pub(crate) struct Unit {
    name: String,
    folder: PathBuf,
    kind: u32,
}

/// AMD's instruction-based sampling of operations, and its field that leaves out the kernel.
const IBS: &str = "ibs_op";
const FILTER: &str = "swfilt";

/// `config`, `config1` and `config2`.
type Configs = [u64; 3];
/// How their names end.
const CONFIGS: [&str; 3] = ["config", "config1", "config2"];

impl Units {
    pub fn of_this_machine() -> Self {
        Self::of(Path::new(UNITS))
    }

    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    pub fn unit(&self, name: &str) -> Result<Unit, NameError> {
        // A name that leads elsewhere is none.
        let is_name = !name.is_empty() && !name.contains(['/', '.']);
        let folder = self.folder.join(name);
        let kind = fs::read_to_string(folder.join("type")).ok().filter(|_| is_name);
        let kind = kind.and_then(|kind| kind.trim().parse().ok());
        let refuse =
            || NameError::NoUnit { unit: name.into(), near: near(name, list(&self.folder)) };
        Ok(Unit { name: name.into(), kind: kind.ok_or_else(refuse)?, folder })
    }
}

impl Units {
    /// The large cores of a processor that has two kinds; `None`: all are alike.
    pub fn large_cores(&self) -> Option<Vec<i32>> {
        self.unit("cpu_core").ok()?.cpus().ok()?
    }
}

/// AMD's instruction-based sampling, if the kernel offers it.
pub(crate) fn ibs_op() -> Option<Event> {
    let event = Units::of_this_machine().unit(IBS).ok()?.event("").ok()?;
    Some(Event { name: IBS.into(), ..event })
}

/// The event on a processor with two kinds of cores, where the kernel takes it for the large
/// ones' (`perf_init_event` in kernel/events/core.c, `init_hw_perf_events` in
/// arch/x86/events/core.c) and refuses to open it on the others.
pub(crate) fn of_cores(event: Event) -> Event {
    Event { cpus: Units::of_this_machine().large_cores(), ..event }
}

impl Unit {
    /// The processors that have it; `None`: all.
    pub fn cpus(&self) -> Result<Option<Vec<i32>>, NameError> {
        let read = |file: &str| fs::read_to_string(self.folder.join(file)).ok();
        match (read("cpus"), read("cpumask")) {
            (Some(cpus), _) => Ok(Some(cpu_list(&cpus))),
            (None, Some(_)) => Err(NameError::NotOfThreads { unit: self.name.clone() }),
            (None, None) => Ok(None),
        }
    }

    pub fn has_event(&self, name: &str) -> bool {
        self.text("events", name).is_some()
    }

    /// Names of its events.
    pub fn events(&self) -> Vec<String> {
        // Besides each event there may be what its numbers mean.
        let is_event = |name: &String| !name.contains('.');
        list(&self.folder.join("events")).filter(is_event).collect()
    }

    /// `TERM,TERM,…`: fields, each with a number or 1, and names of events.
    pub fn event(&self, terms: &str) -> Result<Event, NameError> {
        let mut configs = Configs::default();
        for term in terms.split(',').filter(|term| !term.is_empty()) {
            self.take(term, &mut configs)?;
        }
        let is_ibs = self.name == IBS;
        // Kernels before 6.14 cannot leave themselves out there; samples of theirs are dropped.
        let user_only = !is_ibs || self.text("format", FILTER).is_some();
        if is_ibs && user_only {
            self.take(FILTER, &mut configs)?;
        }
        let [config, config1, config2] = configs;
        let event = Event::plain(&format!("{}/{terms}/", self.name), self.kind, config);
        let supplies = if is_ibs { Supplies::Ibs } else { event.supplies };
        Ok(Event { config1, config2, supplies, user_only, cpus: self.cpus()?, ..event })
    }

    fn take(&self, term: &str, configs: &mut Configs) -> Result<(), NameError> {
        let (field, value) = term.split_once('=').unwrap_or((term, "1"));
        if let Some(which) = CONFIGS.iter().position(|config| *config == field) {
            configs[which] = value_of(field, value, 64)?;
            return Ok(());
        }
        if let Some(format) = self.text("format", field) {
            let places = Places::of(&format).ok_or_else(|| self.no_term(field))?;
            places.put(value_of(field, value, places.bits())?, configs);
            return Ok(());
        }
        let known = self.text("events", term).ok_or_else(|| self.no_term(field))?;
        // What is listed has fields only; were it to name another event, that would be followed
        // once.
        for term in known.trim().split(',') {
            let field = term.split('=').next().unwrap_or(term);
            if self.text("format", field).is_none() && !CONFIGS.contains(&field) {
                return Err(self.no_term(field));
            }
            self.take(term, configs)?;
        }
        Ok(())
    }

    fn text(&self, folder: &str, name: &str) -> Option<String> {
        let is_name = !name.is_empty() && !name.contains(['/', '.']);
        is_name.then(|| fs::read_to_string(self.folder.join(folder).join(name)).ok()).flatten()
    }

    fn no_term(&self, term: &str) -> NameError {
        let fields = list(&self.folder.join("format"));
        NameError::NoTerm {
            unit: self.name.clone(),
            term: term.into(),
            near: near(term, fields.chain(self.events())),
            folder: self.folder.join("{format,events}").display().to_string(),
        }
    }
}

fn value_of(term: &str, text: &str, bits: u32) -> Result<u64, NameError> {
    let fits = |value: &u64| bits >= 64 || value >> bits == 0;
    let refuse = || NameError::Value { term: term.into(), value: text.into(), bits };
    number(text).filter(fits).ok_or_else(refuse)
}

/// Names of files.
fn list(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// The bits that a field has: `config:0-7,32-35`, the lowest first.
struct Places {
    config: usize,
    ranges: Vec<(u32, u32)>,
}

impl Places {
    fn of(text: &str) -> Option<Self> {
        let (config, ranges) = text.trim().split_once(':')?;
        let config = CONFIGS.iter().position(|known| *known == config)?;
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last && last < 64).then_some((first, last))
        };
        Some(Self { config, ranges: ranges.split(',').map(range).collect::<Option<_>>()? })
    }

    fn bits(&self) -> u32 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }

    fn put(&self, mut value: u64, configs: &mut Configs) {
        for &(first, last) in &self.ranges {
            let width = last - first + 1;
            let mask = u64::MAX >> (64 - width) << first;
            let config = &mut configs[self.config];
            *config = *config & !mask | value << first & mask;
            value = value.checked_shr(width).unwrap_or(0);
        }
    }
}
