//! Call paths of code sites: who called the functions in which threads communicate.

use e2e::{assert_unchanged, native};
use serde_json::Value;
use test_support::{Compiler, Scratch, Target, Threadtalk};

/// Recordings whose paths are taken together: those of one are few.
const RECORDINGS: usize = 5;

/// How large the part of `often` is among the paths that lead to `add` in several recordings, and
/// the paths of the last.
fn part_of_often(flags: &[&str], words: &[&str], options: &[&str]) -> (f64, Vec<String>) {
    let recorded: Vec<_> = (0..RECORDINGS).map(|_| paths_to_add(flags, words, options)).collect();
    let often: f64 = recorded.iter().map(|(often, ..)| often).sum();
    let all: f64 = recorded.iter().map(|(_, all, _)| all).sum();
    (often / all, recorded.into_iter().next_back().unwrap().2)
}

/// Records the program and returns how many of the paths that lead to `add` come from `often`, how
/// many there are, and all paths.
fn paths_to_add(flags: &[&str], words: &[&str], options: &[&str]) -> (f64, f64, Vec<String>) {
    let program = Target::new(Compiler::Gcc, "tests/programs/objects/callers.c");
    let program = program.flags(flags).build().unwrap();
    let mut command = vec![program.to_str().unwrap().to_owned()];
    command.extend(words.iter().map(|word| (*word).to_owned()));
    let scratch = Scratch::new();
    let profile = scratch.join("callers.tt");
    let run = Threadtalk::built().verb("record").args(["--force"]).args(options);
    let run = run.arg("-o").arg(&profile).arg("--").args(&command).run();
    assert_unchanged(&native(&command), &run);
    let table = |name: &str| -> Vec<Value> {
        let export = Threadtalk::built().verb("export").arg(&profile).arg(name);
        let text = export.args(["--format", "json"]).run().expect_code(0).stdout_text();
        serde_json::from_str(&text).unwrap()
    };
    let sites = table("sites");
    let is_add = |site: &Value| sites[site.as_u64().unwrap() as usize]["function"] == "add";
    let calls: Vec<Value> = table("calls").into_iter().filter(|c| is_add(&c["site"])).collect();
    let path = |call: &Value| call["path"].as_str().unwrap().to_owned();
    let sum = |begins: &str| -> f64 {
        let counted = calls.iter().filter(|call| path(call).starts_with(begins));
        counted.map(|call| call["count"].as_u64().unwrap() as f64).sum()
    };
    let (often, all) = (sum("often at callers.c:"), sum(""));
    assert!(all > 0.0 && (sum("seldom at callers.c:") + often) / all > 0.99, "{calls:?}");
    (often, all, calls.iter().map(path).collect())
}

#[test]
fn callers_of_a_function_are_told_in_their_shares() {
    let (often, paths) = part_of_often(&["-O1", "-g", "-pthread"], &[], &["--exact"]);
    assert!((0.6..0.9).contains(&often), "{often}: {paths:?}");
    let through = |caller: &str| {
        let from = format!("; {caller} at callers.c:");
        paths.iter().any(|path| path.contains("; take_turns at callers.c:") && path.contains(&from))
    };
    assert!(through("main"), "{paths:?}");
    assert!(paths.iter().any(|path| !path.contains("main")), "{paths:?}");
}

#[test]
fn callers_are_told_where_frames_hang_on_rbp() {
    let flags = ["-O0", "-g", "-pthread"];
    let (often, paths) = part_of_often(&flags, &["frames"], &["--exact"]);
    assert!((0.6..0.9).contains(&often), "{often}: {paths:?}");
    let (often, paths) = part_of_often(&["-O2", "-g", "-pthread"], &["frames"], &["--exact"]);
    assert!((0.6..0.9).contains(&often), "{often}: {paths:?}");
}

#[test]
fn callers_are_told_in_windows() {
    let (often, paths) = part_of_often(&["-O1", "-g", "-pthread"], &[], &["--duty", "50%"]);
    assert!((0.5..0.95).contains(&often), "{often}: {paths:?}");
}
