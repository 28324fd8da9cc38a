//! What is emitted for each instruction form, instruction by instruction: `forms/forms.txt` lists
//! the forms, `forms/expected-MODE.txt` what the engine makes of them.
//!
//! After a change that is meant to change code, look at the difference that
//!
//!     THREADTALK_UPDATE=1 cargo test --release -p threadtalk-engine --test forms
//!
//! makes in these files, and commit it with the change.
#![cfg(target_arch = "x86_64")]

mod support;

use engine::Mode;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use support::Machine;
use support::listing::listing;

/// The harness keeps its state in statics.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms")
}

struct Form {
    name: String,
    bytes: Vec<u8>,
    assembly: String,
}

fn forms() -> Vec<Form> {
    let text = std::fs::read_to_string(folder().join("forms.txt")).expect("the list of forms");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let form = |line: &str| {
        let mut parts = line.split(" | ").map(str::to_string);
        let mut part = || parts.next().unwrap_or_else(|| panic!("three parts: {line}"));
        let (name, bytes, assembly) = (part(), part(), part());
        let byte = |text: &str| u8::from_str_radix(text, 16).expect("hexadecimal bytes");
        Form { name, bytes: bytes.split(' ').map(byte).collect(), assembly }
    };
    lines.map(form).collect()
}

/// Compares all forms in a mode with what the file expects, or writes the file.
fn check(name: &str, mode: Mode, disable: u32) {
    // Indirect branches hash and bytes are selected by shifts, for which newer processors have
    // better instructions.
    if !std::arch::is_x86_feature_detected!("bmi2") {
        // Past the capture of the test harness.
        let _ = writeln!(std::io::stderr(), "SKIPPED {name}: this processor has no BMI2");
        return;
    }
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::new(mode, disable);
    let mut text = format!(
        "# What the engine emits in mode {mode:?}; see forms.rs. Offsets, then instructions; what is not\n\
         # reached by the block itself is data.\n"
    );
    let forms = forms();
    assert!(forms.len() >= 80, "only {} forms", forms.len());
    for form in forms {
        let listing = listing(&machine, &form.bytes, mode, disable);
        text += &format!("\n== {}: {}\n{listing}", form.name, form.assembly);
    }
    let path = folder().join(format!("expected-{name}.txt"));
    if std::env::var_os("THREADTALK_UPDATE").is_some() {
        return std::fs::write(&path, text).expect("writing what is expected");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = |(is, should): &(&str, &str)| is != should;
    let sections = text.split("\n== ").zip(expected.split("\n== "));
    if let Some((is, should)) = sections.clone().find(differs) {
        panic!(
            "{name}: emitted is\n\n{is}\n\nand expected\n\n{should}\n\nIf that is meant, run this test \
             with THREADTALK_UPDATE=1 and look at what changes."
        );
    }
    assert_eq!(text, expected, "{name}: another number of forms");
}

#[test]
fn translated_only() {
    check("translate", Mode::Translate, 0);
}

#[test]
fn matrix() {
    check("matrix", Mode::Matrix, 0);
}

#[test]
fn detail() {
    check("detail", Mode::Detail, 0);
}

#[test]
fn trace() {
    check("trace", Mode::Trace, 0);
}
