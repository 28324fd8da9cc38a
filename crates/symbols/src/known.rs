//! Answers of earlier runs about one file, so that its DWARF need not be read again.
//!
//! Problem: the first question about a file costs its whole debug information, unpacked and looked
//! through, which takes longer than many programs run. Approach: what was asked once is kept as
//! text, a line for each answer; of a text that was kept only the beginnings of its lines are
//! looked at until a caller asks.
//!
//! Neighbours: `module` asks here first; the caller that keeps the text must make sure that it is
//! still true (the files that a `Keeper` is told of have not changed).

use crate::allocated::Allocated;
use crate::elements::{Element, ElementField, Items};
use crate::module::Place;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::path::PathBuf;

/// Begins the text; changes with its form, and with what names look like.
const HEAD: &str = "threadtalk names 3\n";
/// A text of more than this many bytes begins anew with what was asked last.
const MAX_BYTES: usize = 4 << 20;
/// Of more fields, those of large arrays, the rest is asked for again: to read that many answers
/// takes longer.
const MAX_FIELDS: usize = 1024;

/// Keeps answers from run to run.
pub trait Keeper: Send + Sync {
    /// What was kept about a file whose answers depend on the files `sources`, while those were
    /// what they are now.
    fn recall(&self, sources: &[PathBuf]) -> Known;
    /// Keeps all that is known about such a file, [`Known::text`].
    fn keep(&self, sources: &[PathBuf], text: &str);
}

/// What was asked, with numbers as in the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Question {
    /// Of the code at a byte of the file.
    Place(u64),
    /// Of the object at an address, the field at an offset.
    Field(u64, u64),
    /// Of the object at an address, what it consists of.
    Element(u64),
    /// Of the call that returns to a byte of the file, what it allocates.
    Allocated(u64),
}

/// Name of a field and the offsets that it covers; `None` where there is none.
pub(crate) type Field = Option<(String, Range<u64>)>;

/// What is known about one file.
#[derive(Clone, Debug)]
pub struct Known {
    text: String,
    /// Where in the text the answers are.
    answers: FxHashMap<Question, Range<usize>>,
    /// How many of them are about fields.
    fields: usize,
    /// Bytes of the text that were known before.
    before: usize,
}

impl Default for Known {
    fn default() -> Self {
        Self { text: HEAD.into(), answers: FxHashMap::default(), fields: 0, before: HEAD.len() }
    }
}

impl Known {
    /// From a text as [`text`](Self::text) gives it; nothing of what is no such text.
    pub fn of_text(text: String) -> Self {
        if !text.starts_with(HEAD) || !text.ends_with('\n') || text.len() > MAX_BYTES {
            return Self::default();
        }
        let mut answers = FxHashMap::default();
        let mut start = HEAD.len();
        for line in text[HEAD.len()..].split_terminator('\n') {
            if let Some((question, bytes)) = question_of(line) {
                answers.insert(question, start + bytes..start + line.len());
            }
            start += line.len() + 1;
        }
        let fields = answers.keys().filter(|question| matches!(question, Question::Field(..)));
        Self { before: text.len(), fields: fields.count(), text, answers }
    }

    /// All that is known; `None` if that is not more than before.
    pub fn text(&self) -> Option<&str> {
        (self.text.len() != self.before).then_some(&self.text)
    }

    pub(crate) fn place(&self, offset: u64) -> Option<Place> {
        let answer = self.answer(Question::Place(offset))?;
        let mut parts = answer.split('\t');
        let line = parts.next()?.parse().ok()?;
        let mut name = || parts.next().map(str::to_owned);
        Some(Place { line, function: name()?, file: name()?, inlined: name()? })
    }

    pub(crate) fn note_place(&mut self, offset: u64, place: &Place) {
        let Place { line, function, file, inlined } = place;
        let answer = format!("{line}\t{function}\t{file}\t{inlined}");
        self.note(Question::Place(offset), &answer, [function, file, inlined]);
    }

    /// `None` if that was not asked before.
    pub(crate) fn field(&self, address: u64, offset: u64) -> Option<Field> {
        let answer = self.answer(Question::Field(address, offset))?;
        if answer.is_empty() {
            return Some(None);
        }
        let mut parts = answer.split('\t');
        let start = parts.next()?.parse().ok()?;
        let end = parts.next()?.parse().ok()?;
        Some(Some((parts.next()?.to_owned(), start..end)))
    }

    pub(crate) fn note_field(&mut self, address: u64, offset: u64, field: &Field) {
        if self.fields >= MAX_FIELDS {
            return;
        }
        self.fields += 1;
        let answer = match field {
            Some((name, range)) => format!("{}\t{}\t{name}", range.start, range.end),
            None => String::new(),
        };
        let name = field.as_ref().map_or("", |(name, _)| name);
        self.note(Question::Field(address, offset), &answer, [name]);
    }

