//! Where the static objects of a plan lie in a process: by symbol and file.

use super::tables::Tables;
use crate::frames::file_name;
use crate::session::RawModule;
use std::collections::HashSet;
use symbols::Resolver;

/// An object that lies somewhere now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Found {
    pub start: u64,
    pub bytes: u64,
    pub entry: u32,
}

/// All static objects of the plan that lie in one of these modules, and were not `known` before.
pub fn find(
    tables: &Tables,
    modules: &[RawModule],
    resolver: &mut Resolver,
    known: &HashSet<Found>,
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut files = HashSet::new();
    for module in modules {
        let file = file_name(&module.path);
        let wanted: Vec<(&str, u32)> = tables
            .statics
            .iter()
            .filter_map(|entry| Some((of_file(tables, *entry, file)?, *entry)))
            .collect();
        let Some(readable) = module.readable().filter(|_| !wanted.is_empty()) else { continue };
        let Some(read) = resolver.module(readable) else { continue };
        let Some(bias) = read.load_bias(module.start, module.file_offset) else { continue };
        if !files.insert((bias, module.path.clone())) {
            continue;
        }
        let symbols = read.data(0, u64::MAX);
        for (name, entry) in wanted {
            let reach = reach(tables, entry);
            let of_name = symbols.iter().filter(|data| data.name == name);
            // Of several with one name, one that is large enough.
            let data = of_name.max_by_key(|data| (data.bytes >= reach, data.bytes));
            let Some(data) = data else { continue };
            let (address, bytes) = (data.address, data.bytes);
            let one = Found { start: address.wrapping_add(bias), bytes, entry };
            if bytes > 0 && !known.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

/// The symbol of an entry, if it is in this file: `grid` of `grid (app)`.
fn of_file<'t>(tables: &'t Tables, entry: u32, file: &str) -> Option<&'t str> {
    let name = &tables.objects[tables.entries[entry as usize].object].identity.name;
    let (symbol, rest) = name.rsplit_once(" (")?;
    (rest.strip_suffix(')') == Some(file)).then_some(symbol)
}

/// Bytes from its first page to the end of what the plan says of it, less a page that it may share.
fn reach(tables: &Tables, entry: u32) -> u64 {
    let ranges = &tables.objects[tables.entries[entry as usize].object].ranges;
    let end = ranges.iter().map(|range| range.offset + range.bytes).max().unwrap_or(0);
    end.saturating_sub(4096)
}
