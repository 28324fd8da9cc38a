//! What became of each object between two runs, in words: whether a fix did what it should.
//!
//! Neighbours: `analysis` has matched and judged the objects, `text/difference.rs` and the page
//! show this.

use crate::objects::{Blocks, words};
use analysis::{Change, EventCount, Incomparable, ObjectChange, ObjectChanges};
use serde::Serialize;
use ts_rs::TS;
use types::numbers::{grouped, percent, short};

/// Less than this share of all events is not worth the first sentence.
const NOTABLE: f64 = 0.05;

/// The objects of two runs, A before and B after.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct Changes {
    /// What matters most, in one sentence or two.
    pub headline: String,
    /// Whether events are per second of the program's own time instead of the whole run.
    pub per_second: bool,
    /// RAW and WAW events in A and in B.
    pub all: [EventCount; 2],
    /// Of these, on no known object.
    pub unknown: [f64; 2],
    /// Most events in A or B first.
    pub list: Vec<ChangedObject>,
}

/// One object in both runs.
#[derive(Clone, PartialEq, Debug, Serialize, TS)]
pub struct ChangedObject {
    /// The object in words.
    pub object: String,
    /// What kind of memory.
    pub region: String,
    /// Its name, or the place that allocated it.
    pub name: String,
    /// Blocks in A and in B.
    pub blocks: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
    /// RAW and WAW events in A and in B.
    pub events: [EventCount; 2],
    /// Of these, false sharing.
    pub false_sharing: [EventCount; 2],
    /// What became of the events.
    pub change: Change,
    /// What became of the false sharing.
    pub false_change: Change,
    /// Both in a few words.
    pub text: String,
}

impl Changes {
    /// The changes in words.
    pub fn of(found: &ObjectChanges) -> Self {
        Self {
            headline: headline(found),
            per_second: found.per_second,
            all: found.all,
            unknown: found.unknown,
            list: found.list.iter().map(ChangedObject::of).collect(),
        }
    }
}

impl ChangedObject {
    fn of(found: &ObjectChange) -> Self {
        let ObjectChange { blocks, bytes, events, false_sharing, change, false_change, .. } =
            *found;
        Self {
            object: name(found),
            region: found.region.clone(),
            name: found.name.clone(),
            blocks,
            bytes,
            events,
            false_sharing,
            change,
            false_change,
            text: text(change, false_change),
        }
    }
}

fn name(found: &ObjectChange) -> String {
    // As it is in B, if it still has events there.
    name_in(found, usize::from(found.events[1].hits > 0))
}

/// Its name with its size, as in A (`side` 0) or in B (1).
fn name_in(found: &ObjectChange, side: usize) -> String {
    words(&found.region, &found.name, Blocks::new(found.blocks[side], found.bytes[side]))
}

/// What became of an object, in a few words.
fn text(change: Change, falsely: Change) -> String {
    let all = match change {
        Change::Nothing | Change::Same => "about the same",
        Change::Gone => "gone",
        Change::Less => "less",
        Change::More => "more",
        Change::New => "new",
        Change::NotEnough => "not enough to tell",
    };
    match (change, falsely) {
        (Change::Gone | Change::New | Change::NotEnough, _) => all.into(),
        (_, Change::Gone) => format!("{all}, false sharing gone"),
        (_, Change::New) => format!("{all}, false sharing new"),
        _ => all.into(),
    }
}

