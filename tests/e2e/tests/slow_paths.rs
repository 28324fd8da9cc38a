//! The slow paths of the engine in states that threads bring about too seldom to wait for them: programs of
//! `tests/programs/slow/`, which the slow paths are compiled into.

use std::time::Duration;
use test_support::{Run, Scratch, paths, probe};

/// Compiled anew each time: it changes with the slow paths, which lie elsewhere.
fn run(name: &str) {
    let Some(gcc) = probe::command("gcc") else {
        return probe::skip(name, "no gcc on this machine");
    };
    let (scratch, root) = (Scratch::new(), paths::root());
    let program = scratch.join(name);
    Run::new(gcc)
        .args(["-O2", "-mgeneral-regs-only", "-fno-strict-aliasing", "-I"])
        .arg(root.join("crates/agent/src/slow"))
        .arg(root.join(format!("tests/programs/slow/{name}.c")))
        .arg(root.join("crates/agent/src/slow/usual.c"))
        .arg(root.join("crates/agent/src/slow/matrix.c"))
        .arg("-o")
        .arg(&program)
        .timeout(Duration::from_secs(60))
        .run()
        .expect_code(0);
    Run::new(&program).timeout(Duration::from_secs(10)).run().expect_code(0);
}

#[test]
fn a_block_that_was_lost_is_not_granted() {
    run("ownership");
}
