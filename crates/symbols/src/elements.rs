//! What an object consists of: the type of its elements, and the fields of one of them.
//!
//! An array consists of elements of the type that is left when all its dimensions are taken off;
//! any other object is one element. Neighbours: `fields` reads the types, `module` asks.

use crate::entries;
use crate::fields::{Types, is_reserved, language, without_wrapping};
use crate::reader::Reader;
use gimli::constants as dw;
use gimli::{Dwarf, Unit, UnitOffset};

/// Most fields of an element; a larger one is told without.
const MAX_FIELDS: usize = 512;
/// Longer arrays in an element are one field.
const MAX_INDEXED: u64 = 16;
/// Types within types that are followed.
const MAX_DEPTH: u32 = 16;

/// An element of an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Element {
    /// Its type: `struct counter`, `long`, `Table::Row`.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its fields, by offset.
    pub fields: Vec<ElementField>,
    /// Of an element that ends in an array without a length.
    pub items: Option<Items>,
}

impl Element {
    /// What a block consists of in which such elements follow a header; `None` if they have no
    /// fields.
    pub fn behind(mut self, header: u64) -> Option<Self> {
        if header == 0 {
            return Some(self);
        }
        let bytes = std::mem::replace(&mut self.bytes, header);
        self.fields.iter_mut().for_each(|field| field.offset += header);
        match &mut self.items {
            Some(items) => items.start += header,
            None => {
                self.items = Some(Items { start: header, bytes });
                self.fields.iter_mut().for_each(|field| field.name.insert_str(0, Items::UNNAMED));
            }
        }
        (!self.fields.is_empty()).then_some(self)
    }
}

impl Items {
    /// Begins the names of fields where the array has no name.
    pub const UNNAMED: &str = "[].";
}

/// The items of an array without a length, which follow an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Items {
    /// Where the first one begins in the element, bytes.
    pub start: u64,
    /// Bytes of each. Their fields are among the element's, at those of the first one:
    /// `items[].hits`.
    pub bytes: u64,
}

/// A field of an element that has no fields of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ElementField {
    /// Offset in the element.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// `count`, `lock.owner`, `slots[2].next`.
    pub name: String,
}

/// The elements of an object whose type is described at `at` of `unit`. `None` when the type is not
/// complete.
pub(crate) fn element(
    dwarf: &Dwarf<Reader>,
    unit: &Unit<Reader>,
    mut at: UnitOffset,
) -> Option<Element> {
    let types = Types::new(dwarf, unit);
    for _ in 0..MAX_DEPTH {
        let entry = types.plain(at, 0)?;
        if entry.tag() != dw::DW_TAG_array_type {
            break;
        }
        at = types.type_of(&entry)?;
    }
    let bytes = types.size(at, 0).filter(|bytes| *bytes > 0)?;
    let mut fields = Vec::new();
    let complete = Listing { types: &types, fields: &mut fields }.list(at, 0, "", 0);
    let wrong =
        |field: &ElementField| field.offset.checked_add(field.bytes).is_none_or(|end| end > bytes);
    if complete.is_none() || fields.iter().any(wrong) {
        fields.clear();
    }
    // A scalar is no field of itself.
    fields.retain(|field| !field.name.is_empty());
    let items = list_items(&types, at, &mut fields);
    fields.sort_unstable();
    fields.dedup();
    Some(Element { name: type_name(&types, at, 0), bytes, fields, items })
}