/// The most important change.
fn headline(found: &ObjectChanges) -> String {
    if let Some(why) = found.incomparable.filter(|why| !is_told(found, *why)) {
        return incomparable(why);
    }
    let all = found.all.map(|amount| amount.events.max(1.0));
    let notable = |side: usize, of: fn(&ObjectChange) -> &[EventCount; 2]| {
        let mut list: Vec<&ObjectChange> =
            found.list.iter().filter(|o| of(o)[side].events >= NOTABLE * all[side]).collect();
        list.sort_by(|x, y| of(y)[side].events.total_cmp(&of(x)[side].events));
        list
    };
    let falsely = |o: &ObjectChange| matches!(o.false_change, Change::New | Change::More);
    let before = notable(0, |o| &o.false_sharing).into_iter().next();
    let after = notable(1, |o| &o.false_sharing).into_iter().find(|o| falsely(o));
    let mut sentence = match (before, after) {
        (Some(object), _) => of_false_sharing(found, object, all[0]),
        (None, Some(object)) => new_false_sharing(object, all[1]),
        (None, None) => {
            let changed = |o: &&ObjectChange| !matches!(o.change, Change::Same | Change::Nothing);
            let mut list = notable(0, |o| &o.events);
            list.extend(notable(1, |o| &o.events));
            match list.into_iter().find(changed) {
                Some(object) => of_events(found, object),
                None => "No object has notably more or fewer events than before.".into(),
            }
        }
    };
    let moved = |a: &ObjectChange, b: &ObjectChange| {
        b.false_sharing[1].events >= 0.5 * a.false_sharing[0].events
    };
    if let (Some(a), Some(b)) = (before, after)
        && a.false_change == Change::Gone
        && moved(a, b)
    {
        sentence.push_str(&format!(
            " But there is as much on {} now: {} events.",
            name(b),
            number(b.false_sharing[1])
        ));
    }
    if let Some(Incomparable::Apart([a, b])) = found.incomparable {
        let (a, b) = (percent(a), percent(b));
        sentence.push_str(&format!(
            " Of the time in which threads could run at once, they did for {a} in A and for {b} in B, so other amounts \
             do not compare."
        ));
    }
    if let Some([a, b]) = found.seconds {
        sentence.push_str(&format!(
            " The run took {} s before and {} s after.",
            short(a),
            short(b)
        ));
    }
    sentence
}

/// Whether what became of the object with the most events is certain all the same.
fn is_told(found: &ObjectChanges, why: Incomparable) -> bool {
    found.list.first().is_some_and(|first| why.tells(first.change))
}

fn incomparable(why: Incomparable) -> String {
    let text = match why {
        Incomparable::Modes => {
            "Amounts do not compare: one run was recorded exactly and the other by samples. Record \
             both in the same way."
        }
        Incomparable::Blocks => {
            "Amounts do not compare: the runs were counted in blocks of different sizes. Record both \
             with the same --block."
        }
        Incomparable::LessDone => {
            "Amounts do not compare: B failed, and executed less than a quarter of A's instructions."
        }
        Incomparable::FewWindows => {
            "Amounts do not compare: there are not enough windows. Record both for longer, with a larger \
             --budget, or with --exact."
        }
        Incomparable::Apart([a, b]) => {
            return format!(
                "Amounts do not compare: of the time in which threads could run at once, they did for {} in A and for \
                 {} in B. Record both on processors that nothing else uses.",
                percent(a),
                percent(b)
            );
        }
    };
    text.into()
}

/// `9,000`; an estimate with its interval.
fn number(amount: EventCount) -> String {
    let EventCount { events, low, high, .. } = amount;
    match low < events || events < high {
        true => format!("{} ({} – {})", short(events), short(low), short(high)),
        false => grouped(events.round() as u64),
    }
}

/// `from 9,000 to 20 events`.
fn from_to(found: &ObjectChanges, [a, b]: [EventCount; 2]) -> String {
    let rate = if found.per_second { " per second" } else { "" };
    format!("from {} to {} events{rate}", number(a), number(b))
}

fn of_false_sharing(found: &ObjectChanges, object: &ObjectChange, all: f64) -> String {
    let share = percent(object.false_sharing[0].events / all);
    let what = format!("The false sharing on {} ({share} of all events)", name_in(object, 0));
    let amounts = from_to(found, object.false_sharing);
    let hidden = found.unknown[1] - found.unknown[0];
    match object.false_change {
        Change::Gone if hidden > 0.5 * object.false_sharing[0].events => format!(
            "{what} is not seen any more, but B has {} more events of no known object: that it is \
             gone cannot be said.",
            grouped(hidden.round() as u64)
        ),
        Change::Gone => format!("{what} is gone."),
        Change::Less => format!("{what} has decreased {amounts}."),
        Change::More | Change::New => format!("{what} has increased {amounts}."),
        Change::Same | Change::Nothing => format!(
            "{what} is still there: {} events before, {} after.",
            number(object.false_sharing[0]),
            number(object.false_sharing[1])
        ),
        Change::NotEnough => not_enough(&format!("{what} has changed")),
    }
}

