//! Whether the causes that a report names (`threadtalk report --json`) are those of the table.

use super::{Expected, Program};
use serde_json::Value;

/// A report beside what was expected of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Judged {
    /// Place of the cause about the right object, from 1; `None`: there is none.
    pub rank: Option<usize>,
    pub kind: bool,
    /// Whether the line that allocates the object is named; true of variables.
    pub object: bool,
    /// `None` where no field has a name.
    pub field: Option<bool>,
    /// Whether both sides are named with function and line, and no other code before them.
    pub sides: bool,
    /// Whether the report finds it worth a change.
    pub worth: bool,
    /// The cause about the right object, in short, or the first one.
    pub said: String,
}

impl Judged {
    /// Whether the first cause is the right one, in all its parts.
    pub fn is_right(&self) -> bool {
        self.rank == Some(1) && self.kind && self.object && self.sides && self.field != Some(false)
    }
}

/// The causes of a report.
///
/// # Errors
/// Says so when the report has no such list.
pub fn causes(report: &Value) -> Result<&[Value], String> {
    let list = report["causes"].as_array().or_else(|| report["causes"]["list"].as_array());
    list.map(Vec::as_slice).ok_or_else(|| "the report has no list of causes".to_owned())
}

/// In short what a report advises: its causes that are worth a change. Data that one thread makes
/// and another uses are none.
pub fn advised(causes: &[Value]) -> Vec<String> {
    let is_flaw = |cause: &&Value| is_worth(cause) && text(&cause["kind"]) != "transferred";
    causes.iter().filter(is_flaw).map(in_short).collect()
}

/// How the causes of a report compare with what is expected of the program.
pub fn judge(program: &Program, expected: &Expected, causes: &[Value]) -> Judged {
    // Of a barrier of OpenMP, the title names it.
    let about = |cause: &Value| {
        contains_one(text(&cause["object"]), expected.object)
            || contains_one(text(&cause["title"]), expected.object)
    };
    // Several objects may come from one function: the marked line tells them apart.
    let allocated = |cause: &Value| {
        let at: Vec<String> = places(program, "alloc");
        at.is_empty() || at.iter().any(|at| has_place(text(&cause["object"]), at))
    };
    let right = causes.iter().position(|cause| about(cause) && allocated(cause));
    let Some(rank) = right.or_else(|| causes.iter().position(about)) else {
        let said = causes.first().map(in_short).unwrap_or_default();
        return Judged { said, ..Judged::default() };
    };
    let cause = &causes[rank];
    let sides: Vec<&Value> = cause["sides"].as_array().into_iter().flatten().collect();
    let field = sides
        .iter()
        .flat_map(|side| [&side["fields"], &side["only_reads"]["fields"]])
        .flat_map(|fields| fields.as_array().into_iter().flatten())
        .any(|field| contains_one(text(field), expected.fields));
    Judged {
        rank: Some(rank + 1),
        kind: expected.kinds.contains(&text(&cause["kind"])),
        object: allocated(cause),
        field: (!expected.fields.is_empty()).then_some(field),
        sides: are_right(program, expected, &sides),
        worth: is_worth(cause),
        said: in_short(cause),
    }
}

/// Each expected side is there, and the two that are named first are expected.
fn are_right(program: &Program, expected: &Expected, sides: &[&Value]) -> bool {
    let is = |side: &Value, (mark, functions): &(&str, &[&str])| {
        let at = places(program, mark);
        let here = format!("{}:{}", text(&side["file"]), side["line"]);
        let callers = side["callers"].as_array().into_iter().flatten().map(text);
        let own = at.iter().any(|at| has_place(&here, at))
            && contains_one(text(&side["function"]), functions);
        own || callers.into_iter().any(|caller| {
            at.iter().any(|at| has_place(caller, at)) && contains_one(caller, functions)
        })
    };
    let expected_side = |side: &&Value| expected.sides.iter().any(|wanted| is(side, wanted));
    !sides.is_empty()
        && sides.iter().take(2).all(expected_side)
        && expected.sides.iter().all(|wanted| sides.iter().any(|side| is(side, wanted)))
}