/// Adds the fields of the items of an array without a length at the end of a type.
fn list_items(types: &Types<'_>, at: UnitOffset, fields: &mut Vec<ElementField>) -> Option<Items> {
    let entry = types.plain(at, 0)?;
    let mut tree = types.unit.entries_tree(Some(entry.offset())).ok()?;
    let mut children = tree.root().ok()?.children();
    let mut last = None;
    while let Some(child) = children.next().ok()? {
        if child.entry().tag() == dw::DW_TAG_member {
            last = Some(child.entry().offset());
        }
    }
    let member = types.unit.entry(last?).ok()?;
    let array = types.plain(types.type_of(&member)?, 0)?;
    let is_open = |bounds: Vec<(i64, u64)>| bounds.iter().any(|(_, count)| *count == 0);
    if array.tag() != dw::DW_TAG_array_type || !types.bounds(&array).is_none_or(is_open) {
        return None;
    }
    let (start, of) = (types.start(&member)?, types.type_of(&array)?);
    let bytes = types.size(of, 0).filter(|bytes| *bytes > 0)?;
    let name = format!("{}[]", types.name(&member)?);
    let mut of_item = Vec::new();
    Listing { types, fields: &mut of_item }.list(of, start, &name, 0)?;
    let inside = |field: &ElementField| {
        field.offset.checked_add(field.bytes).is_some_and(|end| end <= start + bytes)
    };
    fields.extend(of_item.into_iter().filter(inside));
    Some(Items { start, bytes })
}

struct Listing<'a, 'b> {
    types: &'a Types<'a>,
    fields: &'b mut Vec<ElementField>,
}

impl Listing<'_, '_> {
    /// Lists what has no fields of its own in the type at `at`, which is at `offset`. `None` when
    /// there is too much.
    fn list(&mut self, at: UnitOffset, offset: u64, name: &str, depth: u32) -> Option<()> {
        let types = self.types;
        let entry = types.plain(at, depth)?;
        let members = match entry.tag() {
            _ if depth > MAX_DEPTH => return None,
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                self.members(&entry)
            }
            dw::DW_TAG_array_type => return self.list_array(&entry, offset, name, depth),
            _ => Vec::new(),
        };
        if members.is_empty() {
            let bytes = types.size(at, depth).filter(|bytes| *bytes > 0);
            let Some(bytes) = bytes else { return Some(()) };
            self.push(offset, bytes, name)?;
            return Some(());
        }
        let dot = if types.fortran { "%" } else { "." };
        for Member { start, bytes, at, name: member, narrow } in members {
            let member = member.strip_prefix("__").unwrap_or(&member);
            let inner = match (name, member) {
                (name, "") => name.to_owned(),
                ("", member) => member.to_owned(),
                (name, member) => format!("{name}{dot}{member}"),
            };
            match narrow {
                true => self.push(offset + start, bytes, &inner)?,
                false => self.list(at, offset + start, &inner, depth + 1)?,
            }
        }
        Some(())
    }

    /// The members that have bytes; none if their names are reserved for the implementation.
    fn members(&self, entry: &gimli::DebuggingInformationEntry<'_, '_, Reader>) -> Vec<Member> {
        let types = self.types;
        let mut found = Vec::new();
        let Ok(mut tree) = types.unit.entries_tree(Some(entry.offset())) else { return found };
        let Ok(root) = tree.root() else { return found };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let member = child.entry();
            if !matches!(member.tag(), dw::DW_TAG_member | dw::DW_TAG_inheritance) {
                continue;
            }
            // Not within the object.
            if matches!(member.attr(dw::DW_AT_external), Ok(Some(_))) {
                continue;
            }
            let name = types.name(member).unwrap_or_default();
            if is_reserved(&name) {
                return Vec::new();
            }
            let Some((start, bytes, at)) = types.extent(member, 0) else { continue };
            let whole = types.size(at, 0);
            if bytes > 0 {
                found.push(Member { start, bytes, at, name, narrow: whole != Some(bytes) });
            }
        }
        found
    }

    fn list_array(
        &mut self,
        entry: &gimli::DebuggingInformationEntry<'_, '_, Reader>,
        offset: u64,
        name: &str,
        depth: u32,
    ) -> Option<()> {
        let types = self.types;
        let at = types.type_of(entry)?;
        let bytes = types.size(at, depth)?;
        let Some(bounds) = types.bounds(entry) else { return Some(()) };
        let count = bounds.iter().fold(1_u64, |all, (_, count)| all.saturating_mul(*count));
        if count == 0 || bytes == 0 {
            return Some(());
        }
        let indexed = bounds.len() == 1 && count <= MAX_INDEXED;
        if !indexed {
            return self.push(offset, bytes.checked_mul(count)?, name);
        }
        for k in 0..count {
            let index = bounds[0].0 + k as i64;
            let name =
                if types.fortran { format!("{name}({index})") } else { format!("{name}[{index}]") };
            self.list(at, offset + k * bytes, &name, depth + 1)?;
        }
        Some(())
    }

    fn push(&mut self, offset: u64, bytes: u64, name: &str) -> Option<()> {
        let rust = language(self.types.unit) == Some(dw::DW_LANG_Rust);
        let name = if rust { without_wrapping(name) } else { name };
        self.fields.push(ElementField { offset, bytes, name: name.into() });
        (self.fields.len() <= MAX_FIELDS).then_some(())
    }
}

