//! Programs with a sanitizer, by ELF files made by hand, damaged ones too.

use super::*;
use std::ffi::CString;

/// A file with these bytes while `action` runs.
fn with_file<R>(name: &str, bytes: &[u8], action: impl FnOnce(&CStr) -> R) -> R {
    let path = std::env::temp_dir().join(format!("threadtalk-{name}-{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let result = action(&CString::new(path.to_str().unwrap()).unwrap());
    std::fs::remove_file(&path).unwrap();
    result
}

fn refused(name: &str, bytes: &[u8]) -> bool {
    // SAFETY: a string.
    with_file(name, bytes, |path| unsafe { refuses(path.as_ptr(), false) })
}

/// Where the parts of the program lie in its file, and what its addresses are above that.
const HEADERS: usize = 64;
const DYNAMIC: usize = 0x200;
const STRINGS: usize = 0x400;
const MAPPED: u64 = 0x50_0000;

/// A program for x86-64 that needs these libraries. Its second loaded segment has the strings.
fn program(libraries: &[&str]) -> Vec<u8> {
    let mut file = vec![0_u8; STRINGS];
    let mut put = |at: usize, words: &[u64]| {
        for (k, word) in words.iter().enumerate() {
            file[at + k * 8..at + k * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
    };
    let (strings, dynamic) = (STRINGS as u64, DYNAMIC as u64);
    let count = libraries.len() as u64 + 2;
    // Type and flags, offset, virtual and physical address, bytes in the file and in memory, align.
    let segment = |kind: u64, offset, address, bytes| [kind, offset, address, 0, bytes, bytes, 8];
    let segments = [
        segment(1, 0, 0x40_0000, dynamic),
        segment(6, 0, 0x40_0040, 56),
        segment(1, strings, MAPPED, 0x1000),
        segment(2, dynamic, 0x60_0000, count * 16),
    ];
    put(32, &[HEADERS as u64]);
    put(56, &[segments.len() as u64]);
    segments.iter().enumerate().for_each(|(k, segment)| put(HEADERS + k * 56, segment));
    let mut names = b"\0".to_vec();
    let mut entries = Vec::new();
    for library in libraries {
        entries.extend([1, names.len() as u64]);
        names.extend(library.as_bytes());
        names.push(0);
    }
    // The strings' address, and the end.
    entries.extend([5, MAPPED, 0, 0]);
    put(DYNAMIC, &entries);
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file.extend(names);
    file
}

#[test]
fn a_program_that_needs_a_sanitizers_runtime_is_refused() {
    for runtime in [
        "libasan.so.8",
        "libtsan.so.2",
        "liblsan.so.0",
        "libhwasan.so.0",
        "libclang_rt.asan-x86_64.so",
        "libclang_rt.hwasan-x86_64.so",
    ] {
        assert!(refused("runtime", &program(&["libm.so.6", runtime, "libc.so.6"])), "{runtime}");
        assert!(refused("runtime", &program(&[runtime])), "{runtime}");
    }
}

#[test]
fn other_programs_are_not() {
    for libraries in [
        &["libc.so.6", "libstdc++.so.6"][..],
        &["libasandwich.so", "myliblsan.so", "LIBASAN.so", "libasan"],
        &["libclang_rt.ubsan_standalone.so"],
        &[],
    ] {
        assert!(!refused("other", &program(libraries)), "{libraries:?}");
    }
    let mut of_32_bits = program(&["libasan.so.8"]);
    of_32_bits[4] = 1;
    assert!(!refused("32", &of_32_bits) && !refused("script", b"#!/bin/sh\nlibasan.so\n"));
    assert!(!refused("empty", b""));
    // SAFETY: null, and strings.
    unsafe {
        assert!(!refuses(core::ptr::null(), false));
        assert!(!refuses(c"/nonexistent/program".as_ptr(), false) && !refuses(c"".as_ptr(), true));
        let long = CString::new("x".repeat(5000)).unwrap();
        assert!(!refuses(long.as_ptr(), false) && !refuses(long.as_ptr(), true));
    }
}

#[test]
fn a_damaged_program_is_read_to_its_end_and_not_beyond() {
    let whole = program(&["libm.so.6", "libasan.so.8"]);
    // Without the last library's name, which begins at byte 11 of the strings, it is not known.
    for cut in [0, 10, 63, HEADERS + 100, DYNAMIC, DYNAMIC + 16, STRINGS, STRINGS + 11] {
        assert!(!refused("cut", &whole[..cut]), "{cut}");
    }
    for (at, word) in [
        (32, u64::MAX - 8),
        (32, 1 << 62),
        (56, 0),
        (HEADERS + 3 * 56 + 8, u64::MAX - 8),
        (HEADERS + 3 * 56 + 32, 0),
        (HEADERS + 2 * 56 + 8, u64::MAX - 8),
        (HEADERS + 2 * 56 + 16, u64::MAX),
        // The strings' address is in no segment; the name's place does not exist.
        (DYNAMIC + 40, MAPPED + 0x1000),
        (DYNAMIC + 24, u64::MAX),
    ] {
        let mut broken = whole.clone();
        broken[at..at + 8].copy_from_slice(&word.to_le_bytes());
        assert!(!refused("broken", &broken), "{at:#x} {word:#x}");
    }
    // As many headers and entries as can be said.
    let mut broken = whole;
    broken[56..58].fill(0xff);
    broken[HEADERS + 3 * 56 + 32..HEADERS + 3 * 56 + 40].fill(0xff);
    assert!(refused("broken", &broken));
}

#[test]
fn a_name_without_a_folder_is_looked_for_where_programs_are() {
    // A name with a folder is not looked for; the file is found also where it cannot be executed.
    with_file("search", &program(&["libasan.so.8"]), |path| {
        // SAFETY: a string.
        assert!(unsafe { refuses(path.as_ptr(), true) });
        let name = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap();
        let folder = &path.to_bytes()[..path.to_bytes().len() - name.len() - 1];
        assert!(File::open(folder, name).is_some() && File::open(b"/nonexistent", name).is_none());
        assert!(File::open(path.to_bytes(), b"").is_some());
    });
    // Tests run in the folder of their package.
    let manifest = b"Cargo.toml";
    assert!(found_in(b":/nonexistent", manifest).is_some());
    assert!(found_in(b"/nonexistent::/", manifest).is_some());
    assert!(found_in(b"/nonexistent:/", manifest).is_none());
}
