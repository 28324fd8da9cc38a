//! Symbols of a file by kind, sorted by address.
//!
//! Large programs have hundreds of thousands, of which a profile names a few: they are kept as they
//! stand in the file, with all names in one piece, and demangled when they are asked for.

use object::{Object, ObjectSymbol, SymbolKind};

/// A function, or an object in static memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Symbol<'a> {
    /// Link-time address; of thread-local data, offset in the file's thread-local block.
    pub address: u64,
    /// Bytes; 0 when the file does not say (hand-written assembly).
    pub size: u64,
    /// As it stands in the file, mangled.
    pub name: &'a str,
}

/// Symbols of one kind, ascending by address, one per address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    entries: Vec<Entry>,
    /// Their names, one after the other.
    names: String,
}

/// A symbol; its name ends where the next one's begins.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    size: u64,
    name: usize,
}

/// The symbols of a file that name code and data.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub functions: Symbols,
    pub data: Symbols,
    pub thread_local: Symbols,
}

impl Tables {
    /// The definitions in `.symtab` and `.dynsym`.
    pub fn read<'data>(object: &impl Object<'data>) -> Self {
        let (mut functions, mut data, mut thread_local) = (Vec::new(), Vec::new(), Vec::new());
        for symbol in object.symbols().chain(object.dynamic_symbols()) {
            let list = match symbol.kind() {
                SymbolKind::Text => &mut functions,
                SymbolKind::Data => &mut data,
                SymbolKind::Tls => &mut thread_local,
                _ => continue,
            };
            let name = symbol.name().ok().filter(|name| !name.is_empty());
            if let (Some(name), false) = (name, symbol.is_undefined()) {
                let (address, size) = (symbol.address(), symbol.size());
                list.push((Symbol { address, size, name }, symbol.is_local()));
            }
        }
        let [functions, data, thread_local] = [functions, data, thread_local].map(Symbols::of_all);
        Self { functions, data, thread_local }
    }
}

impl Symbols {
    /// Of `found`, each with whether it is local, one per address.
    fn of_all(mut found: Vec<(Symbol<'_>, bool)>) -> Self {
        // Of several names for one address the first survives: with a size before without, global
        // before local, then by name so that the answer never depends on the file's order; names
        // reserved for the implementation (`__environ`) come last.
        let key = |(symbol, local): &(Symbol<'_>, bool)| {
            (symbol.address, symbol.size == 0, *local, symbol.name.starts_with("__"))
        };
        found.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.0.name.cmp(b.0.name)));
        found.dedup_by_key(|(symbol, _)| symbol.address);
        let mut symbols = Self::default();
        symbols.names.reserve(found.iter().map(|(symbol, _)| symbol.name.len()).sum());
        for (Symbol { address, size, name }, _) in found {
            symbols.entries.push(Entry { address, size, name: symbols.names.len() });
            symbols.names.push_str(name);
        }
        symbols
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn symbol(&self, number: usize) -> Symbol<'_> {
        let Entry { address, size, name } = self.entries[number];
        let end = self.entries.get(number + 1).map_or(self.names.len(), |next| next.name);
        Symbol { address, size, name: &self.names[name..end] }
    }

    /// The symbol that contains `address`. One without a size reaches to the next one.
    pub fn at(&self, address: u64) -> Option<Symbol<'_>> {
        let after = self.entries.partition_point(|s| s.address <= address);
        let symbol = self.symbol(after.checked_sub(1)?);
        (symbol.size == 0 || address - symbol.address < symbol.size).then_some(symbol)
    }

    /// All of them, ascending by address.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        (0..self.entries.len()).map(|number| self.symbol(number))
    }

    /// The symbols with bytes in `start..end`, ascending. One without a size has one byte.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Symbol<'_>> {
        let first = self.entries.partition_point(|s| s.address < start);
        let before = self.entries[..first].last();
        let reaches = before.is_some_and(|s| s.address.saturating_add(s.size) > start);
        let last = self.entries.partition_point(|s| s.address < end);
        (first - usize::from(reaches)..last.max(first)).map(|number| self.symbol(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        let symbol = |address, size, name| (Symbol { address, size, name }, false);
        Symbols::of_all(vec![
            symbol(0x1040, 4, "c"),
            symbol(0x1000, 0x10, "a"),
            symbol(0x1020, 0, "b"),
            symbol(0x1000, 0x10, "__a"),
            symbol(0x1000, 0, "A"),
        ])
    }

    #[test]
    fn an_address_belongs_to_the_symbol_around_it() {
        let name = |address| symbols().at(address).map(|s| s.name.to_owned());
        assert_eq!(name(0xfff), None);
        assert_eq!(name(0x1000).as_deref(), Some("a"));
        assert_eq!(name(0x100f).as_deref(), Some("a"));
        assert_eq!(name(0x1010), None);
        assert_eq!(name(0x103f).as_deref(), Some("b"));
        assert_eq!(name(0x1044), None);
    }

    #[test]
    fn a_range_holds_the_symbols_that_reach_into_it() {
        let within = |start, end| {
            symbols().within(start, end).map(|s| s.name.to_owned()).collect::<String>()
        };
        assert_eq!(within(0x1000, 0x1040), "ab");
        assert_eq!(within(0x100f, 0x1020), "a");
        assert_eq!(within(0x1010, 0x1020), "");
        assert_eq!(within(0x1040, 0x1080), "c");
        assert_eq!(within(0x1043, 0x1044), "c");
        assert_eq!(within(0, 0x2000), "abc");
        assert_eq!(within(0x9000, 0x9040), "");
    }
}
