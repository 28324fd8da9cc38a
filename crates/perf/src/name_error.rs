//! Why a text names no event, and which names are like it.

use thiserror::Error;

/// How alike names are that are worth a word (0: not at all, 1: the same).
const ALIKE: f64 = 0.6;
/// Most names that are offered.
const MAX_NEAR: usize = 3;

/// Why a text names no event.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum NameError {
    #[error(
        "there is no event '{name}' on this machine{near}; events are named like r1643, \
         cpu/event=0x43,umask=0x16/, mem:0x404040/8:w or cycles"
    )]
    Unknown { name: String, near: String },
    #[error(
        "this machine has no unit '{unit}' that counts{near}; 'ls /sys/bus/event_source/devices' shows \
         those that it has"
    )]
    NoUnit { unit: String, near: String },
    #[error("'{unit}' has neither a field nor an event '{term}'{near}; 'ls {folder}' shows them")]
    NoTerm { unit: String, term: String, near: String, folder: String },
    #[error("'{value}' is no number for the field '{term}', which has {bits} bits")]
    Value { term: String, value: String, bits: u32 },
    #[error(
        "'{unit}' counts for the machine as a whole, not for its threads; name an event of the \
         processor's cores"
    )]
    NotOfThreads { unit: String },
    #[error(
        "'{text}' {why}; write memory to watch like mem:0x404040/8:w, or :rw for reads and writes"
    )]
    Memory { text: String, why: &'static str },
    #[error(
        "'{modifier}' cannot be asked for; programs are sampled without the kernel (u), and addresses from \
         the hardware are p, pp or ppp"
    )]
    Modifier { modifier: String },
}

/// A number, hexadecimal with 0x.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Which of `names` are like `name`, as the end of a phrase.
pub(crate) fn near(name: &str, names: impl Iterator<Item = String>) -> String {
    let part = name.len() > 2;
    let alike =
        |other: &String| match part && (other.contains(name) || name.contains(other.as_str())) {
            true => 1.0,
            false => strsim::normalized_damerau_levenshtein(name, other),
        };
    let mut found: Vec<(f64, String)> =
        names.map(|other| (alike(&other), other)).filter(|(alike, _)| *alike >= ALIKE).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.dedup();
    let listed: Vec<String> =
        found.into_iter().take(MAX_NEAR).map(|(_, name)| format!("'{name}'")).collect();
    if listed.is_empty() { String::new() } else { format!(", but {}", listed.join(", ")) }
}
