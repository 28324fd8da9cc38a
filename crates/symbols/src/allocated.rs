//! The type of what a call has allocated, from where its result goes.
//!
//! DWARF does not say what an allocation is for, but it says the types of variables, members and
//! parameters. So the code behind the call is followed: the types to which the first places point
//! that hold the result (a variable, a member, a parameter of a function that is called, what the
//! function returns) are candidates, in this order of time. For containers of C++ and Rust it is
//! the parameter of the template that allocates. Whether a candidate is meant is decided by those
//! who know the sizes of the blocks.
//!
//! Neighbours: `scopes` has what DWARF says about a function, `steps` follows its code, `fields`
//! reads types; `module` asks.

use crate::elements::{Element, element};
use crate::fields::{Types, language};
use crate::scopes::{Function, Loc, Variable};
use crate::steps::{Place, State, Step, Val, Walk};
use gimli::UnitOffset;
use gimli::constants as dw;
use std::collections::{HashSet, VecDeque};

/// Instructions that are followed before and behind the call.
const MAX_BEFORE: usize = 20_000;
const MAX_BEHIND: usize = 250;
/// Most types that are told.
const MAX_CANDIDATES: usize = 4;
/// Types within types that are followed.
const MAX_DEPTH: u32 = 16;

/// What is known of the result of a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allocated {
    /// Types that it may have, the likeliest first.
    pub candidates: Vec<Element>,
    /// The function passes it on to its caller, which may know more.
    pub returned: bool,
    /// Bytes of a header behind which the part begins that goes to the caller; 0: all of it does.
    pub header: u64,
    /// How many functions at the call, from the innermost inlined one on, hand on memory without a
    /// type to their callers.
    pub raw: u32,
}

/// What finds the result's types in one function.
pub(crate) struct Search<'a> {
    pub function: &'a Function<'a>,
    pub types: Types<'a>,
    /// The function's code, from its first address on.
    pub code: &'a [u8],
    /// The call stores its result where its first argument points to.
    pub by_pointer: bool,
    /// The type of the variable that begins at a link-time address, if this unit knows it.
    pub static_type: &'a dyn Fn(u64) -> Option<(u64, UnitOffset)>,
    /// The name of the function that begins at a link-time address.
    pub name_of: &'a dyn Fn(u64) -> Option<String>,
}

/// Functions of the C library that return their first argument.
const RETURN_THEIR_FIRST: [&str; 8] = [
    "memset",
    "memcpy",
    "memmove",
    "strcpy",
    "strncpy",
    "__memset_chk",
    "__memcpy_chk",
    "__memmove_chk",
];

/// A pointer into what was allocated that goes somewhere.
struct Inside {
    /// From its beginning, bytes; not 0.
    offset: u64,
    /// What it points to; empty where that has no type.
    of: String,
    /// It goes to the caller.
    returned: bool,
}

/// Adds the type at `at`, if it tells anything and there is room.
fn add(found: &mut Allocated, types: &Types<'_>, at: UnitOffset) {
    let Some(element) = element(types.dwarf, types.unit, at) else { return };
    // Bytes, and what is not told.
    if element.bytes < 2 || element.name.is_empty() {
        return;
    }
    let known = found.candidates.iter().any(|known| known.name == element.name);
    if !known && found.candidates.len() < MAX_CANDIDATES {
        found.candidates.push(element);
    }
}