struct Member {
    start: u64,
    bytes: u64,
    at: UnitOffset,
    name: String,
    /// Of fewer bytes than its type: bits.
    narrow: bool,
}

/// How people write a type.
fn type_name(types: &Types<'_>, at: UnitOffset, depth: u32) -> String {
    let Ok(entry) = types.unit.entry(at) else { return String::new() };
    let own = types.name(&entry);
    let inner = |of: &str| {
        let name = types.type_of(&entry).map(|at| type_name(types, at, depth + 1));
        format!("{}{of}", name.unwrap_or_else(|| "void".into()))
    };
    match entry.tag() {
        _ if depth > MAX_DEPTH => String::new(),
        dw::DW_TAG_const_type | dw::DW_TAG_volatile_type | dw::DW_TAG_restrict_type => inner(""),
        dw::DW_TAG_atomic_type => format!("_Atomic {}", inner("")),
        dw::DW_TAG_pointer_type => match inner("") {
            name if name.ends_with('*') => name + "*",
            name => name + " *",
        },
        dw::DW_TAG_reference_type => inner(" &"),
        dw::DW_TAG_typedef => {
            let of = types.plain(at, 0).filter(|of| is_compound(of.tag()));
            match of.filter(|of| types.name(of).is_some()) {
                Some(of) => type_name(types, of.offset(), depth + 1),
                None => own.unwrap_or_default(),
            }
        }
        tag if is_compound(tag) => match own {
            Some(name) => compound_name(types, at, tag, &name),
            None => String::new(),
        },
        _ => own.unwrap_or_default(),
    }
}

fn is_compound(tag: dw::DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_enumeration_type
    )
}

fn compound_name(types: &Types<'_>, at: UnitOffset, tag: dw::DwTag, name: &str) -> String {
    let in_c = matches!(
        language(types.unit),
        Some(dw::DW_LANG_C | dw::DW_LANG_C89 | dw::DW_LANG_C99 | dw::DW_LANG_C11 | dw::DW_LANG_C17)
    );
    if in_c {
        let word = match tag {
            dw::DW_TAG_union_type => "union",
            dw::DW_TAG_enumeration_type => "enum",
            _ => "struct",
        };
        return format!("{word} {name}");
    }
    if types.fortran {
        return format!("type({name})");
    }
    let mut path = spaces_around(types, at);
    path.push(name.into());
    path.join("::")
}

/// Names of the namespaces and classes around an entry.
fn spaces_around(types: &Types<'_>, at: UnitOffset) -> Vec<String> {
    let name = |outer: UnitOffset| {
        let entry = types.unit.entry(outer).ok()?;
        let names = entry.tag() == dw::DW_TAG_namespace || is_compound(entry.tag());
        names.then(|| types.name(&entry)).flatten()
    };
    entries::around(types.unit, at).into_iter().filter_map(name).collect()
}
