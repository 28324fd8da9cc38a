//! The slow paths of the engine in states that threads bring about too seldom to wait for them:
//! programs of `tests/programs/slow/`, which the slow paths are compiled into.

use std::path::PathBuf;
use std::time::Duration;
use test_support::{Run, Scratch, paths, probe};

/// Where the agent's build script has written the header that the slow paths share with Rust. Cargo
/// knows, and builds it anew if it is out of date.
fn headers() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let built = Run::new(cargo)
        .args(["build", "--profile", "agent", "-p", "threadtalk-agent", "--message-format", "json"])
        .directory(paths::root())
        .timeout(Duration::from_secs(600))
        .run()
        .expect_code(0);
    let text = built.stdout_text();
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let out_of = |message: serde_json::Value| {
        let is_agent = message["package_id"].as_str()?.contains("crates/agent#");
        is_agent.then_some(PathBuf::from(message["out_dir"].as_str()?))
    };
    messages.filter_map(out_of).next().expect("the agent has a build script")
}

/// Compiled anew each time: it changes with the slow paths, which lie elsewhere.
fn run(name: &str) {
    let Some(gcc) = probe::command("gcc") else {
        return probe::skip(name, "no gcc on this machine");
    };
    let (scratch, root) = (Scratch::new(), paths::root());
    let (program, slow) = (scratch.join(name), root.join("crates/agent/src/slow"));
    Run::new(gcc)
        .args(["-O2", "-mgeneral-regs-only", "-fno-strict-aliasing", "-I"])
        .arg(&slow)
        .arg("-I")
        .arg(headers())
        .arg(root.join(format!("tests/programs/slow/{name}.c")))
        .args(["usual.c", "windowed.c", "matrix.c"].map(|file| slow.join(file)))
        .arg("-o")
        .arg(&program)
        .timeout(Duration::from_secs(60))
        .run()
        .expect_code(0);
    Run::new(&program).timeout(Duration::from_secs(120)).run().expect_code(0);
}

#[test]
fn a_block_that_was_lost_is_not_granted() {
    run("ownership");
}

#[test]
fn return_addresses_beyond_the_room_of_the_tables_take_the_places_of_others() {
    run("returns");
}

#[test]
fn addresses_lead_to_the_smallest_block_around_them() {
    run("blocks");
}
