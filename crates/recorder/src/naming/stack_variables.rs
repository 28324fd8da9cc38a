//! Variables on the stacks of threads, from the functions that were running there.
//!
//! The agent notes the frames of functions that other threads may share variables of
//! (`wire::stacks`); debug information says where in a frame each variable is. A place on a stack
//! belongs to one function after the other, so several variables may be found there. Then the code
//! of an event decides, or its threads ([`at_byte`]).
//!
//! Neighbours: `session` has the frames, the crate `symbols` the variables; `objects` asks by way
//! of `places`.

use crate::error::RecorderError;
use crate::places::Lying;
use crate::session::Session;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering::Acquire;
use symbols::{Base, Element, Local};
use wire::session::{FRAMES_OFFSET, Header};
use wire::stacks::{MAX_FRAMES, StackFrame};

/// Bytes of the lines of memory in a profile.
const LINE_BYTES: u64 = 64;
/// Most frames above a line that are looked at, the nearest.
const MAX_LOOKED_AT: usize = 256;

/// The frame of a function that was running.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct RawFrame {
    /// The stack pointer before it was called.
    end: u64,
    /// The stack pointer and %rbp in it.
    low: u64,
    rbp: u64,
    /// Where in it.
    code: u64,
    /// As the agent has them.
    created: [u32; 2],
}

/// A variable in a line of a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnStack {
    /// Its bytes of the line.
    pub bytes: Range<u64>,
    /// Where it lies in the process.
    pub variable: Range<u64>,
    /// `sums (stack of T0 in work)`.
    pub name: String,
    /// The function whose variable it is.
    pub function: String,
    /// Threads that were created while it was running, from the first to the last.
    pub created: Range<u32>,
}

impl OnStack {
    /// The same as what lies in the line.
    pub fn lying(&self) -> Lying {
        let (bytes, variable) = (self.bytes.clone(), self.variable.clone());
        Lying { bytes, region: "stack".into(), name: self.name.clone(), variable }
    }

    /// What lies in the line at an address: `sums+0x0..0x40 (stack of T0 in work)`.
    pub fn text(&self, line: u64) -> String {
        let Range { start, end } = self.variable;
        let part = line.max(start) - start..(line + LINE_BYTES).min(end) - start;
        match self.name.split_once(" (") {
            Some((name, rest)) if part != (0..end - start) => {
                format!("{name}+{:#x}..{:#x} ({rest}", part.start, part.end)
            }
            _ => self.name.clone(),
        }
    }
}

/// The names of a function and of those that are inlined where it is, the outermost first; and
/// their variables.
type Locals = (Vec<String>, Vec<Local>);

/// The frames of a process, and what has been found in them.
#[derive(Default)]
pub struct StackVariables {
    /// By end.
    frames: Vec<RawFrame>,
    /// Number of the process's first thread in the profile.
    first: u32,
    /// By code address.
    locals: RefCell<HashMap<u64, Rc<Option<Locals>>>>,
    /// By where a variable begins and the name of its object.
    elements: RefCell<HashMap<(u64, String), Element>>,
}

impl StackVariables {
    /// Reads what the agent has left.
    pub fn read(session: &Session, header: &Header) -> Result<Self, RecorderError> {
        let bytes = size_of::<StackFrame>() / 8;
        let count = (header.frames.load(Acquire) as usize).min(MAX_FRAMES);
        let words = session.words(FRAMES_OFFSET, count * bytes)?;
        let frame = |words: &[u64]| RawFrame {
            code: words[0],
            low: words[1],
            rbp: words[2],
            end: words[3],
            created: [words[4] as u32, (words[4] >> 32) as u32],
        };
        Ok(Self::new(words.chunks_exact(bytes).map(frame).collect()))
    }

    fn new(mut frames: Vec<RawFrame>) -> Self {
        frames.retain(|frame| frame.end != 0);
        frames.sort_unstable();
        Self { frames, ..Self::default() }
    }

    /// The same where threads are numbered from `first` on.
    pub fn counted_from(self, first: u32) -> Self {
        Self { first, ..self }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The variables in a line of the stack that is `owner`, those of inner functions first.
    /// `locals` finds those of the function at a code address.
    pub fn in_line(
        &self,
        line: u64,
        owner: &str,
        locals: &dyn Fn(u64) -> Option<Locals>,
    ) -> Vec<OnStack> {
        let mut found: BTreeMap<(u64, String), OnStack> = BTreeMap::new();
        let above = self.frames.partition_point(|frame| frame.end <= line);
        for frame in self.frames[above..].iter().take(MAX_LOOKED_AT) {
            let known = self.of_function(frame.code, locals);
            let Some((functions, variables)) = &*known else { continue };
            for variable in variables {
                let base = match variable.base {
                    Base::Frame => frame.end,
                    Base::StackPointer => frame.low,
                    Base::Rbp => frame.rbp,
                };
                let start = base.wrapping_add_signed(variable.offset);
                let Some(end) = start.checked_add(variable.bytes) else { continue };
                if end <= line || start >= line + LINE_BYTES {
                    continue;
                }
                let Some(function) = functions.get(variable.depth) else { continue };
                let name = format!("{} ({owner} in {function})", variable.name);
                if let Some(element) = &variable.element {
                    let key = (start, name.clone());
                    self.elements.borrow_mut().insert(key, element.clone());
                }
                let bytes = start.saturating_sub(line)..(end - line).min(LINE_BYTES);
                let (variable, function) = (start..end, function.clone());
                let of_name = name.clone();
                let created = self.created(frame);
                let new = || OnStack { bytes, variable, name, function, created: created.clone() };
                let one = found.entry((start, of_name)).or_insert_with(new);
                one.created = joined(&one.created, &created);
            }
        }
        found.into_values().collect()
    }

    /// The threads that were created while the function of a frame was running, in the numbers of
    /// the profile.
    fn created(&self, frame: &RawFrame) -> Range<u32> {
        match frame.created {
            [0, _] => 0..0,
            [first, last] => self.first + first - 1..self.first + last,
        }
    }

    fn of_function(&self, code: u64, locals: &dyn Fn(u64) -> Option<Locals>) -> Rc<Option<Locals>> {
        let mut known = self.locals.borrow_mut();
        Rc::clone(known.entry(code).or_insert_with(|| Rc::new(locals(code))))
    }

    /// What a variable that was found consists of.
    pub fn element(&self, start: u64, name: &str) -> Option<Element> {
        self.elements.borrow().get(&(start, name.to_owned())).cloned()
    }
}

/// Both ranges and what is between.
fn joined(one: &Range<u32>, other: &Range<u32>) -> Range<u32> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.clone(),
        (_, true) => one.clone(),
        _ => one.start.min(other.start)..one.end.max(other.end),
    }
}