impl Search<'_> {
    /// Of the call that returns to `after`.
    pub fn allocated(&self, after: u64) -> Allocated {
        let mut inside = Vec::new();
        let mut found = self.types_of(after, &mut inside);
        // What lies behind a header is of another type.
        let handed = inside.iter().find(|inside| inside.returned);
        if let Some(inside) = handed.filter(|_| !found.returned && found.candidates.is_empty()) {
            (found.returned, found.header) = (true, inside.offset);
        }
        let passes = found.returned && found.candidates.is_empty();
        found.raw = self.function.raw_at(after - 1, passes);
        found
    }

    fn types_of(&self, after: u64, inside: &mut Vec<Inside>) -> Allocated {
        let mut found = Allocated::default();
        if let Some((types, at)) = self.function.of_template(after - 1) {
            add(&mut found, &types, at);
        }
        let of_template = found.candidates.len();
        let (mut before, first_argument) = self.before(after);
        if self.by_pointer {
            let place = self.stored_at(&first_argument, after);
            if let Some(at) = place.and_then(|(of, offset)| self.pointer_at(of, offset, 0)) {
                self.add(&mut found, at);
            }
            if let Val::Frame(offset) = first_argument {
                before.set_slot(offset, Val::Result(0));
                self.behind(after, before, &mut found, inside);
            }
            return found;
        }
        before.after_call();
        before.set(0, Val::Result(0));
        self.behind(after, before, &mut found, inside);
        let candidates = found.candidates.into_iter().enumerate();
        let kept = candidates.filter(|(place, of)| *place < of_template || !is_header(of, inside));
        found.candidates = kept.map(|(_, of)| of).collect();
        if language(self.types.unit) == Some(dw::DW_LANG_Rust) {
            // Its variables point to parts of what was allocated, too.
            found.candidates.truncate(of_template);
        }
        if self.function.is_library() {
            found.returned = true;
        }
        found
    }

    fn add(&self, found: &mut Allocated, at: UnitOffset) {
        add(found, &self.types, at);
    }

    /// What registers hold behind the call, and what the first argument was.
    fn before(&self, after: u64) -> (State, Val) {
        let walk = Walk { start: self.function.low, code: self.code };
        let mut left = VecDeque::from([(self.function.low, State::at_entry())]);
        let mut seen = HashSet::new();
        let (mut last, mut argument) = (State::default(), Val::Unknown);
        while let Some((at, mut state)) = left.pop_front() {
            if at == after {
                return (state, argument);
            }
            if !seen.insert(at) || seen.len() > MAX_BEFORE {
                continue;
            }
            let Some(step) = walk.step(at) else { continue };
            self.learn(at, &mut state);
            if step.calls.is_some() && step.next.contains(&after) {
                argument = state.get(5).clone();
            }
            self.apply(&step, at, &mut state);
            if at < after {
                last = state.clone();
            }
            left.extend(step.next.into_iter().map(|next| (next, state.clone())));
        }
        (last.forget_frame(), Val::Unknown)
    }

    /// Follows the result until it is known where it goes.
    fn behind(&self, after: u64, state: State, found: &mut Allocated, inside: &mut Vec<Inside>) {
        let walk = Walk { start: self.function.low, code: self.code };
        let mut left = VecDeque::from([(after, state)]);
        let mut seen = HashSet::new();
        while let Some((at, mut state)) = left.pop_front() {
            if !seen.insert(at) || seen.len() > MAX_BEHIND || !state.has_result() {
                continue;
            }
            self.look_at_variables(at, &state, found);
            self.learn(at, &mut state);
            let Some(step) = walk.step(at) else { continue };
            self.look_inside(at, &state, &step, inside);
            let called = step.calls.or_else(|| self.leaves_for(&step));
            let given = called.filter(|_| state.get(5) == &Val::Result(0));
            let is_back = given.is_some_and(|target| self.returns_its_first(target));
            let is_result = step.returns && state.get(0) == &Val::Result(0);
            if is_result || is_back && step.calls.is_none() {
                match self.function.returns.and_then(|at| self.target(at)) {
                    Some(at) => self.add(found, at),
                    None => found.returned = true,
                }
            }
            if let Some(target) = given
                && let Some(at) = self.function.first_parameter(target)
                && let Some(at) = self.target(at)
            {
                self.add(found, at);
            }
            if let Some((place, from)) = &step.stores
                && state.get(*from) == &Val::Result(0)
                && let Some((at, offset)) = self.stored_at(&state.address(place), at)
                && let Some(at) = self.pointer_at(at, offset, 0)
            {
                self.add(found, at);
            }
            self.apply(&step, at, &mut state);
            if is_back && step.calls.is_some() {
                state.set(0, Val::Result(0));
            }
            left.extend(step.next.into_iter().map(|next| (next, state.clone())));
        }
    }

    /// Notes pointers into the result that variables, memory or the caller get.
    fn look_inside(&self, at: u64, state: &State, step: &Step, inside: &mut Vec<Inside>) {
        let mut note = |value: &Val, of: Option<UnitOffset>, returned: bool| {
            let Val::Result(offset @ 1..) = *value else { return };
            let element = of.and_then(|at| element(self.types.dwarf, self.types.unit, at));
            let of = element.map_or(String::new(), |element| element.name);
            inside.push(Inside { offset: offset as u64, of, returned });
        };
        let is_inside = |register: usize| matches!(state.get(register), Val::Result(1..));
        for variable in &self.function.variables {
            if let Some(Loc::Register(register)) = variable.loc_at(at)
                && is_inside(register.into())
                && let Some(of) = variable.of.and_then(|of| self.pointer_at(of, 0, 0))
            {
                note(state.get(register as usize), Some(of), false);
            }
        }
        if let Some((place, from)) = &step.stores
            && is_inside(*from)
            && let Some((of, offset)) = self.stored_at(&state.address(place), at)
            && let Some(of) = self.pointer_at(of, offset, 0)
        {
            note(state.get(*from), Some(of), false);
        }
        if step.returns {
            note(state.get(0), self.function.returns.and_then(|of| self.target(of)), true);
        }
    }

    /// Where a jump goes that ends the function with a call.
    fn leaves_for(&self, step: &Step) -> Option<u64> {
        let inside = self.function.low..self.function.high;
        step.next.iter().copied().find(|next| !inside.contains(next))
    }

    fn returns_its_first(&self, target: u64) -> bool {
        (self.name_of)(target).is_some_and(|name| RETURN_THEIR_FIRST.contains(&name.as_str()))
    }

    /// Variables in registers that hold the result; those of inlined functions last, which may be
    /// of a base class.
    fn look_at_variables(&self, at: u64, state: &State, found: &mut Allocated) {
        for variable in &self.function.variables {
            let Some(Loc::Register(register)) = variable.loc_at(at) else { continue };
            if state.get(register as usize) == &Val::Result(0)
                && let Some(at) = variable.of.and_then(|at| self.pointer_at(at, 0, 0))
            {
                self.add(found, at);
            }
        }
    }

    /// Notes which registers hold variables that are pointers.
    fn learn(&self, at: u64, state: &mut State) {
        for variable in &self.function.variables {
            let Some(Loc::Register(register)) = variable.loc_at(at) else { continue };
            let register = register as usize;
            if state.get(register) == &Val::Unknown
                && let Some(target) = variable.of.and_then(|of| self.target(of))
            {
                state.set(register, Val::Pointer(target, Some(0)));
            }
        }
    }

    /// Changes `state` as the instruction does.
    fn apply(&self, step: &Step, at: u64, state: &mut State) {
        let loaded = step.loads.as_ref().map(|(place, into)| {
            let address = state.address(place);
            let known = match address {
                Val::Frame(offset) => state.slot(offset).cloned(),
                _ => None,
            };
            let typed = || {
                let (of, offset) = self.stored_at(&address, at)?;
                let target = self.pointer_at(of, offset, 0)?;
                Some(Val::Pointer(target, Some(0)))
            };
            (*into, known.or_else(typed).unwrap_or(Val::Unknown))
        });
        let slot = step.stores.as_ref().map(|(place, from)| (state.address(place), *from));
        if let Some((Val::Frame(offset), from)) = slot {
            let value = state.get(from).clone();
            state.set_slot(offset, value);
        }
        state.change(step);
        if let Some((into, value)) = loaded {
            state.set(into, value);
        }
    }

    /// The type, and the offset in it, of what lies at an address.
    fn stored_at(&self, address: &Val, at: u64) -> Option<(UnitOffset, u64)> {
        match address {
            Val::Frame(offset) => {
                let fits = |variable: &&Variable| match variable.loc_at(at) {
                    Some(Loc::Frame(start)) => {
                        let bytes = variable.of.and_then(|of| self.types.size(of, 0));
                        (start..start + bytes.unwrap_or(8) as i64).contains(offset)
                    }
                    _ => false,
                };
                let variable = self.function.variables.iter().rev().find(fits)?;
                let Some(Loc::Frame(start)) = variable.loc_at(at) else { return None };
                Some((variable.of?, (offset - start) as u64))
            }
            Val::Static(address) => {
                let (start, of) = (self.static_type)(*address)?;
                Some((of, address - start))
            }
            Val::Pointer(of, offset) => {
                let bytes = self.types.size(*of, 0).filter(|bytes| *bytes > 0)?;
                Some((*of, offset.unwrap_or(0).rem_euclid(bytes as i64) as u64))
            }
            _ => None,
        }
    }

    /// What the pointer at `offset` in a type points to.
    fn pointer_at(&self, of: UnitOffset, offset: u64, depth: u32) -> Option<UnitOffset> {
        let entry = self.types.plain(of, depth)?;
        match entry.tag() {
            _ if depth > MAX_DEPTH => None,
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                let mut tree = self.types.unit.entries_tree(Some(entry.offset())).ok()?;
                let mut children = tree.root().ok()?.children();
                while let Ok(Some(child)) = children.next() {
                    let member = child.entry();
                    let is_part =
                        matches!(member.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance);
                    if !is_part || matches!(member.attr(dw::DW_AT_external), Ok(Some(_))) {
                        continue;
                    }
                    let Some(at) = self.types.type_of(member) else { continue };
                    let start = self.types.start(member).unwrap_or(u64::MAX);
                    let bytes = self.types.size(at, depth).unwrap_or(1).max(1);
                    if offset >= start
                        && offset - start < bytes
                        && let Some(found) = self.pointer_at(at, offset - start, depth + 1)
                    {
                        return Some(found);
                    }
                }
                None
            }
            dw::DW_TAG_array_type if is_allocatable(&entry) => {
                (offset == 0).then(|| self.types.type_of(&entry)).flatten()
            }
            dw::DW_TAG_array_type => {
                let element = self.types.type_of(&entry)?;
                let bytes = self.types.size(element, depth).filter(|bytes| *bytes > 0)?;
                self.pointer_at(element, offset % bytes, depth + 1)
            }
            _ if offset == 0 => self.target(of),
            _ => None,
        }
    }

    /// What a type points to.
    fn target(&self, at: UnitOffset) -> Option<UnitOffset> {
        let entry = self.types.plain(at, 0)?;
        match entry.tag() {
            dw::DW_TAG_pointer_type => self.types.type_of(&entry),
            dw::DW_TAG_array_type if is_allocatable(&entry) => self.types.type_of(&entry),
            _ => None,
        }
    }
}