    /// `None` if that was not asked before.
    pub(crate) fn element(&self, address: u64) -> Option<Option<Element>> {
        let answer = self.answer(Question::Element(address))?;
        if answer.is_empty() { Some(None) } else { element_of(answer).map(Some) }
    }

    pub(crate) fn note_element(&mut self, address: u64, element: Option<&Element>) {
        let answer = element.map_or(String::new(), element_text);
        let names = element.map(names_of).unwrap_or_default();
        self.note(Question::Element(address), &answer, [&names]);
    }

    /// `None` if that was not asked before.
    pub(crate) fn allocated(&self, offset: u64) -> Option<Option<Allocated>> {
        let answer = self.answer(Question::Allocated(offset))?;
        if answer.is_empty() {
            return Some(None);
        }
        let mut parts = answer.split('\u{1}');
        let mut words = parts.next()?.split(' ');
        let returned = words.next()? == "returned";
        let (header, raw) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let candidates = parts.map(element_of).collect::<Option<_>>()?;
        Some(Some(Allocated { candidates, returned, header, raw }))
    }

    pub(crate) fn note_allocated(&mut self, offset: u64, allocated: Option<&Allocated>) {
        let (mut answer, mut names) = (String::new(), String::new());
        if let Some(Allocated { candidates, returned, header, raw }) = allocated {
            answer += &format!("{} {header} {raw}", if *returned { "returned" } else { "kept" });
            for element in candidates {
                answer += "\u{1}";
                answer += &element_text(element);
                names += &names_of(element);
            }
        }
        self.note(Question::Allocated(offset), &answer, [&names]);
    }

    fn answer(&self, question: Question) -> Option<&str> {
        self.text.get(self.answers.get(&question)?.clone())
    }

    /// Names that the text could not hold are asked for again.
    fn note<const N: usize>(&mut self, question: Question, answer: &str, names: [&str; N]) {
        if names.iter().any(|name| name.contains(['\t', '\n', '\u{1}'])) {
            return;
        }
        let line = match question {
            Question::Place(offset) => format!("p{offset:x}\t"),
            Question::Field(address, offset) => format!("f{address:x}.{offset:x}\t"),
            Question::Element(address) => format!("e{address:x}\t"),
            Question::Allocated(offset) => format!("a{offset:x}\t"),
        };
        if self.text.len() + line.len() + answer.len() >= MAX_BYTES {
            *self = Self::default();
        }
        self.text.push_str(&line);
        let start = self.text.len();
        self.text.push_str(answer);
        self.answers.insert(question, start..self.text.len());
        self.text.push('\n');
    }
}

/// `NAME\tBYTES\tSTART\tBYTES\tOFFSET\tBYTES\tNAME…`: of the element, of items that follow it (0
/// where there are none), and of fields.
fn element_text(element: &Element) -> String {
    let (start, each) = element.items.map_or((0, 0), |items| (items.start, items.bytes));
    let mut text = format!("{}\t{}\t{start}\t{each}", element.name, element.bytes);
    for ElementField { offset, bytes, name } in &element.fields {
        text += &format!("\t{offset}\t{bytes}\t{name}");
    }
    text
}

fn element_of(text: &str) -> Option<Element> {
    let mut parts = text.split('\t');
    let name = parts.next()?.to_owned();
    let bytes = parts.next()?.parse().ok()?;
    let (start, each) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let items = (each > 0).then_some(Items { start, bytes: each });
    let mut fields = Vec::new();
    while let Some(offset) = parts.next() {
        let (offset, bytes) = (offset.parse().ok()?, parts.next()?.parse().ok()?);
        fields.push(ElementField { offset, bytes, name: parts.next()?.to_owned() });
    }
    Some(Element { name, bytes, fields, items })
}

/// All names in it.
fn names_of(element: &Element) -> String {
    let fields = element.fields.iter().map(|field| field.name.as_str());
    fields.chain([element.name.as_str()]).collect()
}

