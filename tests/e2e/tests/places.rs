//! Where threads meet: the regions and names of lines of memory, and the code sites, of a program
//! that says where it does so.

use e2e::sampling::note;
use serde_json::Value;
use test_support::threadtalk::profile_json;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk, paths};

const SOURCE: &str = "tests/programs/symbols/where.c";
const ROUNDS: u64 = 1000;

/// A table of a profile, as JSON.
fn table(profile: &std::path::Path, name: &str) -> Vec<Value> {
    let export = Threadtalk::built().verb("export").arg(profile).args([name, "--format", "json"]);
    serde_json::from_slice(&export.run().expect_code(0).stdout).unwrap()
}

/// The line of the source that ends with this comment.
fn line_of(comment: &str) -> u64 {
    let source = std::fs::read_to_string(paths::root().join(SOURCE)).unwrap();
    let line = source.lines().position(|line| line.ends_with(&format!("// {comment}")));
    line.unwrap() as u64 + 1
}

#[test]
fn lines_and_sites_are_named() {
    let flags = ["-O1", "-g", "-pthread"];
    let program = Target::new(Compiler::Gcc, SOURCE).flags(&flags).build().unwrap();
    let file = program.file_name().unwrap().to_string_lossy().into_owned();
    let scratch = Scratch::new();
    let profile = scratch.join("where.tt");
    let command = [program.to_str().unwrap()];
    let record = || Threadtalk::built().record(&profile, &["--force"], &command).run();
    // Mappings are looked at from time to time: on a busy machine, the program may end before.
    let is_seen = |_: &Outcome| table(&profile, "lines").iter().all(|l| l["region"] != "unknown");
    let outcome = (0..5).map(|_| record().expect_code(0)).find(is_seen);
    let outcome = outcome.expect("memory is looked at");
    let (lines, sites) = (table(&profile, "lines"), table(&profile, "sites"));
    let events = table(&profile, "events");
    let told = outcome.stdout_text();
    let expected: Vec<Vec<&str>> =
        told.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(expected.len(), 5);
    for place in expected {
        let [_, region, address] = place[..] else { panic!("{place:?}") };
        let line = lines.iter().find(|line| line["line"] == address);
        let line = line.unwrap_or_else(|| panic!("no {region} {address}: {lines:?}"));
        assert_eq!(line["region"], region, "{line}");
        let object = match region {
            "static" => format!("shared+0x40..0x80 ({file}): .pair.mine, .pair.yours"),
            "thread-local" => format!("own ({file}) of T1"),
            "stack" => "on_stack (stack of T1 in worker)".into(),
            "heap" => "heap block of 64 bytes allocated in worker at where.c:36, by T1".into(),
            "anonymous" => {
                let what = "mapping of 1,048,576 bytes made in worker at where.c:37";
                format!("{what}, bytes 0x0..0x40, by T1")
            }
            _ => panic!("{region}"),
        };
        assert_eq!(line["object"], object.as_str(), "{line}");
        // Each round each thread reads what the other wrote elsewhere in the line, but for the
        // first one and the bytes that were initialised.
        let count = |name: &str| line[name].as_u64().unwrap();
        let reads = count("raw_false") + count("raw_true");
        assert!((2 * ROUNDS - 1..=2 * ROUNDS + 2).contains(&reads), "{line}");
        assert!(count("raw_true") <= 2 && count("raw_any") == 0, "{line}");
        let most = events.iter().filter(|event| event["line"] == address);
        let most = most.max_by_key(|event| event["count"].as_u64()).unwrap();
        let site = |name: &str| &sites[most[name].as_u64().unwrap() as usize];
        let mut found = ["from_site", "to_site"].map(|name| {
            let (function, line) = (&site(name)["function"], &site(name)["line"]);
            (function.as_str().unwrap().to_owned(), line.as_u64().unwrap())
        });
        found.sort();
        let expected = ["main", "worker"].map(|name| (name.to_owned(), line_of(name)));
        assert_eq!(found, expected, "{most}");
    }
}

/// A thread keeps events of at most 16,384 lines and sites; after that many more, of 2,048, the
/// hottest among them; all others by site alone, but of lines that get hot later.
#[test]
fn lines_that_are_hot_before_and_after_a_crowd_are_found() {
    find_hot_lines_around_a_crowd(&[]);
}