/// Whether an element comes once, before something else: a pointer of another type is kept that
/// begins just behind it.
fn is_header(element: &Element, inside: &[Inside]) -> bool {
    inside.iter().any(|inside| inside.offset == element.bytes && inside.of != element.name)
}

/// An array of Fortran that a descriptor describes.
fn is_allocatable(entry: &gimli::DebuggingInformationEntry<'_, '_, crate::reader::Reader>) -> bool {
    matches!(entry.attr(dw::DW_AT_data_location), Ok(Some(_)))
}

impl State {
    /// The address that an operand means.
    fn address(&self, place: &Place) -> Val {
        let Place { base, index, displacement } = *place;
        let Some(base) = base else { return Val::Static(displacement as u64) };
        match self.get(base) {
            Val::Frame(offset) if index.is_none() => Val::Frame(offset + displacement),
            Val::Pointer(of, Some(offset)) => Val::Pointer(*of, Some(offset + displacement)),
            Val::Pointer(of, None) => Val::Pointer(*of, Some(displacement)),
            Val::Static(address) => Val::Static(address.wrapping_add(displacement as u64)),
            // The base may be the offset.
            _ => match index.map(|index| self.get(index)) {
                Some(Val::Pointer(of, _)) => Val::Pointer(*of, Some(displacement)),
                _ => Val::Unknown,
            },
        }
    }
}
