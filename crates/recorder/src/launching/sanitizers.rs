//! Programs built with sanitizers that refuse what we do, each with words of its own: recognised
//! before they are started.
//!
//! | sanitizer | refuses | because |
//! | --- | --- | --- |
//! | AddressSanitizer as a shared library | every preloaded library | it wants to be loaded first |
//! | ThreadSanitizer, MemorySanitizer | the exact engine | its own shadow memory is to lie where ours does |
//!
//! (compiler-rt: `asan_linux.cpp`, `AsanCheckDynamicRTPrereqs`; `tsan_platform_posix.cpp`,
//! `CheckAndProtect`; `msan_linux.cpp`, `InitShadow`.) Others can be recorded: AddressSanitizer
//! inside the program, LeakSanitizer, UndefinedBehaviorSanitizer, and Go's race detector, which has
//! ThreadSanitizer's functions but not its checks. Neighbours: `target` finds the program, `record`
//! starts it.

use crate::error::RecorderError;
use object::read::elf::{Dyn, FileHeader, SectionHeader, SectionTable, Sym};
use object::{Endianness, ReadCache, elf};
use std::fs::File;
use std::path::Path;

/// Larger tables of symbols are not read: the programs of whole browsers have them.
const MAX_BYTES: u64 = 64 << 20;

/// Refuses programs into which nothing can be injected as they are.
pub fn check_injection(path: &Path) -> Result<(), RecorderError> {
    let told = std::env::var("ASAN_OPTIONS").unwrap_or_default();
    if lets_others_first(&told) || !signs_of(path).is_some_and(|signs| signs.shared_address) {
        return Ok(());
    }
    let reason = "is built with AddressSanitizer as a shared library, which lets no other library be loaded \
                  first; set ASAN_OPTIONS=verify_asan_link_order=0, or sample it from outside with \
                  'threadtalk record --sample'";
    Err(RecorderError::Unsupported {
        path: path.to_path_buf(),
        reason: reason.into(),
        can_sample: false,
    })
}

/// Refuses programs that the exact engine cannot run.
pub fn check_engine(path: &Path) -> Result<(), RecorderError> {
    let Some(signs) = signs_of(path) else { return Ok(()) };
    let name = match (signs.thread && !signs.go, signs.memory) {
        (true, _) => "ThreadSanitizer",
        (false, true) => "MemorySanitizer",
        (false, false) => return Ok(()),
    };
    let reason = format!(
        "is built with {name}, whose shadow memory needs the addresses that the exact engine uses; sample it \
         with 'threadtalk record --sample', or build it without -fsanitize"
    );
    Err(RecorderError::Unsupported { path: path.to_path_buf(), reason, can_sample: false })
}

/// Whether the variable ASAN_OPTIONS turns the check off. The last word counts.
fn lets_others_first(options: &str) -> bool {
    let words = options.split([':', ',', ' ', '\n', '\t']);
    let mut said = words.filter_map(|word| word.strip_prefix("verify_asan_link_order="));
    said.next_back().is_some_and(|value| matches!(value, "0" | "false" | "no"))
}

/// What a program's file says of sanitizers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Signs {
    shared_address: bool,
    thread: bool,
    memory: bool,
    go: bool,
}

impl Signs {
    fn library(&mut self, name: &[u8]) {
        let is = |gnu: &[u8], llvm: &[u8]| name.starts_with(gnu) || name.starts_with(llvm);
        self.shared_address |= is(b"libasan.so", b"libclang_rt.asan");
        self.thread |= is(b"libtsan.so", b"libclang_rt.tsan");
    }

    fn symbol(&mut self, name: &[u8]) {
        self.thread |= name == b"__tsan_init";
        self.memory |= name == b"__msan_init";
    }
}

/// `None` for files that cannot be read; the code that starts them says why.
fn signs_of(path: &Path) -> Option<Signs> {
    let data = ReadCache::new(File::open(path).ok()?);
    let header = elf::FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &data).ok()?;
    let go = sections.section_by_name(endian, b".go.buildinfo").is_some();
    let mut signs = Signs { go, ..Signs::default() };
    if let Ok(Some((entries, strings))) = sections.dynamic(endian, &data) {
        let strings = sections.strings(endian, &data, strings).ok()?;
        let needed = entries.iter().filter(|e| e.tag32(endian) == Some(elf::DT_NEEDED));
        for entry in needed {
            if let Some(Ok(name)) = entry.val32(endian).map(|at| strings.get(at)) {
                signs.library(name);
            }
        }
    }
    for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        note_symbols(&sections, kind, (endian, &data), &mut signs);
    }
    Some(signs)
}

/// Notes what the program itself defines.
fn note_symbols<'data>(
    sections: &SectionTable<'data, elf::FileHeader64<Endianness>, &'data ReadCache<File>>,
    kind: u32,
    (endian, data): (Endianness, &'data ReadCache<File>),
    signs: &mut Signs,
) {
    let mut tables = sections.iter().filter(|section| section.sh_type(endian) == kind);
    if tables.any(|section| section.sh_size(endian) > MAX_BYTES) {
        return;
    }
    let Ok(table) = sections.symbols(endian, data, kind) else { return };
    for symbol in table.iter().filter(|symbol| !symbol.is_undefined(endian)) {
        if let Ok(name) = symbol.name(endian, table.strings()) {
            signs.symbol(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_check_for_the_first_library_can_be_turned_off() {
        for off in [
            "verify_asan_link_order=0",
            "a=1:verify_asan_link_order=no",
            "b verify_asan_link_order=false",
        ] {
            assert!(lets_others_first(off), "{off}");
        }
        for on in
            ["", "verify_asan_link_order=0:verify_asan_link_order=1", "xverify_asan_link_order=0"]
        {
            assert!(!lets_others_first(on), "{on}");
        }
    }

    /// The signs of a C program with this source.
    fn signs(name: &str, source: &str, flags: &[&str]) -> Signs {
        let folder =
            std::env::temp_dir().join(format!("tt-sanitizers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder of our own");
        let (text, program) = (folder.join("p.c"), folder.join("p"));
        std::fs::write(&text, source).expect("room for a line");
        let status = Command::new("gcc").arg(&text).arg("-o").arg(&program).args(flags).status();
        assert!(status.expect("gcc is there").success());
        let signs = signs_of(&program);
        std::fs::remove_dir_all(&folder).expect("it is ours");
        signs.expect("an ELF file")
    }

    #[test]
    fn programs_are_known_by_what_they_define() {
        let none = Signs::default();
        assert_eq!(signs("none", "int main(void) { return 0; }", &[]), none);
        let calls =
            "void __tsan_init(void) __attribute__((weak)); int main(void) { return !__tsan_init; }";
        assert_eq!(signs("calls", calls, &[]), none);
        for (name, expected) in [
            ("__tsan_init", Signs { thread: true, ..none }),
            ("__msan_init", Signs { memory: true, ..none }),
        ] {
            let source = format!("void {name}(void) {{}} int main(void) {{ return 0; }}");
            assert_eq!(signs(name, &source, &[]), expected);
            assert_eq!(signs(name, &source, &["-s"]), none, "stripped");
            assert_eq!(signs(name, &source, &["-s", "-rdynamic"]), expected);
        }
        let go = "__attribute__((section(\".go.buildinfo\"))) int x = 1; void __tsan_init(void) {} \
                  int main(void) { return 0; }";
        assert_eq!(signs("go", go, &[]), Signs { thread: true, go: true, ..none });
    }
}
