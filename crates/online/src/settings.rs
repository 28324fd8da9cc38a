//! Every constant of the decider, with the papers' values as presets.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::str::FromStr;

/// Most tasks in a communication matrix (thesis, 6.3.2).
pub const MAX_TASKS: usize = 1024;
/// Most blocks of the sharing table, and largest block.
const MAX_BLOCKS: usize = 1 << 28;
const MAX_BLOCK_BYTES: u64 = 1 << 20;

/// What is placed, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Threads, as in chapter 6 of the thesis.
    Cdsm,
    /// Threads and pages, as in chapter 7.
    Kmaf,
    /// Pages, after Carrefour.
    Carrefour,
    /// Threads, in a few placements in turn, after autopin.
    Autopin,
    /// Threads and pages; nothing moves but for evidence, a price and a proof.
    #[default]
    Integrated,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 5] =
        [Self::Cdsm, Self::Kmaf, Self::Carrefour, Self::Autopin, Self::Integrated];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cdsm => "cdsm",
            Self::Kmaf => "kmaf",
            Self::Carrefour => "carrefour",
            Self::Autopin => "autopin",
            Self::Integrated => "integrated",
        }
    }
}

impl FromStr for Policy {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| SettingsError::Policy(text.into()))
    }
}

/// Why a setting is refused.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum SettingsError {
    #[error("there is no policy '{0}'; there are cdsm, kmaf, carrefour, autopin and integrated")]
    Policy(String),
    #[error("write a setting as NAME=VALUE, like mapping_ms=200, not '{0}'")]
    Form(String),
    #[error("there is no setting '{name}'; there are: {known}")]
    Unknown { name: String, known: String },
    #[error("'{value}' is no value for the setting {name}, which is now {now}")]
    Value { name: String, value: String, now: String },
    #[error("the setting {name} {must}")]
    Range { name: &'static str, must: &'static str },
}

/// How the decider decides. Times are in the unit that their name ends with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What is placed, and how.
    pub policy: Policy,
    /// Whether threads are placed.
    pub threads: bool,
    /// Whether pages are moved.
    pub data: bool,
    /// Time between two mappings of threads.
    pub mapping_ms: u64,
    /// Memory block in which communication is found, bytes; a power of two.
    pub block_bytes: u64,
    /// Blocks in the sharing table; others overwrite them.
    pub blocks: usize,
    /// Tasks in the matrix, at most [`MAX_TASKS`].
    pub max_tasks: usize,
    /// Time after which communication counts half; 0: always in full.
    pub half_life_ms: u64,
    /// The same for what tells that communication has changed; 0: nothing does.
    pub recent_ms: u64,
    /// Time after which an access to a block is forgotten; 0: never.
    pub max_age_ms: u64,
    /// How threads are placed: a policy of `threadtalk place`.
    pub mapper: String,
    /// A mapping must save this part of the cost of communication.
    pub min_saving: f64,
    /// Price of a moved thread, as a part of what a thread's communication costs on average.
    pub migration: f64,
    /// A task is placed if it computes at least this part of what the busiest one does.
    pub min_busy: f64,
    /// A saving must exceed its standard error this many times; 0: no evidence is asked for.
    pub sigmas: f64,
    /// Communication that is needed before a first mapping, events per task.
    pub min_events: f64,
    /// Whether a migration must pay within the time that its task has lived.
    pub priced: bool,
    /// What moving a thread costs, with caches to be filled again.
    pub thread_move_us: f64,
    /// Part of the time that samples find at communicated memory which a transfer takes.
    pub stall_share: f64,
    /// A program is left alone if no placement can speed it up by this part.
    pub min_gain: f64,
    /// Whether placements are tried, and undone if they do not help.
    pub guard: bool,
    /// Length of one measurement of the guard.
    pub guard_ms: u64,
    /// Measurements before, and after, in one round.
    pub guard_measurements: u32,
    /// Most rounds of a trial.
    pub guard_rounds: u32,
    /// Time without new trials after one that did not help; doubles each time.
    pub guard_pause_ms: u64,
    /// The longest of these pauses.
    pub guard_max_pause_ms: u64,
    /// Without a measure of work, only mappings are made that save this part of the cost of
    /// communication.
    pub unproven_saving: f64,
    /// Exclusivity above which a page belongs to its node (table 7.3, minLoc).
    pub min_locality: f64,
    /// Exclusivity below which a page is interleaved, times the number of nodes (maxBal).
    pub max_balance: f64,
    /// Factor of the locality filter (7.5).
    pub filter: f64,
    /// Carrefour: part of the accesses that must be local, or else pages move.
    pub carrefour_min_local: f64,
    /// Carrefour: spread of the nodes' loads, over their mean, above which pages are interleaved.
    pub carrefour_max_imbalance: f64,
    /// Autopin: time for which each placement is measured.
    pub autopin_ms: u64,
    /// Accesses of a page that must be known before it moves.
    pub min_accesses: u32,
    /// What moving a page costs.
    pub page_move_us: f64,
    /// Most bytes of pages that are moved in a second.
    pub max_mib_per_second: f64,
    /// Pages that are moved at once.
    pub batch: usize,
    /// Least time between two moves of one page.
    pub page_rest_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(Policy::Integrated)
    }
}

