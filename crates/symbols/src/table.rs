//! Symbols of one kind of one file, sorted by address.

use object::{ObjectSymbol, SymbolKind};

/// A function, or an object in static memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Link-time address; of thread-local data, offset in the file's thread-local block.
    pub address: u64,
    /// Bytes; 0 when the file does not say (hand-written assembly).
    pub size: u64,
    /// As it stands in the file, mangled.
    pub name: String,
}

/// Symbols, ascending by address, one per address.
#[derive(Clone, Debug, Default)]
pub struct Symbols(Vec<Symbol>);

impl Symbols {
    /// The definitions of `kind` among `symbols`.
    pub fn of_kind<'data: 'file, 'file, S: ObjectSymbol<'data> + 'file>(
        kind: SymbolKind,
        symbols: impl Iterator<Item = S>,
    ) -> Self {
        let mut found: Vec<(Symbol, bool)> = symbols
            .filter(|s| !s.is_undefined() && s.kind() == kind)
            .filter_map(|s| {
                let name = s.name().ok().filter(|name| !name.is_empty())?.to_string();
                Some((Symbol { address: s.address(), size: s.size(), name }, s.is_local()))
            })
            .collect();
        // Of several names for one address the first survives: with a size before without, global
        // before local, then by name so that the answer never depends on the file's order; names
        // reserved for the implementation (`__environ`) come last.
        found.sort_by(|(a, a_local), (b, b_local)| {
            let key =
                |s: &Symbol, local: bool| (s.address, s.size == 0, local, s.name.starts_with("__"));
            key(a, *a_local).cmp(&key(b, *b_local)).then_with(|| a.name.cmp(&b.name))
        });
        found.dedup_by(|(later, _), (kept, _)| later.address == kept.address);
        Self(found.into_iter().map(|(symbol, _)| symbol).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The symbol that contains `address`. One without a size reaches to the next one.
    pub fn at(&self, address: u64) -> Option<&Symbol> {
        let after = self.0.partition_point(|s| s.address <= address);
        let symbol = self.0[..after].last()?;
        (symbol.size == 0 || address - symbol.address < symbol.size).then_some(symbol)
    }

    /// The symbols with bytes in `start..end`, ascending. One without a size has one byte.
    pub fn within(&self, start: u64, end: u64) -> &[Symbol] {
        let first = self.0.partition_point(|s| s.address < start);
        let before = self.0[..first].last();
        let reaches = before.is_some_and(|s| s.address.saturating_add(s.size) > start);
        let last = self.0.partition_point(|s| s.address < end);
        &self.0[first - usize::from(reaches)..last.max(first)]
    }
}

#[cfg(test)]
impl Symbols {
    pub(crate) fn of(list: &[(u64, u64, &str)]) -> Self {
        let symbol =
            |&(address, size, name): &(u64, u64, &str)| Symbol { address, size, name: name.into() };
        Self(list.iter().map(symbol).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        Symbols::of(&[(0x1000, 0x10, "a"), (0x1020, 0, "b"), (0x1040, 4, "c")])
    }

    #[test]
    fn an_address_belongs_to_the_symbol_around_it() {
        let name = |address| symbols().at(address).map(|s| s.name.clone());
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
            let names: Vec<_> =
                symbols().within(start, end).iter().map(|s| s.name.clone()).collect();
            names.concat()
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
