//! Help, completions and man pages.

use std::process::Command;
use test_support::{Outcome, Run, Scratch};

const VERBS: [&str; 14] = [
    "record",
    "auto",
    "report",
    "tune",
    "place",
    "run",
    "top",
    "diff",
    "export",
    "calibrate",
    "topo",
    "simulate",
    "doctor",
    "completions",
];

fn threadtalk(args: &[&str]) -> Outcome {
    let run = Run::new(env!("CARGO_BIN_EXE_threadtalk")).args(args);
    run.run().expect_code(0)
}

/// clap asks the environment where there is no terminal.
fn at_80_columns(args: &[&str]) -> String {
    let binary = env!("CARGO_BIN_EXE_threadtalk");
    let output = Command::new(binary).args(args).env("COLUMNS", "80").output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_short_help_of_the_verbs_most_used_fits_a_screen() {
    for verb in ["record", "report", "tune", "place", "run", "top"] {
        let help = at_80_columns(&[verb, "-h"]);
        assert!(help.lines().count() <= 24, "{verb}: {} lines\n{help}", help.lines().count());
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        let long = at_80_columns(&[verb, "--help"]);
        assert!(long.lines().count() > help.lines().count(), "{long}");
    }
    let first = at_80_columns(&["record", "-h"]);
    for needed in ["--sample", "--pid", "--output", "--force", "threadtalk record -- ./app"] {
        assert!(first.contains(needed), "no {needed}\n{first}");
    }
    let long = at_80_columns(&["record", "--help"]);
    for heading in ["What to run:", "Exact recording:", "Sampling:", "Output:"] {
        assert!(long.contains(&format!("\n{heading}\n")), "no {heading}\n{long}");
    }
}

#[test]
fn output_options_mean_the_same_in_every_verb() {
    for verb in VERBS {
        let help = at_80_columns(&[verb, "-h"]);
        let about = |option: &str| {
            let (_, after) = help.split_once(option)?;
            Some(after.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        if let Some(json) = about(" --json") {
            assert!(json.starts_with("Print the result as JSON"), "{verb}: {json}");
        }
        let file = about("-o, --output <");
        assert!(help.matches("--output").count() == usize::from(file.is_some()), "{verb}\n{help}");
        if let Some(force) = about(" --force") {
            assert!(force.starts_with("Replace the "), "{verb}: {force}");
            let log = help.contains("--log <");
            assert!(file.is_some() || log, "{verb} replaces what nobody names");
        }
        assert!(file.is_none() || help.contains(" --force"), "{verb} cannot replace");
    }
}

#[test]
fn closed_sets_are_listed_by_help_and_completions() {
    let policies = placement::PolicyKind::names();
    let help = at_80_columns(&["place", "--help"]);
    let bash = threadtalk(&["completions", "bash"]).stdout_text();
    for policy in &policies {
        assert!(help.contains(&format!("- {policy}: ")), "no {policy}\n{help}");
    }
    assert!(bash.contains(&policies.join(" ")), "bash does not complete policies");
    for effort in placement::Effort::ALL {
        assert!(help.contains(&format!("- {}: ", effort.name())), "{help}");
    }
    let export = at_80_columns(&["export", "--help"]);
    let kinds = analysis::MatrixKind::ALL.map(|kind| kind.name());
    let launchers = placement::LauncherKind::ALL.map(|launcher| launcher.name());
    for name in kinds.iter().chain(&launchers) {
        assert!(export.contains(&format!("- {name}: ")), "no {name}\n{export}");
    }
}

#[test]
fn bash_reads_its_completions_and_completes_verbs_and_values() {
    let scratch = Scratch::new();
    let file = scratch.join("threadtalk");
    std::fs::write(&file, threadtalk(&["completions", "bash"]).stdout).unwrap();
    let file = file.to_str().unwrap();
    Run::new("bash").args(["-n", file]).run().expect_code(0);
    let complete = |words: &str, at: usize| {
        let script = format!(
            "source {file}; COMP_WORDS=({words}); COMP_CWORD={at}; \
             _threadtalk threadtalk \"${{COMP_WORDS[{at}]}}\" \"${{COMP_WORDS[{}]}}\"; \
             echo \"${{COMPREPLY[@]}}\"",
            at - 1
        );
        Run::new("bash").args(["-c", &script]).run().expect_code(0).stdout_text()
    };
    let verbs = complete("threadtalk ''", 1);
    let listed: Vec<&str> = verbs.split_whitespace().collect();
    assert!(VERBS.iter().all(|verb| listed.contains(verb)), "{verbs}");
    assert_eq!(complete("threadtalk place --effort ''", 3).trim(), "fast default max");
    assert_eq!(complete("threadtalk place --policy tree", 3).trim(), "treematch");
}

#[test]
fn zsh_and_fish_have_completions_of_every_verb() {
    let zsh = threadtalk(&["completions", "zsh"]).stdout_text();
    assert!(zsh.starts_with("#compdef threadtalk\n"), "{zsh}");
    let fish = threadtalk(&["completions", "fish"]).stdout_text();
    for verb in VERBS {
        assert!(zsh.contains(&format!("'{verb}:")), "zsh has no {verb}");
        assert!(fish.contains(&format!("-a \"{verb}\"")), "fish has no {verb}");
    }
    for (shell, text) in [("zsh", zsh), ("fish", fish)] {
        let there = Command::new(shell).arg("--version").output();
        if there.is_err() {
            eprintln!("SKIPPED: {shell} is not installed, so it cannot check its completions");
            continue;
        }
        let scratch = Scratch::new();
        let file = scratch.join("completions");
        std::fs::write(&file, text).unwrap();
        Run::new(shell).args(["-n", file.to_str().unwrap()]).run().expect_code(0);
    }
}

#[test]
fn every_verb_has_a_man_page_that_man_can_show() {
    let scratch = Scratch::new();
    let folder = scratch.join("man1");
    let folder = folder.to_str().unwrap();
    threadtalk(&["man", "-o", folder]);
    let again = Run::new(env!("CARGO_BIN_EXE_threadtalk")).args(["man", "-o", folder]).run();
    assert!(again.refusal().contains("exists already"));
    threadtalk(&["man", "--force", "-o", folder]);
    let pages = VERBS.map(|verb| format!("threadtalk-{verb}.1"));
    let there = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(there, VERBS.len() + 1);
    for page in pages.iter().map(String::as_str).chain(["threadtalk.1"]) {
        let text = std::fs::read_to_string(format!("{folder}/{page}")).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    // A stub says that man was left out of a small system.
    let shown = Command::new("man").args(["-l", &format!("{folder}/threadtalk-record.1")]).output();
    let shown = shown.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    match shown {
        Ok(text) if text.contains("minimized") || text.is_empty() => {
            eprintln!("SKIPPED: man is a stub here, so no page can be shown")
        }
        Ok(text) => {
            let text = text.replace('\u{8}', "");
            assert!(text.contains("SYNOPSIS") || text.contains("SSYYNN"), "{text}");
        }
        Err(error) => eprintln!("SKIPPED: there is no man to show a page: {error}"),
    }
}
