//! Programs of `tests/programs/symbols/`, compiled in the ways that distributions do it.

use super::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use test_support::target::TargetError;
use test_support::{Compiler, Run, Scratch, Target, paths};

const FOLDER: &str = "tests/programs/symbols";

fn binary(compiler: Compiler, file: &str, flags: &[&str]) -> Option<PathBuf> {
    match Target::new(compiler, &format!("{FOLDER}/{file}")).flags(flags).build() {
        Ok(path) => Some(path),
        Err(error @ TargetError::NoCompiler(_)) => {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The line of a source that has `text` in it.
fn line_of(file: &str, text: &str) -> u32 {
    let source = std::fs::read_to_string(paths::root().join(FOLDER).join(file)).unwrap();
    source.lines().position(|line| line.contains(text)).unwrap() as u32 + 1
}

impl Module {
    /// Link-time address and bytes of a static object.
    fn address_of(&self, name: &str) -> u64 {
        let all = self.parts(|elf| &elf.data, 0, u64::MAX);
        let found = all.iter().find(|data| data.name == name);
        found.unwrap_or_else(|| panic!("no {name} among {all:?}")).address
    }

    fn field_name(&self, object: &str, offset: u64) -> String {
        let field = self.field(self.address_of(object), offset);
        field.map_or_else(|| "-".into(), |(name, range)| format!("{name} {range:?}"))
    }

    /// All places of the code of a function.
    fn places_of(&self, function: &str) -> BTreeSet<(String, u32, String)> {
        let names = self.debug_with_symbols().unwrap_or(&self.elf).names();
        let mut symbols = names.tables.functions.within(0, u64::MAX);
        let symbol = symbols.find(|s| demangle(s.name) == function).unwrap();
        let segment = self
            .elf
            .segments
            .iter()
            .find(|s| symbol.address >= s.address && symbol.address < s.address + s.bytes);
        let segment = segment.unwrap();
        let offset = |address: u64| address - segment.address + segment.file_offset;
        (symbol.address..symbol.address + symbol.size)
            .map(|address| self.place(offset(address)))
            .map(|place| (place.function, place.line, place.inlined))
            .collect()
    }
}

fn check_code_of_c(module: &Module) {
    let places = module.places_of("work");
    let inner = format!(
        "add_two at data.c:{}; work at data.c:{}",
        line_of("data.c", "line: add_two"),
        line_of("data.c", "line: work")
    );
    let add_one = ("add_one".to_owned(), line_of("data.c", "line: add_one"), inner);
    assert!(places.contains(&add_one), "{places:?}");
    let calls = ("work".to_owned(), line_of("data.c", "line: calls"), String::new());
    assert!(places.contains(&calls), "{places:?}");
}

fn check_fields_of_c(module: &Module) {
    let state = |offset| module.field_name("state", offset);
    assert_eq!(state(0), ".count 0..8");
    assert_eq!(state(8), ".inner.flag 8..9");
    // Padding belongs to the field around it.
    assert_eq!(state(9), ".inner 8..28");
    assert_eq!(state(17), ".inner.values[1] 16..20");
    assert_eq!(state(28), ".ticks 28..32");
    assert_eq!(state(34), ".unnamed_member 34..36");
    assert_eq!(state(44), ".either.whole 40..48");
    // Not into the implementation's parts of a mutex.
    assert_eq!(state(60), ".lock 48..88");
    assert_eq!(module.field_name("table", 8 * (24 + 2 * 8 + 7)), "[1][2][7] 376..384");
    assert_eq!(module.field_name("counters", 64), "[8] 64..72");
    let calls = |data: &Data| data.name.starts_with("calls");
    let all = module.parts(|elf| &elf.data, 0, u64::MAX);
    assert_eq!(module.field(all.iter().find(|d| calls(d)).unwrap().address, 0), None);
}

#[test]
fn c_with_debug_information_is_known_to_the_field() {
    for flags in [["-O2", "-g", "-gdwarf-5"], ["-O2", "-g", "-gdwarf-4"], ["-O2", "-g", "-gz"]] {
        let module = Module::open(&binary(Compiler::Gcc, "data.c", &flags).unwrap()).unwrap();
        check_code_of_c(&module);
        check_fields_of_c(&module);
        let counters = module.address_of("counters");
        let data = |address, bytes| module.data(address, bytes);
        let part = |part| Data { name: "counters".into(), address: counters, bytes: 128, part };
        assert_eq!(data(counters + 64, 64), [part(64..128)]);
        assert_eq!(data(counters + 100, 2), [part(100..102)]);
        let own = module.thread_local(0, 8);
        assert_eq!((own[0].name.as_str(), own[0].part.clone()), ("own", 0..8));
        assert_eq!(module.thread_local_block(), (8, 8));
    }
}

#[test]
fn names_may_be_in_another_unit() {
    let path = binary(Compiler::Gcc, "data.c", &["-O2", "-g", "-flto"]).unwrap();
    let module = Module::open(&path).unwrap();
    check_code_of_c(&module);
    assert_eq!(module.field_name("state", 8), ".inner.flag 8..9");
    assert_eq!(module.field_name("counters", 64), "[8] 64..72");
    let sections = Run::new("readelf").args(["--debug-dump=abbrev", path.to_str().unwrap()]).run();
    let forms = String::from_utf8_lossy(&sections.stdout).into_owned();
    assert!(forms.contains("DW_FORM_ref_addr"), "{forms}");
}

#[test]
fn units_are_found_without_a_table_of_their_addresses() {
    let scratch = Scratch::new();
    let whole = binary(Compiler::Gcc, "data.c", &["-O2", "-g"]).unwrap();
    let path = scratch.join("without-table");
    let remove = ["--remove-section", ".debug_aranges"];
    Run::new("objcopy").args(remove).arg(&whole).arg(&path).run().expect_code(0);
    check_code_of_c(&Module::open(&path).unwrap());
}

#[test]
fn a_program_at_a_fixed_address_is_known_too() {
    let flags = ["-O2", "-g", "-no-pie", "-fno-pie"];
    let module = Module::open(&binary(Compiler::Gcc, "data.c", &flags).unwrap()).unwrap();
    check_code_of_c(&module);
    check_fields_of_c(&module);
    assert!(module.contains(module.address_of("state")));
    assert!(!module.contains(0x10));
}

#[test]
fn without_debug_information_there_are_symbols() {
    let module = Module::open(&binary(Compiler::Gcc, "data.c", &["-O2"]).unwrap()).unwrap();
    let places = module.places_of("work");
    assert_eq!(places, BTreeSet::from([("work".to_owned(), 0, String::new())]));
    assert_eq!(module.field_name("state", 0), "-");
}

#[test]
fn a_stripped_program_has_what_is_exported() {
    let path = binary(Compiler::Gcc, "data.c", &["-O2", "-s", "-rdynamic"]).unwrap();
    let module = Module::open(&path).unwrap();
    assert_eq!(module.places_of("work").len(), 1);
    let names: Vec<_> =
        module.data(module.address_of("counters"), 8).into_iter().map(|data| data.name).collect();
    assert_eq!(names, ["counters"]);
    let bare = Module::open(&binary(Compiler::Gcc, "data.c", &["-O2", "-s"]).unwrap()).unwrap();
    let offset = bare.elf.segments.iter().map(|s| s.file_offset).nth(1).unwrap();
    assert_eq!(bare.place(offset + 0x40).file, "");
}

#[test]
fn a_separate_debug_file_is_used_if_it_is_the_programs_own() {
    let scratch = Scratch::new();
    let whole = binary(Compiler::Gcc, "data.c", &["-O2", "-g"]).unwrap();
    let (program, debug) = (scratch.join("data"), scratch.join("data.debug"));
    let objcopy = |arguments: &[&str]| {
        Run::new("objcopy")
            .args(arguments)
            .directory(program.parent().unwrap())
            .run()
            .expect_code(0);
    };
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    objcopy(&["--only-keep-debug", &text(&whole), &text(&debug)]);
    let link = format!("--add-gnu-debuglink={}", text(&debug));
    objcopy(&["--strip-all", &link, &text(&whole), &text(&program)]);
    let module = Module::open(&program).unwrap();
    check_code_of_c(&module);
    // Where the data is, the program itself says; the debug file has only the names.
    assert!(module.contains(module.address_of("state")));
    check_fields_of_c(&module);
    // Another program's debug file under the same name: its build id differs.
    let other = binary(Compiler::Gcc, "data.c", &["-O1", "-g"]).unwrap();
    objcopy(&["--only-keep-debug", &text(&other), &text(&debug)]);
    let module = Module::open(&program).unwrap();
    assert!(module.debug().is_none() && module.dwarf().is_none());
    assert_eq!(module.place(0x1100).file, "");
}

#[test]
fn cxx_names_are_those_of_the_source() {
    let path = binary(Compiler::Gxx, "data.cpp", &["-O2", "-g", "-std=c++17"]).unwrap();
    let module = Module::open(&path).unwrap();
    let places = module.places_of("pool::run(int)");
    assert!(places.iter().any(|(name, ..)| name == "pool::run(int)"), "{places:?}");
    assert!(places.iter().any(|(.., inlined)| inlined.contains("pool::run(int) at data.cpp:")));
    let queue = "pool::Queue<long>::instance";
    assert_eq!(module.field_name(queue, 0), ".generation 0..8");
    assert_eq!(module.field_name(queue, 8), ".head 8..16");
    assert_eq!(module.field_name(queue, 24), ".items 16..48");
    assert_eq!(module.field_name("pool::total", 0), "-");
}

#[test]
fn fortran_counts_from_one_and_the_first_index_changes_fastest() {
    let Some(path) = binary(Compiler::Gfortran, "data.f90", &["-O1", "-g"]) else { return };
    let module = Module::open(&path).unwrap();
    assert!(module.places_of("shared::step").iter().all(|(name, ..)| name == "shared::step"));
    assert_eq!(module.field_name("shared::grid", 8 * 6), "(3,2) 48..56");
    assert_eq!(module.field_name("shared::cells", 16 * 3 + 8), "(4)%misses 56..64");
    assert_eq!(module.field_name("shared::counter", 0), "-");
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn threadtalk_symbols_probe() -> u64 {
    std::hint::black_box(42)
}

#[used]
static THREADTALK_ATOMICS: [std::sync::atomic::AtomicU64; 3] =
    [const { std::sync::atomic::AtomicU64::new(0) }; 3];

#[test]
fn this_program_is_found_by_its_place_in_memory() {
    let function = threadtalk_symbols_probe as extern "C" fn() -> u64 as usize as u64;
    let data = &raw const THREADTALK_ATOMICS[1] as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some((hex(start)?, hex(end)?, hex(fields.nth(1)?)?, fields.nth(2)?))
    });
    let (start, _, offset, path) =
        mapped.into_iter().find(|(start, end, ..)| (*start..*end).contains(&function)).unwrap();
    let mut resolver = crate::Resolver::new();
    let place = resolver.place(Path::new(path), function - start + offset);
    // Its first instruction may be one that was inlined into it.
    let names = format!("{}; {}", place.function, place.inlined);
    assert!(names.contains("threadtalk_symbols_probe") && place.line > 0, "{place:?}");
    let function = resolver.function(Path::new(path), function - start + offset);
    assert_eq!(function.as_deref(), Some("threadtalk_symbols_probe"));
    let module = resolver.module(Path::new(path)).unwrap();
    let bias = module.load_bias(start, offset).unwrap();
    let objects = module.data(data - bias, 8);
    assert_eq!(objects.len(), 1);
    assert!(objects[0].name.ends_with("THREADTALK_ATOMICS"), "{objects:?}");
    assert_eq!((objects[0].bytes, objects[0].part.clone()), (24, 8..16));
    THREADTALK_ATOMICS[2].store(1, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(resolver.function(Path::new("/etc/passwd"), 0), None);
    assert_eq!(resolver.place(Path::new("/nowhere"), 0), Place::default());
}

#[test]
fn damaged_files_have_fewer_names_and_nothing_worse() {
    let scratch = Scratch::new();
    let whole = std::fs::read(binary(Compiler::Gcc, "data.c", &["-O2", "-g"]).unwrap()).unwrap();
    let path = scratch.join("damaged");
    // A generator of its own, so that a failure comes again.
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for round in 0..300 {
        let mut bytes = whole.clone();
        match round % 3 {
            0 => bytes.truncate(random(whole.len())),
            // Headers of the file and of segments; then anything.
            1 => (0..4).for_each(|_| bytes[16 + random(1000)] ^= 1 << random(8)),
            _ => (0..64).for_each(|_| bytes[16 + random(whole.len() - 16)] ^= 1 << random(8)),
        }
        std::fs::write(&path, bytes).unwrap();
        let Ok(module) = Module::open(&path) else { continue };
        for offset in (0x1000..0x1400).step_by(16) {
            module.place(offset);
        }
        for data in module.parts(|elf| &elf.data, 0, u64::MAX) {
            module.field(data.address, 8);
            module.section(data.address);
        }
        module.load_bias(0x1000, 0x1000);
        module.ranges().count();
    }
}

impl Module {
    /// What the calls in a function are known to allocate: types with their bytes, and whether the
    /// result goes on to the caller.
    fn allocated_in(&self, function: &str) -> BTreeSet<String> {
        let names = self.elf.names();
        let mut symbols = names.tables.functions.within(0, u64::MAX);
        let symbol = symbols.find(|s| demangle(s.name) == function).unwrap();
        let range = symbol.address..symbol.address + symbol.size;
        let code = self.elf.code(range.clone()).unwrap();
        let walk = crate::steps::Walk { start: range.start, code: &code };
        let segment = self.elf.segments.iter().find(|s| s.executable).unwrap();
        let (mut found, mut at) = (BTreeSet::new(), range.start);
        while range.contains(&at) {
            let Some(step) = walk.step(at) else { break };
            at = step.behind;
            if step.calls.is_none() {
                continue;
            }
            let offset = at - segment.address + segment.file_offset;
            let Some(told) = self.allocated(offset) else { continue };
            let Allocated { candidates, returned, header, raw } = told;
            found.extend(candidates.iter().map(|of| format!("{} {}", of.name, of.bytes)));
            found.extend(returned.then(|| "returned".to_owned()));
            found.extend((header > 0).then(|| format!("header {header}")));
            found.extend((raw > 0).then(|| format!("raw {raw}")));
        }
        found
    }
}

fn has(module: &Module, function: &str, expected: &str) {
    let path = module.elf.path.display();
    let found = module.allocated_in(function);
    assert!(found.contains(expected), "{path}, {function}: {expected}, {found:?}");
}

#[test]
fn what_c_allocates_is_known_by_where_it_goes() {
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        for level in ["-O0", "-O2"] {
            let Some(path) = binary(compiler, "allocated.c", &[level, "-g"]) else { continue };
            let module = Module::open(&path).unwrap();
            has(&module, "to_local", "struct counter 40");
            has(&module, "to_global", "struct counter 40");
            has(&module, "to_member", "table_t 40");
            has(&module, "to_element", "struct counter 40");
            has(&module, "by_pointer", "struct counter 40");
            has(&module, "by_pointer", "table_t 40");
            has(&module, "to_caller", "struct node 24");
            has(&module, "checked", "returned");
            has(&module, "through_wrapper", "struct node 24");
            has(&module, "checked", "raw 1");
            has(&module, "cleared", "raw 1");
            has(&module, "cleared", "returned");
            has(&module, "through_two", "struct counter * 8");
            has(&module, "through_two", "raw 1");
            has(&module, "to_row", "struct row 8");
            has(&module, "hidden", "raw 1");
            has(&module, "hidden", "header 16");
            assert!(!module.allocated_in("hidden").iter().any(|of| of.contains("struct header")));
            for of_own_type in ["opaque", "to_local", "to_caller", "text"] {
                let found = module.allocated_in(of_own_type);
                assert!(!found.iter().any(|of| of.starts_with("raw")), "{of_own_type} {found:?}");
            }
            assert!(!module.allocated_in("text").iter().any(|of| of.starts_with("char")));
        }
    }
}

#[test]
fn what_functions_in_functions_allocate_is_known() {
    let Some(path) = binary(Compiler::Gcc, "nested.c", &["-O0", "-g"]) else { return };
    let module = Module::open(&path).unwrap();
    has(&module, "allocate.0", "struct pair 16");
    let locals = |function: &str| {
        let names = module.elf.names();
        let mut symbols = names.tables.functions.within(0, u64::MAX);
        let symbol = symbols.find(|symbol| symbol.name == function).unwrap();
        let segment = module.elf.segments.iter().find(|segment| segment.executable).unwrap();
        let last = symbol.address + symbol.size - 1 - segment.address + segment.file_offset;
        module.locals(last).into_iter().map(|local| local.name).collect::<Vec<_>>()
    };
    assert!(locals("allocate.0").contains(&"made".to_owned()));
    assert!(locals("sum").contains(&"all".to_owned()), "{:?}", locals("sum"));
    assert!(!locals("sum").contains(&"made".to_owned()));
}

#[test]
fn what_cxx_allocates_is_known_by_where_it_goes() {
    for level in ["-O0", "-O2"] {
        let Some(path) = binary(Compiler::Gxx, "allocated.cc", &[level, "-g"]) else { continue };
        let module = Module::open(&path).unwrap();
        has(&module, "work::to_object()", "work::Queue 24");
        has(&module, "work::to_array(int)", "work::Cell 16");
    }
}

#[test]
fn what_fortran_allocates_is_known_by_its_descriptor() {
    for level in ["-O0", "-O2"] {
        let flags = [level, "-g", "-fno-inline"];
        let Some(path) = binary(Compiler::Gfortran, "allocated.f90", &flags) else { continue };
        let module = Module::open(&path).unwrap();
        has(&module, "to_module_", "type(particle) 32");
        // Optimised, the descriptor is no more.
        if level == "-O0" {
            has(&module, "to_local_", "real(kind=8) 8");
        }
    }
}