/// The variable that a byte of a line is of: the only one there, or of several that of the function
/// from which the code at one of the `sites` comes, or that was running when one of the `threads`
/// was created.
pub fn at_byte<'a>(
    variables: &'a [OnStack],
    byte: u64,
    sites: &[&str],
    threads: &[u32],
) -> Option<&'a OnStack> {
    let there: Vec<&OnStack> = variables.iter().filter(|v| v.bytes.contains(&byte)).collect();
    let by_code = |one: &OnStack| sites.iter().any(|site| is_of(site, &one.function));
    let by_thread = |one: &OnStack| threads.iter().any(|thread| one.created.contains(thread));
    only(&there, &|_| true).or_else(|| only(&there, &by_code)).or_else(|| only(&there, &by_thread))
}

/// The one of the variables that is so, if there is just one.
fn only<'a>(there: &[&'a OnStack], is_so: &dyn Fn(&OnStack) -> bool) -> Option<&'a OnStack> {
    let mut found = there.iter().filter(|one| is_so(one));
    match (found.next(), found.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    }
}

/// Whether a function is another or was made from it: `work._omp_fn.0` from `work`,
/// `main::{lambda()#1}::operator()` from `main`.
fn is_of(function: &str, other: &str) -> bool {
    let rest = function.strip_prefix(other);
    !other.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(name: &str, base: Base, offset: i64, bytes: u64) -> Local {
        let depth = usize::from(name == "x");
        Local { name: name.into(), depth, base, offset, bytes, element: None }
    }

    fn found(line: u64) -> Vec<OnStack> {
        let frame = |code, low, end| RawFrame { code, low, rbp: low + 0x10, end, created: [3, 4] };
        let frames = [frame(1, 0x1000, 0x1100), frame(2, 0x1080, 0x1100), frame(3, 0x1100, 0x1200)];
        let locals = |code| {
            Some(match code {
                1 => (vec!["work".into()], vec![local("sums", Base::Frame, -0xc0, 0x40)]),
                2 => (
                    vec!["all".into(), "other".into()],
                    vec![local("x", Base::StackPointer, 0x8, 8)],
                ),
                3 => (vec!["main".into()], vec![local("all", Base::Rbp, -0x10, 0x80)]),
                _ => return None,
            })
        };
        StackVariables::new(frames.to_vec()).in_line(line, "stack of T0", &locals)
    }

    #[test]
    fn variables_lie_where_their_functions_frames_say() {
        let lines = [0x1000, 0x1040, 0x1080, 0x10c0, 0x1100].map(found);
        let names = lines.each_ref().map(|line| {
            let texts = line.iter().map(|one| format!("{} {:?}", one.name, one.bytes));
            texts.collect::<Vec<_>>().join("; ")
        });
        assert_eq!(
            names,
            [
                "",
                "sums (stack of T0 in work) 0..64",
                "x (stack of T0 in other) 8..16",
                "",
                "all (stack of T0 in main) 0..64"
            ]
        );
        assert_eq!((&lines[4][0].variable, &lines[4][0].created), (&(0x1100..0x1180), &(2..4)));
    }

    #[test]
    fn code_decides_between_functions_that_had_the_place_in_turn() {
        let one = |function: &str, bytes, created| OnStack {
            bytes,
            variable: 0..0,
            name: function.into(),
            function: function.into(),
            created,
        };
        let both = [one("work", 0..16, 1..3), one("worker", 8..64, 3..5)];
        let at = |byte, sites: &[&str], threads: &[u32]| {
            at_byte(&both, byte, sites, threads).map(|one| &*one.name)
        };
        assert_eq!(at(0, &[], &[]), Some("work"), "alone");
        assert_eq!(at(8, &["work._omp_fn.0"], &[]), Some("work"));
        assert_eq!(at(8, &["worker::{lambda()#1}::operator()"], &[1]), Some("worker"));
        assert_eq!(at(8, &["somebody"], &[]), None);
        assert_eq!(at(8, &["work", "worker"], &[]), None);
        assert_eq!(at(8, &["somebody"], &[0, 4]), Some("worker"), "its threads");
        assert_eq!(at(8, &["somebody"], &[2, 3]), None);
    }
}
