//! What allocated memory is, in words.
//!
//! Neighbour: `objects` asks.

use crate::allocated::RawBlock;
use profile::ObjectRow;
use types::numbers::grouped;

/// Bytes of the lines of memory in a profile.
const LINE_BYTES: u64 = 64;
/// The same lines of text appear for many blocks: which of them they are does not say more.
const MANY_BLOCKS: u64 = 2;

/// The region of what lies first, and the texts of all. Processes that share memory tell the same
/// of it, and the one that has allocated it tells more.
pub fn joined(told: Vec<(String, String)>) -> (String, String) {
    let region = told.first().map_or(String::new(), |(region, _)| region.clone());
    let mut texts: Vec<String> = Vec::new();
    for (_, text) in told {
        let tells = |more: &str, less: &str| {
            more.strip_prefix(less).is_some_and(|rest| rest.is_empty() || rest.starts_with(", by "))
        };
        match texts.iter_mut().find(|known| tells(known, &text) || tells(&text, known)) {
            Some(known) if known.len() < text.len() => *known = text,
            Some(_) => {}
            None => texts.push(text),
        }
    }
    (region, texts.join("; "))
}

/// `heap block` or `mapping`, and `allocated in f at f.c:7`.
fn what_and_where(object: &ObjectRow) -> (&'static str, String) {
    let (what, made) = match object.region.as_str() {
        "anonymous" => ("mapping", "made"),
        _ => ("heap block", "allocated"),
    };
    let place = match object.name.as_str() {
        "" => String::new(),
        name => format!(" {made} {name}"),
    };
    (what, place)
}

/// `heap block allocated in f at f.c:7`.
pub fn described(object: &ObjectRow) -> String {
    let (what, place) = what_and_where(object);
    what.to_owned() + &place
}

/// `heap block of 400 bytes allocated in f at f.c:7, bytes 0x40..0x80, number 3 by T1`; `one` if
/// there was only one at that address.
pub fn block_text(
    object: &ObjectRow,
    one: Option<&RawBlock>,
    line: u64,
    start: u64,
    bytes: u64,
) -> String {
    let (what, name) = what_and_where(object);
    let first = line.saturating_sub(start);
    let end = (line + LINE_BYTES - start).min(bytes);
    let part = match (first, end) {
        (0, end) if end == bytes => String::new(),
        (first, end) => format!(", bytes {first:#x}..{end:#x}"),
    };
    let number = one.filter(|_| object.blocks >= MANY_BLOCKS);
    let number = number.map_or(String::new(), |b| format!(", number {}", grouped(b.ordinal + 1)));
    let by = one.filter(|b| b.thread != u32::MAX);
    let by = by.map_or(String::new(), |b| format!(", by T{}", b.thread));
    format!("{what} of {} bytes{name}{part}{number}{by}", grouped(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> String {
        joined(texts.iter().map(|text| (String::from("anonymous"), (*text).into())).collect()).1
    }

    #[test]
    fn what_several_processes_tell_alike_is_told_once() {
        let (mapping, by) = ("mapping of 9 bytes made in f", "mapping of 9 bytes made in f, by T0");
        assert_eq!(of(&[mapping, mapping]), mapping);
        assert_eq!(of(&[mapping, by, mapping]), by);
        assert_eq!(of(&[by, mapping]), by);
        let other = "mapping of 9 bytes made in f, bytes 0x0..0x40";
        assert_eq!(of(&[mapping, other]), format!("{mapping}; {other}"));
    }
}
