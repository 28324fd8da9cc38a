//! Functions and unwind tables of the C library that this test runs with, and of damaged copies.

use inspect::elf::{Source, functions, unwinding};
use inspect::functions::{Function, how};
use inspect::unwind::{rule, rule_at};
use std::ffi::CStr;

/// A file in memory.
#[derive(Clone)]
struct Bytes(Vec<u8>);

impl Source for Bytes {
    fn read(&self, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        self.0.get(start..end).map(<[u8]>::to_vec)
    }
}

/// The C library: its file, and where which of its bytes are mapped as code.
struct Library {
    file: Bytes,
    start: u64,
    offset: u64,
}

fn library() -> Library {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let is_code = |line: &&str| line.contains("/libc.so") && line.contains("r-xp");
    let line = maps.lines().find(is_code).expect("this test is linked with libc.so");
    let words: Vec<&str> = line.split_whitespace().collect();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let start = hex(words[0].split('-').next().unwrap());
    Library { file: Bytes(std::fs::read(words[5]).unwrap()), start, offset: hex(words[2]) }
}

fn address_of(name: &CStr) -> u64 {
    // SAFETY: a name that ends.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as u64 }
}

fn found(file: &Bytes, library: &Library) -> Vec<Function> {
    functions(file, library.offset, library.start, true).unwrap_or_default()
}

#[test]
fn functions_are_where_the_loader_has_them() {
    let library = library();
    let list = found(&library.file, &library);
    for (name, does) in [
        (c"malloc", how::BYTES_FIRST),
        (c"calloc", how::PRODUCT),
        (c"realloc", how::MOVES),
        (c"free", how::FREES),
        (c"posix_memalign", how::BYTES_THIRD),
    ] {
        let address = address_of(name);
        let function = list.iter().find(|function| function.address == address);
        let function = function.unwrap_or_else(|| panic!("{name:?} was not found"));
        assert_eq!(function.what & 0xff, does, "{name:?}");
    }
    assert!(list.iter().all(|function| function.address >= library.start), "{list:x?}");
}

/// Where a function begins, its caller's frame ends right above the return address.
#[test]
fn rules_lead_up_from_the_beginning_of_functions() {
    let library = library();
    let tables = unwinding(&library.file, library.offset, library.start).unwrap();
    for name in [c"malloc", c"free", c"qsort", c"printf"] {
        let linked = address_of(name).wrapping_sub(tables.bias);
        assert_eq!(rule_at(&tables, linked), Some(rule::LEADS_ON | 8), "{name:?}");
    }
    assert_eq!(rule_at(&tables, 0), None);
}

/// Whatever is in a file, reading it ends, and without a panic.
#[test]
fn damaged_files_are_read_without_a_panic() {
    const COPIES: u64 = 3000;
    let library = library();
    let whole = found(&library.file, &library).len();
    let inside = address_of(c"malloc");
    let mut chance = 88_172_645_463_325_252_u64;
    let mut below = |limit: u64| {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        chance % limit
    };
    let bytes = library.file.0.len() as u64;
    let word = |at: u64| u64::from_le_bytes(library.file.read(at, 8).unwrap().try_into().unwrap());
    // The header, the segments, and the sections, whose place the header says.
    let tables = [(0, 64), (word(32), 14 * 56), (word(40), bytes - word(40))];
    let (mut fewer, mut copy) = (0, library.file.clone());
    for _ in 0..COPIES {
        let mut changed = Vec::new();
        for _ in 0..1 + below(4) {
            let (start, length) = tables[below(3) as usize];
            let at = (start + below(length)) as usize;
            changed.push((at, copy.0[at]));
            copy.0[at] = below(256) as u8;
        }
        fewer += u32::from(found(&copy, &library).len() < whole);
        if let Some(tables) = unwinding(&copy, library.offset, library.start) {
            rule_at(&tables, inside.wrapping_sub(tables.bias));
        }
        changed.into_iter().rev().for_each(|(at, byte)| copy.0[at] = byte);
    }
    assert!(copy.0 == library.file.0 && fewer > 0, "no copy was damaged where it matters");
    for end in [0, 1, 63, 64, 1000, bytes as usize - 1] {
        let cut = Bytes(library.file.0[..end].to_vec());
        assert!(found(&cut, &library).len() <= whole, "{end}");
    }
}

/// The same for the tables themselves.
#[test]
fn damaged_unwind_tables_are_read_without_a_panic() {
    let library = library();
    let mut tables = unwinding(&library.file, library.offset, library.start).unwrap();
    let places = [c"malloc", c"free", c"qsort", c"printf"].map(address_of);
    let mut at = 1_u64;
    for _ in 0..3000 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let table = if at >> 63 == 0 { &mut tables.header } else { &mut tables.frames };
        let place = (at >> 16) as usize % table.len();
        let byte = std::mem::replace(&mut table[place], (at >> 40) as u8);
        for address in places {
            rule_at(&tables, address.wrapping_sub(tables.bias));
        }
        let table = if at >> 63 == 0 { &mut tables.header } else { &mut tables.frames };
        table[place] = byte;
    }
}
