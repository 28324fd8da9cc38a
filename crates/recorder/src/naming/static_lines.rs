//! What lies in a line of static data, in words: symbols, and the fields that were touched.
//!
//! Neighbours: `places` finds the module, the crate `symbols` reads it.

use symbols::{Data, Module};

/// Bytes of the lines of memory in a profile.
const LINE_BYTES: u64 = 64;
/// Most names for one line.
const MAX_NAMES: usize = 8;

/// An object and the part of it that is meant: `a+0x40..0x80 (app)`.
pub fn part_text(data: &Data, file: &str) -> String {
    match data.part == (0..data.bytes) || data.bytes == 0 {
        true => format!("{} ({file})", data.name),
        false => format!("{}+{:#x}..{:#x} ({file})", data.name, data.part.start, data.part.end),
    }
}

/// A line of a module's static data.
pub struct Line<'a> {
    pub module: &'a Module,
    pub file: &'a str,
    /// Link-time address.
    pub address: u64,
    /// Bytes that were accessed.
    pub touched: u64,
    pub with_fields: bool,
}

impl Line<'_> {
    /// What lies there: `a+0x40..0x80 (app): [8], [9]; b (app)`. What was touched comes first;
    /// where nothing touched has a name, there is the section.
    pub fn text(&self) -> String {
        let (hot, cold): (Vec<Data>, Vec<Data>) =
            self.module.data(self.address, LINE_BYTES).into_iter().partition(|d| self.touches(d));
        let mut objects: Vec<String> = hot.iter().map(|data| self.hot(data)).collect();
        if hot.is_empty() {
            objects.push(self.section());
        }
        let cold = cold.iter().filter(|data| data.bytes > 0);
        objects.extend(cold.map(|data| part_text(data, self.file)));
        shortened(objects, "; ")
    }

    fn touches(&self, data: &Data) -> bool {
        let first = (data.address + data.part.start).saturating_sub(self.address).min(LINE_BYTES);
        let bytes = (data.part.end - data.part.start).min(LINE_BYTES - first);
        (first..first + bytes).any(|byte| self.touched >> byte & 1 == 1)
    }

    /// An object that was touched, with the fields that were.
    fn hot(&self, data: &Data) -> String {
        let part = part_text(data, self.file);
        let fields = if self.with_fields { self.fields(data) } else { String::new() };
        if fields.is_empty() { part } else { format!("{part}: {fields}") }
    }

    fn fields(&self, data: &Data) -> String {
        let mut names: Vec<String> = Vec::new();
        let mut known_to = data.address;
        let touched = (0..LINE_BYTES).filter(|byte| self.touched >> byte & 1 == 1);
        for byte in touched.map(|byte| self.address + byte) {
            if byte < known_to || !data.part.contains(&byte.wrapping_sub(data.address)) {
                continue;
            }
            let field = self.module.field(data.address, byte - data.address);
            let Some((name, range)) = field else { continue };
            known_to = data.address + range.end;
            if !names.contains(&name) {
                names.push(name);
            }
            if names.len() > MAX_NAMES {
                break;
            }
        }
        shortened(names, ", ")
    }

    /// The section at the first byte touched: `.got.plt+0x0..0x40 (app)`.
    fn section(&self) -> String {
        let first = self.address + u64::from(self.touched.trailing_zeros()) % LINE_BYTES;
        match self.module.section(first) {
            Some((range, name)) => {
                let start = self.address.max(range.start) - range.start;
                let end = (self.address + LINE_BYTES).min(range.end) - range.start;
                format!("{name}+{start:#x}..{end:#x} ({})", self.file)
            }
            None => format!("{}+{:#x}", self.file, self.address),
        }
    }
}

/// The first few of a list.
pub fn shortened(mut list: Vec<String>, separator: &str) -> String {
    if list.len() > MAX_NAMES {
        list.truncate(MAX_NAMES);
        list.push("…".into());
    }
    list.join(separator)
}
