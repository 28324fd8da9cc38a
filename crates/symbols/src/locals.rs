//! Variables that a function has on the stack.
//!
//! Neighbours: `scopes` has what DWARF says about the function, `elements` reads types; `module`
//! asks.

use crate::elements::{Element, element};
use crate::fields::Types;
use crate::scopes::{Function, Loc, Variable};

/// What the place of a variable is told from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The stack pointer before the function was called.
    Frame,
    /// The stack pointer where the function is.
    StackPointer,
    /// The register %rbp there.
    Rbp,
}

/// A variable on the stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Local {
    /// Its name.
    pub name: String,
    /// How many functions that were inlined into each other lie between the function and the one
    /// whose variable it is.
    pub depth: usize,
    /// What [`offset`](Self::offset) counts from.
    pub base: Base,
    /// Where it begins.
    pub offset: i64,
    /// Its bytes.
    pub bytes: u64,
    /// What it consists of, where that is told.
    pub element: Option<Element>,
}

/// The variables that a function has on the stack at link-time address `address`.
pub(crate) fn locals(function: &Function<'_>, types: &Types<'_>, address: u64) -> Vec<Local> {
    let of = |variable: &Variable| {
        let (base, offset) = match variable.loc_at(address)? {
            Loc::Frame(offset) => (Base::Frame, offset),
            Loc::Stack(offset) => (Base::StackPointer, offset),
            Loc::Rbp(offset) => (Base::Rbp, offset),
            Loc::Register(_) => return None,
        };
        let at = variable.of?;
        let bytes = types.size(at, 0).filter(|bytes| *bytes > 0)?;
        let element = element(types.dwarf, types.unit, at);
        let name = function.name(variable)?;
        Some(Local { name, depth: variable.depth, base, offset, bytes, element })
    };
    function.variables.iter().filter_map(of).collect()
}