fn new_false_sharing(object: &ObjectChange, all: f64) -> String {
    let amount = object.false_sharing[1];
    format!(
        "There is new false sharing on {}: {} events, {} of all in B.",
        name(object),
        number(amount),
        percent(amount.events / all)
    )
}

fn of_events(found: &ObjectChanges, object: &ObjectChange) -> String {
    let amounts = from_to(found, object.events);
    let name = name(object);
    match object.change {
        Change::Gone | Change::Less => format!("Events on {name} have decreased {amounts}."),
        Change::More | Change::New => format!("Events on {name} have increased {amounts}."),
        Change::NotEnough => not_enough(&format!("the communication on {name} has changed")),
        Change::Same | Change::Nothing => format!("Events on {name}: {amounts}."),
    }
}

fn not_enough(what: &str) -> String {
    let mut what = what.to_owned();
    if let Some(rest) = what.strip_prefix("The ") {
        what = format!("the {rest}");
    }
    format!(
        "There are not enough events to say whether {what}. Record both for longer, or exactly if \
         they are estimates."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(events: f64) -> EventCount {
        EventCount { events, low: events, high: events, hits: events as u64 }
    }

    fn object(name: &str, falsely: [f64; 2], change: Change) -> ObjectChange {
        ObjectChange {
            region: "static".into(),
            name: name.into(),
            blocks: [0; 2],
            bytes: [0; 2],
            events: falsely.map(amount),
            false_sharing: falsely.map(amount),
            change,
            false_change: change,
        }
    }

    fn said(list: Vec<ObjectChange>, all: [f64; 2], unknown: [f64; 2]) -> String {
        let all = all.map(amount);
        let found = ObjectChanges {
            incomparable: None,
            per_second: false,
            all,
            unknown,
            seconds: None,
            list,
        };
        Changes::of(&found).headline
    }

    #[test]
    fn what_became_of_the_largest_false_sharing_is_said() {
        let one =
            |falsely, change| said(vec![object("a (app)", falsely, change)], [9000.0; 2], [0.0; 2]);
        assert_eq!(
            one([8820.0, 3.0], Change::Gone),
            "The false sharing on a (app) (98 % of all events) is gone."
        );
        assert_eq!(
            one([8820.0, 880.0], Change::Less),
            "The false sharing on a (app) (98 % of all events) has decreased from 8,820 to 880 events."
        );
        assert!(
            one([8820.0, 8800.0], Change::Same)
                .ends_with("is still there: 8,820 events before, 8,800 after.")
        );
        assert!(
            one([900.0, 3.0], Change::NotEnough)
                .starts_with("There are not enough events to say whether the false")
        );
        assert_eq!(
            one([0.0, 4500.0], Change::New),
            "There is new false sharing on a (app): 4,500 events, 50 % of all in B."
        );
    }

    #[test]
    fn false_sharing_that_only_moved_is_not_called_solved() {
        let (gone, new) = (
            object("a (app)", [8000.0, 0.0], Change::Gone),
            object("b (app)", [0.0, 7000.0], Change::New),
        );
        let text = said(vec![gone.clone(), new], [9000.0, 8000.0], [0.0; 2]);
        assert!(
            text.ends_with("is gone. But there is as much on b (app) now: 7,000 events."),
            "{text}"
        );
        // It may be among what is not known.
        let text = said(vec![gone], [9000.0; 2], [0.0, 8000.0]);
        assert!(text.ends_with("that it is gone cannot be said."), "{text}");
    }

    #[test]
    fn nothing_notable_is_said_too() {
        let text = said(vec![object("a (app)", [100.0, 0.0], Change::Gone)], [9000.0; 2], [0.0; 2]);
        assert_eq!(text, "No object has notably more or fewer events than before.");
    }
}