/// `file.c:12` for each marked line.
fn places(program: &Program, mark: &str) -> Vec<String> {
    program.marked(mark).iter().map(|line| format!("{}:{line}", program.file)).collect()
}

/// Whether a text names the place, and not only one whose line begins with the same digits.
fn has_place(text: &str, place: &str) -> bool {
    text.match_indices(place)
        .any(|(at, _)| !text[at + place.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

fn contains_one(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_worth(cause: &Value) -> bool {
    cause["cost"]["worth"].as_bool().unwrap_or(false)
}

/// A cause in one line.
pub fn in_short(cause: &Value) -> String {
    let sides = cause["sides"].as_array().into_iter().flatten();
    let sides: Vec<String> = sides
        .map(|side| {
            let fields = side["fields"].as_array().into_iter().flatten().map(text);
            let fields: Vec<&str> = fields.take(4).collect();
            let (function, file) = (text(&side["function"]), text(&side["file"]));
            format!(
                "{} {} {function} {file}:{}",
                text(&side["does"]),
                fields.join("+"),
                side["line"]
            )
        })
        .collect();
    let cost = cause["cost"]["cpu_share"].as_f64().unwrap_or(0.0);
    format!(
        "{} of {} ({:.0} % of events, {:.1} % of CPU): {}",
        text(&cause["kind"]),
        text(&cause["object"]),
        100.0 * cause["share"].as_f64().unwrap_or(0.0),
        100.0 * cost,
        sides.join(" | ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::PROGRAMS;
    use serde_json::json;

    fn word_count() -> &'static Program {
        PROGRAMS.iter().find(|program| program.file == "word_count.c").unwrap()
    }

    /// What a report should say of `word_count`.
    fn cause(program: &Program) -> Value {
        let (alloc, line) = (program.marked("alloc")[0], program.marked("count")[0]);
        let side = json!({ "does": "update", "fields": ["[1].chars"], "function": "count",
            "file": "word_count.c", "line": line, "callers": [] });
        json!({ "kind": "false_sharing", "share": 0.9, "cost": { "cpu_share": 0.3, "worth": true },
            "object": format!("heap block of 96 bytes allocated in main at word_count.c:{alloc}"),
            "sides": [side.clone(), side] })
    }

    #[test]
    fn what_is_expected_is_right_and_each_part_can_be_wrong() {
        let program = word_count();
        let expected = program.expected.as_ref().unwrap();
        let judged = |cause: Value| judge(program, expected, &[cause]);
        assert!(judged(cause(program)).is_right(), "{:?}", judged(cause(program)));
        let changed = |path: &str, value: Value| {
            let mut cause = cause(program);
            *cause.pointer_mut(path).unwrap() = value;
            judged(cause)
        };
        assert!(!changed("/kind", json!("contended")).kind);
        assert!(!changed("/sides/1/line", json!(1)).sides);
        assert!(!changed("/sides/0/function", json!("other")).sides);
        assert_eq!(changed("/object", json!("x")).rank, None);
        let elsewhere = changed("/object", json!("allocated in main at word_count.c:1"));
        assert!(elsewhere.rank == Some(1) && !elsewhere.object);
        let other = json!({ "object": "y", "sides": [] });
        assert_eq!(judge(program, expected, &[other, cause(program)]).rank, Some(2));
    }

    #[test]
    fn a_side_may_be_named_by_its_caller() {
        let program = word_count();
        let expected = program.expected.as_ref().unwrap();
        let at = format!("count at word_count.c:{}", program.marked("count")[0]);
        let mut cause = cause(program);
        let in_library = json!({ "function": "add", "file": "lib.h", "line": 3, "callers": [at] });
        cause["sides"] = json!([in_library]);
        assert!(judge(program, expected, &[cause]).sides);
    }

    #[test]
    fn only_what_is_worth_a_change_is_advised() {
        let mut cause = cause(word_count());
        assert_eq!(advised(&[cause.clone()]).len(), 1);
        let mut passed_on = cause.clone();
        passed_on["kind"] = json!("transferred");
        assert!(advised(&[passed_on]).is_empty());
        cause["cost"]["worth"] = json!(false);
        assert!(advised(&[cause]).is_empty());
    }
}