impl Settings {
    /// The preset of a policy: tables 6.2 and 7.3 for the papers' own.
    pub fn of(policy: Policy) -> Self {
        let integrated = Self {
            policy: Policy::Integrated,
            threads: true,
            data: true,
            mapping_ms: 200,
            // Samples without hardware's help are few: arrays are known four times as soon as
            // by 256.
            block_bytes: 1024,
            blocks: 4 << 20,
            max_tasks: MAX_TASKS,
            half_life_ms: 1000,
            recent_ms: 250,
            max_age_ms: 3000,
            mapper: "locality".into(),
            min_saving: 0.05,
            migration: 0.03,
            min_busy: 0.1,
            sigmas: 3.0,
            min_events: 10.0,
            priced: true,
            thread_move_us: 1000.0,
            stall_share: 0.25,
            min_gain: 0.01,
            guard: true,
            guard_ms: 200,
            guard_measurements: 4,
            guard_rounds: 4,
            guard_pause_ms: 5000,
            guard_max_pause_ms: 120_000,
            unproven_saving: 0.25,
            min_locality: 0.8,
            max_balance: 1.5,
            filter: 2.0,
            carrefour_min_local: 0.8,
            carrefour_max_imbalance: 0.35,
            autopin_ms: 1000,
            min_accesses: 4,
            page_move_us: 4.0,
            max_mib_per_second: 256.0,
            batch: 1024,
            page_rest_ms: 1000,
        };
        let paper = Self::paper(&integrated);
        match policy {
            Policy::Integrated => integrated,
            // Table 6.2.
            Policy::Cdsm => Self { policy, data: false, ..paper },
            // Table 7.3.
            Policy::Kmaf => Self { policy, blocks: 1 << 20, ..paper },
            Policy::Carrefour => Self { policy, threads: false, min_accesses: 2, ..paper },
            Policy::Autopin => Self { policy, data: false, ..paper },
        }
    }

    /// Without what the papers do not have: evidence, price and proof.
    fn paper(integrated: &Self) -> Self {
        Self {
            block_bytes: 256,
            recent_ms: 0,
            max_age_ms: 0,
            mapper: "eagermap".into(),
            min_saving: 0.0,
            migration: 0.0,
            sigmas: 0.0,
            min_events: 0.0,
            priced: false,
            min_gain: 0.0,
            guard: false,
            min_accesses: 0,
            page_rest_ms: 0,
            ..integrated.clone()
        }
    }

