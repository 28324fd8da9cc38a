//! Tests that run themselves in the virtual machine.

use crate::{Guest, Machine, Tools, quoted};
use test_support::probe;

/// Set in the guest.
const INSIDE: &str = "THREADTALK_LAB_INSIDE";

/// Whether there is a lab here; says that `what` is skipped, and why, if not.
pub fn can_boot(what: &str) -> bool {
    Tools::find().map_err(|missing| probe::skip(what, &missing.to_string())).is_ok()
}

/// Whether the running test is in the guest. If it is not, it is run there, alone, and must pass;
/// where there is no lab, it is skipped.
///
/// # Panics
/// If the test fails in the guest.
#[track_caller]
pub fn inside(machine: Machine) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    // The test harness names each test's thread after the test.
    let test = std::thread::current().name().expect("the thread of a test has a name").to_owned();
    if can_boot(&test) {
        let program = std::env::current_exe().expect("a test knows its program");
        let path = program.display().to_string();
        let command = quoted(&[path.as_str(), "--exact", test.as_str(), "--nocapture"]);
        let guest = Guest::new(machine).program(program);
        let ended = guest.run(&format!("{INSIDE}=1 {command}"));
        let ended = ended.unwrap_or_else(|error| panic!("{error}")).expect_code(0);
        assert!(ended.stdout.contains("1 passed"), "{ended}");
    }
    false
}