/// The slow paths count with string instructions, too.
#[test]
fn they_are_found_while_string_instructions_go_down() {
    find_hot_lines_around_a_crowd(&["-DDOWN"]);
}

#[track_caller]
fn find_hot_lines_around_a_crowd(flags: &[&str]) {
    const LINES: u64 = 40_000;
    const ROUNDS: u64 = 4_000;
    const EARLY: u64 = 500;
    let program = Target::new(Compiler::Gcc, "tests/programs/symbols/crowd.c");
    let flags = [&["-O1", "-pthread"], flags].concat();
    let program = program.flags(&flags).build().unwrap();
    let scratch = Scratch::new();
    let profile = scratch.join("crowd.tt");
    let outcome = Threadtalk::built().record(&profile, &[], &[program.to_str().unwrap()]).run();
    let told = outcome.expect_code(0).stdout_text();
    let (hot, early) = told.trim().strip_prefix("hot ").unwrap().split_once(' ').unwrap();
    let events = table(&profile, "events");
    let count = |wanted: &dyn Fn(&Value) -> bool| -> u64 {
        events.iter().filter(|e| wanted(e)).map(|e| e["count"].as_u64().unwrap()).sum()
    };
    let reads = |e: &Value| e["kind"].as_str().unwrap().starts_with("raw");
    let found = count(&|e| reads(e) && e["line"] == hot);
    assert!((ROUNDS / 2..=ROUNDS).contains(&found), "{found} of {ROUNDS}");
    let without_line = count(&|e| reads(e) && e["line"] == "0x0");
    assert!((LINES - 3_000..=LINES).contains(&without_line), "{without_line}");
    assert_eq!(count(&|e| reads(e) && e["line"] == early), EARLY);
    // No event is lost on the way.
    let totals = &test_support::threadtalk::profile_json(&profile)["totals"];
    assert_eq!(totals["raw"], count(&reads), "{totals}");
}

/// The time slices, and how many instructions the initial thread executed in each in which it ran.
fn slices(command: &[&str], slice: &str) -> (Vec<Value>, Vec<u64>) {
    let scratch = Scratch::new();
    let profile = scratch.join("sliced.tt");
    let options = ["--slice", slice];
    Threadtalk::built().record(&profile, &options, command).run().expect_code(0);
    let activity = table(&profile, "activity");
    let initial = activity.iter().filter(|row| row["thread"] == 0);
    let initial = initial.map(|row| row["instructions"].as_u64().unwrap()).collect();
    (table(&profile, "slices"), initial)
}

/// Threads that sleep cost so little that slices stay as they are, whatever the number of threads.
#[test]
fn many_sleeping_threads_leave_time_slices_as_they_are() {
    let program = Target::new(Compiler::Gcc, "tests/programs/stress/sleepers.c");
    let program = program.flags(&["-O2", "-pthread"]).build().unwrap();
    let length = |threads: &str| {
        let (slices, _) = slices(&[program.to_str().unwrap(), threads, "1500"], "10ms");
        let ends = |slice: &Value| slice["end_ns"].as_u64().unwrap();
        ends(slices.last().unwrap()) as f64 / slices.len() as f64
    };
    // Joined slices would be twice as long at least. On a machine that others keep busy, all are
    // longer.
    let mut found = Vec::new();
    let alike = (0..4).any(|_| {
        let [few, many] = ["4", "700"].map(length);
        found.push((few, many));
        many < 1.5 * few
    });
    assert!(alike, "{found:?} ns with few threads and with many");
}

/// A thread that waits in a system call is not looked at, but when a handler interrupts it, it
/// works.
#[test]
fn work_of_handlers_that_interrupt_system_calls_is_in_its_time_slices() {
    let program = Target::new(Compiler::Gcc, "tests/programs/stress/handler_works.c");
    let program = program.flags(&["-O1"]).build().unwrap();
    for way in ["return", "jump"] {
        // On a machine that others keep busy, slices may come late.
        let mut found = Vec::new();
        let is_spread = (0..4).any(|_| {
            let (_, initial) = slices(&[program.to_str().unwrap(), way], "1ms");
            let (most, all): (u64, u64) = (*initial.iter().max().unwrap(), initial.iter().sum());
            found.push((most, all));
            most < all / 2
        });
        assert!(is_spread, "{way}: so much of all in one slice: {found:?}");
    }
}