    /// Sets one by name, as in `mapping_ms=200`.
    ///
    /// # Errors
    /// When there is no such setting, or the value is not of its kind.
    pub fn set(&mut self, text: &str) -> Result<(), SettingsError> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(SettingsError::Form(text.into()));
        };
        let (name, value) = (name.trim(), value.trim());
        let Ok(Value::Object(mut all)) = serde_json::to_value(&*self) else {
            return Err(SettingsError::Form(text.into()));
        };
        let Some(now) = all.get(name).cloned() else {
            let known = all.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(SettingsError::Unknown { name: name.into(), known });
        };
        let new = match now.is_string() {
            true => Value::String(value.into()),
            false => serde_json::from_str(value).unwrap_or(Value::Null),
        };
        all.insert(name.into(), new);
        let wrong = || SettingsError::Value {
            name: name.into(),
            value: value.into(),
            now: now.to_string(),
        };
        let changed: Self = serde_json::from_value(Value::Object(all)).map_err(|_| wrong())?;
        changed.check()?;
        *self = changed;
        Ok(())
    }

    /// Whether the values can be used.
    ///
    /// # Errors
    /// Which one cannot.
    pub fn check(&self) -> Result<(), SettingsError> {
        let range = |ok: bool, name, must| match ok {
            true => Ok(()),
            false => Err(SettingsError::Range { name, must }),
        };
        let bytes = self.block_bytes;
        range(
            bytes.is_power_of_two() && (16..=MAX_BLOCK_BYTES).contains(&bytes),
            "block_bytes",
            "is a power of two from 16 to 1048576",
        )?;
        range((1..=MAX_BLOCKS).contains(&self.blocks), "blocks", "is 1 to 268435456")?;
        range((2..=MAX_TASKS).contains(&self.max_tasks), "max_tasks", "is 2 to 1024")?;
        range(self.mapping_ms > 0, "mapping_ms", "is at least 1")?;
        range(self.guard_ms > 0, "guard_ms", "is at least 1")?;
        range(self.guard_measurements >= 2, "guard_measurements", "is at least 2")?;
        range(self.guard_rounds > 0, "guard_rounds", "is at least 1")?;
        range(self.autopin_ms > 0, "autopin_ms", "is at least 1")?;
        range(self.batch > 0, "batch", "is at least 1")?;
        range(
            self.mapper.parse::<placement::PolicyKind>().is_ok(),
            "mapper",
            "is a policy of 'threadtalk place'",
        )?;
        let parts = [
            ("min_saving", self.min_saving),
            ("migration", self.migration),
            ("min_busy", self.min_busy),
            ("stall_share", self.stall_share),
            ("min_gain", self.min_gain),
            ("unproven_saving", self.unproven_saving),
            ("min_locality", self.min_locality),
            ("carrefour_min_local", self.carrefour_min_local),
        ];
        for (name, part) in parts {
            range((0.0..=1.0).contains(&part), name, "is a part, from 0 to 1")?;
        }
        let amounts = [
            ("sigmas", self.sigmas),
            ("min_events", self.min_events),
            ("thread_move_us", self.thread_move_us),
            ("max_balance", self.max_balance),
            ("filter", self.filter),
            ("carrefour_max_imbalance", self.carrefour_max_imbalance),
            ("page_move_us", self.page_move_us),
            ("max_mib_per_second", self.max_mib_per_second),
        ];
        for (name, amount) in amounts {
            range(amount.is_finite() && amount >= 0.0, name, "is not negative")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_those_of_the_tables() {
        let cdsm = Settings::of(Policy::Cdsm);
        let table_6_2 = (cdsm.block_bytes, cdsm.blocks, cdsm.mapping_ms, cdsm.data);
        assert_eq!(table_6_2, (256, 4 << 20, 200, false));
        let kmaf = Settings::of(Policy::Kmaf);
        assert_eq!((kmaf.block_bytes, kmaf.blocks, kmaf.mapping_ms), (256, 1 << 20, 200));
        assert_eq!((kmaf.min_locality, kmaf.max_balance, kmaf.filter), (0.8, 1.5, 2.0));
        for policy in Policy::ALL {
            Settings::of(policy).check().unwrap();
            assert_eq!(policy.name().parse::<Policy>().unwrap(), policy);
        }
    }

    #[test]
    fn every_constant_can_be_set_and_nonsense_is_refused() {
        let mut settings = Settings::default();
        settings.set("mapping_ms=50").unwrap();
        settings.set("mapper = eagermap").unwrap();
        settings.set("guard=false").unwrap();
        assert_eq!((settings.mapping_ms, settings.guard), (50, false));
        assert_eq!(settings.mapper, "eagermap");
        let before = settings.clone();
        for wrong in ["x=1", "mapping_ms", "mapping_ms=x", "mapping_ms=-1", "mapper=x", "blocks=0"]
        {
            assert!(settings.set(wrong).is_err(), "{wrong}");
        }
        assert!(settings.set("block_bytes=100").is_err() && settings.set("min_busy=2").is_err());
        assert_eq!(settings, before);
    }
}