/// What a line answers, and the bytes before the answer.
fn question_of(line: &str) -> Option<(Question, usize)> {
    let (question, _) = line.split_once('\t')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let known = match question.split_at_checked(1)? {
        ("p", offset) => Question::Place(number(offset)?),
        ("e", address) => Question::Element(number(address)?),
        ("a", offset) => Question::Allocated(number(offset)?),
        ("f", both) => {
            let (address, offset) = both.split_once('.')?;
            Question::Field(number(address)?, number(offset)?)
        }
        _ => return None,
    };
    Some((known, question.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str) -> Place {
        Place {
            function: function.into(),
            file: "/src/ä b.c".into(),
            line: 7,
            inlined: "g at f.c:10; h at f.c:20".into(),
        }
    }

    #[test]
    fn what_was_noted_is_known_and_what_was_kept_is_known_again() {
        let mut known = Known::default();
        assert_eq!((known.text(), known.place(0x40)), (None, None));
        known.note_place(0x40, &place("f"));
        known.note_place(0x50, &Place::default());
        known.note_field(0x4010, 8, &Some((".count".into(), 8..12)));
        known.note_field(0x4010, 16, &None);
        let again = Known::of_text(known.text().unwrap().to_owned());
        assert_eq!(again.text(), None, "nothing is new");
        for known in [known, again] {
            assert_eq!(known.place(0x40), Some(place("f")));
            assert_eq!(known.place(0x50), Some(Place::default()));
            assert_eq!(known.place(0x48), None);
            assert_eq!(known.field(0x4010, 8), Some(Some((".count".into(), 8..12))));
            assert_eq!(known.field(0x4010, 16), Some(None));
            assert_eq!(known.field(0x40, 0), None);
        }
    }

    #[test]
    fn elements_and_allocations_are_known_again() {
        let field = |offset, name: &str| ElementField { offset, bytes: 4, name: name.into() };
        let fields = vec![field(0, "lock.owner"), field(4, "tail[2]")];
        let items = Some(Items { start: 8, bytes: 24 });
        let element = Element { name: "struct a".into(), bytes: 8, fields, items };
        let scalar = Element { name: "long".into(), bytes: 8, ..Element::default() };
        let both = Allocated {
            candidates: vec![element.clone(), scalar],
            returned: false,
            header: 0,
            raw: 0,
        };
        let none = Allocated { candidates: Vec::new(), returned: true, header: 16, raw: 2 };
        let mut known = Known::default();
        known.note_element(0x4010, Some(&element));
        known.note_element(0x4020, None);
        known.note_allocated(0x40, Some(&both));
        known.note_allocated(0x50, Some(&none));
        known.note_allocated(0x60, None);
        let again = Known::of_text(known.text().unwrap().to_owned());
        assert_eq!(again.element(0x4010), Some(Some(element)));
        assert_eq!((again.element(0x4020), again.element(0x4030)), (Some(None), None));
        assert_eq!(again.allocated(0x40), Some(Some(both)));
        assert_eq!(again.allocated(0x50), Some(Some(none)));
        assert_eq!((again.allocated(0x60), again.allocated(0x70)), (Some(None), None));
    }

    #[test]
    fn names_that_would_break_lines_are_not_kept() {
        let mut known = Known::default();
        known.note_place(0x40, &place("a\tb"));
        known.note_field(0x4010, 8, &Some(("c\nd".into(), 8..12)));
        assert_eq!((known.text(), known.place(0x40)), (None, None));
    }

    #[test]
    fn other_texts_and_damaged_ones_say_nothing_that_was_not_said() {
        let mut known = Known::default();
        known.note_place(0x40, &place("f"));
        let text = known.text().unwrap().to_owned();
        let other = text.replace("names 3", "names 0");
        for text in ["".into(), "p40\t7\tf\tf.c\t\n".into(), other, text[..text.len() - 1].into()] {
            assert_eq!(Known::of_text(text).place(0x40), None);
        }
        for line in ["p", "p\t", "pzz\t1\ta\tb\tc", "p40", "p40\t1\ta", "f40\t", "x1\t\t\t"] {
            assert_eq!(Known::of_text(format!("{HEAD}{line}\n")).place(0x40), None, "{line}");
        }
    }

    #[test]
    fn of_a_large_array_the_first_elements_are_known() {
        let mut known = Known::default();
        let most = MAX_FIELDS as u64;
        let field = |k: u64| Some((format!("[{k}]"), 4 * k..4 * k + 4));
        for k in 0..2 * most {
            known.note_field(0x4010, 4 * k, &field(k));
        }
        known.note_place(0x40, &place("f"));
        let text = known.text().unwrap().to_owned();
        for known in [known, Known::of_text(text)] {
            assert_eq!(known.field(0x4010, 4 * (most - 1)), Some(field(most - 1)));
            assert_eq!(known.field(0x4010, 4 * most), None);
            assert_eq!((known.fields, known.place(0x40)), (MAX_FIELDS, Some(place("f"))));
        }
    }

    #[test]
    fn too_much_begins_anew() {
        let mut known = Known::default();
        let long = "f".repeat(MAX_BYTES / 4);
        for offset in 0..6 {
            known.note_place(offset, &place(&long));
        }
        assert!(known.text.len() <= MAX_BYTES);
        assert_eq!((known.place(0), known.place(5)), (None, Some(place(&long))));
        assert!(known.text().is_some());
    }
}