#[test]
fn time_slices_add_up() {
    // Some milliseconds of it.
    let flags = ["-O1", "-pthread", "-DROUNDS=10000"];
    let program = Target::new(Compiler::Gcc, SOURCE).flags(&flags).build().unwrap();
    let scratch = Scratch::new();
    for (options, sliced) in [(&["--slice", "1ms"][..], true), (&["--slice", "0"], false)] {
        let profile = scratch.join(if sliced { "sliced.tt" } else { "whole.tt" });
        let command = [program.to_str().unwrap()];
        Threadtalk::built().record(&profile, options, &command).run().expect_code(0);
        let slices = table(&profile, "slices");
        let time = |slice: &Value, name: &str| slice[name].as_u64().unwrap();
        for pair in slices.windows(2) {
            assert_eq!(time(&pair[0], "end_ns"), time(&pair[1], "start_ns"));
        }
        assert_eq!(slices.len() > 1, sliced, "{slices:?}");
        let sum = |rows: &[Value], name: &str| -> u64 {
            rows.iter().map(|row| row[name].as_u64().unwrap()).sum()
        };
        let json = test_support::threadtalk::profile_json(&profile);
        let activity = table(&profile, "activity");
        for name in ["instructions", "loads", "stores"] {
            assert_eq!(json["totals"][name], sum(&activity, name), "{name}");
            assert!(sum(&activity, name) > ROUNDS);
        }
    }
}

#[test]
fn code_of_a_program_that_was_replaced_meanwhile_has_no_names_and_that_is_said() {
    let program = Target::new(Compiler::Gcc, "tests/programs/symbols/replaced.c");
    let program = program.flags(&["-O1", "-g", "-pthread"]).build().unwrap();
    let scratch = Scratch::new();
    let (running, other) = (scratch.join("running"), scratch.join("other"));
    let record = |name: &str, with: &[&str]| {
        std::fs::copy(&program, &running).unwrap();
        std::fs::copy("/bin/true", &other).unwrap();
        let profile = scratch.join(name);
        let command = [&[running.to_str().unwrap()], with].concat();
        Threadtalk::built().record(&profile, &[], &command).run().expect_code(0);
        let sites = table(&profile, "sites");
        let named = sites.iter().any(|site| site["function"] == "count");
        (named, note(&profile_json(&profile), "code-without-names").cloned())
    };
    assert_eq!(record("stays.tt", &[]), (true, None));
    let (named, note) = record("replaced.tt", &[other.to_str().unwrap()]);
    assert!(!named);
    assert_eq!(note.expect("a note")["file"], "running");
}

#[test]
fn that_a_program_has_no_debug_information_or_a_damaged_one_is_said() {
    let scratch = Scratch::new();
    let build = |flags: &[&str]| {
        let flags = [&["-O1", "-pthread"], flags].concat();
        Target::new(Compiler::Gcc, SOURCE).flags(&flags).build().unwrap()
    };
    let damaged = scratch.join("damaged");
    let section = scratch.join("section");
    std::fs::write(&section, [0xff; 4096]).unwrap();
    let update = format!(".debug_info={}", section.display());
    let objcopy = Run::new("objcopy").args(["--update-section", &update]);
    objcopy.arg(build(&["-g"])).arg(&damaged).run().expect_code(0);
    let noted = |program: &std::path::Path| {
        let profile = scratch.join("lines.tt");
        let command = [program.to_str().unwrap()];
        Threadtalk::built().record(&profile, &["--force"], &command).run().expect_code(0);
        assert!(!table(&profile, "events").is_empty());
        note(&profile_json(&profile), "no-lines").cloned()
    };
    assert_eq!(noted(&build(&["-g"])), None);
    for (program, named) in
        [(build(&["-g0"]), true), (build(&["-g0", "-s"]), false), (damaged, true)]
    {
        let name = program.file_name().unwrap().to_string_lossy().into_owned();
        let note = noted(&program).expect("a note");
        assert_eq!((&note["file"], &note["named"]), (&name.into(), &named.into()), "{note}");
    }
}
