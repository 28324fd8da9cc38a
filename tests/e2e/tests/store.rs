//! The store of translated code: later recordings take blocks from it, and nothing else changes,
//! whatever state it is in.

use e2e::truth::truth;
use e2e::{assert_unchanged, known, native, stress};
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_support::threadtalk::{own_sentence, profile_json};
use test_support::{Outcome, Run, Scratch, Threadtalk, probe};

/// A cache folder of its own, empty at first, and room for profiles.
struct Place {
    scratch: Scratch,
    threadtalk: Threadtalk,
}

impl Place {
    fn new() -> Self {
        Place { scratch: Scratch::new(), threadtalk: Threadtalk::built() }
    }

    fn cache(&self) -> PathBuf {
        self.scratch.join("cache")
    }

    /// The store's file; there must be just one.
    #[track_caller]
    fn file(&self) -> PathBuf {
        let files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache().join("threadtalk")).into_iter().flatten().flatten();
        let is_store = |name: &str| name.starts_with("code-");
        let stores = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_store));
        stores.map(|entry| entry.path()).collect()
    }

    fn record(&self, options: &[&str], command: &[&str]) -> Run {
        let all = [options, &["--block", "64", "--force"]].concat();
        let record = self.threadtalk.record(&self.profile(), &all, command);
        record.env("XDG_CACHE_HOME", self.cache()).timeout(Duration::from_secs(240))
    }

    fn profile(&self) -> PathBuf {
        self.scratch.join("stored.tt")
    }

    /// Records the command, which must end well, and says how much of its code was stored.
    #[track_caller]
    fn part_stored(&self, options: &[&str], command: &[&str]) -> f64 {
        self.record(options, command).run().expect_code(0);
        part_stored(&self.profile())
    }
}

#[track_caller]
fn part_stored(profile: &Path) -> f64 {
    let json = profile_json(profile);
    let [blocks, stored] = ["blocks", "blocks_stored"].map(|name| json[name].as_f64().unwrap());
    assert!(blocks > 100.0 && stored <= blocks, "{stored} of {blocks}");
    stored / blocks
}

/// A program with truth: a ring of threads.
fn ring() -> (PathBuf, Vec<&'static str>) {
    (known::program("family", &["-O2", "-g"]), vec!["pattern", "ring", "4", "4", "256", "64"])
}

/// Records the ring and compares all that can be said of it.
#[track_caller]
fn ring_is_right(place: &Place, options: &[&str]) -> (f64, Outcome) {
    let (program, arguments) = ring();
    let command = [&[program.to_str().unwrap()][..], &arguments].concat();
    let alone = native(&command.iter().map(ToString::to_string).collect::<Vec<_>>());
    let recorded = place.record(options, &command).run();
    assert_unchanged(&alone, &recorded);
    let expected =
        test_support::matrix::Expected::from_output(&alone.stdout_text(), "raw").unwrap();
    let matrix = place.threadtalk.matrix(&place.profile(), "raw");
    let noise = known::Runtime::Pthreads.noise(9);
    let complaints = matrix.complaints(&expected, |from, to| noise.of(from, to) + 8);
    assert!(expected.total() > 0 && complaints.is_empty(), "{}", complaints.join("\n"));
    (part_stored(&place.profile()), recorded)
}

#[test]
fn the_second_recording_takes_code_from_the_store() {
    let place = Place::new();
    assert_eq!(ring_is_right(&place, &["--no-code-cache"]).0, 0.0);
    assert!(!place.cache().exists(), "without it nothing is kept");
    assert_eq!(ring_is_right(&place, &[]).0, 0.0);
    let bytes = place.file().metadata().unwrap().len();
    assert!(ring_is_right(&place, &[]).0 > 0.9);
    assert_eq!(place.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // Threads that come in another order pass through a little other code.
    let now = place.file().metadata().unwrap().len();
    assert!(now - bytes < bytes / 20, "something is kept twice: {bytes}, then {now} bytes");
    assert_eq!(ring_is_right(&place, &["--no-code-cache"]).0, 0.0);
    // What counts otherwise has code of its own, in the same file.
    for mode in [&["--matrix"][..], &["--undirected"]] {
        let command = ring();
        let words = [&[command.0.to_str().unwrap()][..], &command.1].concat();
        assert_eq!(place.part_stored(mode, &words), 0.0, "{mode:?}");
        assert!(place.part_stored(mode, &words) > 0.9, "{mode:?}");
    }
    let other = place.part_stored(&["--no-follow"], &["/bin/true"]);
    assert!(other > 0.3, "the loader's and the C library's code is known: {other}");
}

#[test]
fn the_machine_is_what_it_is_however_it_is_known() {
    let place = Place::new();
    let machine = |options: &[&str]| {
        place.record(options, &["/bin/true"]).run().expect_code(0);
        let json = profile_json(&place.profile());
        json["topology_xml"].as_str().unwrap().to_string()
    };
    let looked = machine(&["--no-code-cache"]);
    assert_eq!([machine(&[]), machine(&[])], [looked.clone(), looked.clone()]);
    // Of another machine, or another time.
    let file = place.cache().join("threadtalk").join("machine");
    let kept = fs::read_to_string(&file).unwrap();
    assert!(kept.ends_with(&looked));
    fs::write(&file, kept.replacen("<topology", "<topologie", 1)).unwrap();
    assert_eq!(machine(&[]), looked);
    let made_up = place.record(&[], &["/bin/true"]).env("HWLOC_SYNTHETIC", "pack:3 core:2 pu:1");
    made_up.run().expect_code(0);
    let json = profile_json(&place.profile());
    assert!(json["topology_xml"] != looked.as_str(), "settings of hwloc are respected");
}

/// With everything at the same address, a program without threads does the same in each run.
#[test]
fn stored_code_counts_what_translated_code_does() {
    let Some(setarch) = probe::command("setarch") else {
        return probe::skip("setarch", "not installed");
    };
    let place = Place::new();
    let totals = |options: &[&str]| {
        let all = [&["--block", "64", "--force", "--slice", "0"], options].concat();
        let command = ["/usr/bin/sort", "/usr/share/common-licenses/GPL-3"];
        let run = Run::new(&setarch)
            .args(["-R", "--"])
            .arg(test_support::paths::release().join("threadtalk"));
        let run = run.args(["record", "--exact", "-o"]).arg(place.profile()).args(all).arg("--");
        let run = run.args(command).env("XDG_CACHE_HOME", place.cache()).env("LC_ALL", "C");
        let recorded = run.run().expect_code(0);
        let json = profile_json(&place.profile());
        (json["totals"].clone(), recorded.stdout, part_stored(&place.profile()))
    };
    let without = totals(&["--no-code-cache"]);
    let (first, second) = (totals(&[]), totals(&[]));
    assert!(without.0["instructions"].as_u64().unwrap() > 100_000, "{}", without.0);
    assert_eq!((&first.0, &first.1, first.2), (&without.0, &without.1, 0.0));
    assert_eq!((&second.0, &second.1), (&without.0, &without.1));
    assert!(second.2 > 0.9, "{}", second.2);
}

#[test]
fn every_trap_is_counted_right_with_stored_code() {
    let place = Place::new();
    let (library, binary) = (known::traps_library(), known::program("traps", &["-O2"]));
    let list = Run::new(&binary).arg("list").run().expect_code(0).stdout_text();
    let cache = place.cache();
    let mut wrong = Vec::new();
    // The first of them fills the store for the others; the second time all of it is known.
    for trap in list.lines().chain(list.lines()) {
        let command = [binary.to_str().unwrap(), trap, library.to_str().unwrap()];
        wrong.extend(truth(&command, None, &[("XDG_CACHE_HOME", cache.to_str().unwrap())]).err());
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let command =
        [binary.to_str().unwrap(), list.lines().next().unwrap(), library.to_str().unwrap()];
    assert!(place.part_stored(&[], &command) > 0.8);
}

#[test]
fn processes_and_recorders_share_it() {
    let place = Place::new();
    let script = "/bin/true; (exec /bin/echo a); /bin/cat </dev/null; echo $(/bin/echo b)";
    let command = ["/bin/sh", "-c", script];
    let children = || -> Vec<f64> {
        let json = profile_json(&place.profile());
        let processes = json["processes"].as_array().unwrap();
        let path = |p: &serde_json::Value| place.profile().join(p["profile"].as_str().unwrap());
        processes.iter().map(|process| part_stored(&path(process))).collect()
    };
    // Several at once, none of which finds anything.
    std::thread::scope(|scope| {
        for k in 0..4 {
            let (place, profile) = (&place, place.scratch.join(&format!("{k}.tt")));
            scope.spawn(move || {
                let record = place.threadtalk.record(&profile, &[], &command);
                record.env("XDG_CACHE_HOME", place.cache()).run().expect_code(0);
            });
        }
    });
    let bytes = place.file().metadata().unwrap().len();
    let recorded = place.record(&[], &command).run().expect_code(0);
    assert_eq!(recorded.stdout_text(), "a\nb\n");
    let found = children();
    assert!(found.len() >= 4 && found.iter().all(|part| *part > 0.9), "{found:?}");
    // Four times the same is kept once.
    let now = place.file().metadata().unwrap().len();
    assert!(now < bytes + bytes / 10, "grew from {bytes} to {now}");
}

/// Changes every so manieth byte, from an offset on.
fn damage(path: &Path, from: usize, step: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes.iter_mut().skip(from).step_by(step).for_each(|byte| *byte = !*byte);
    fs::write(path, bytes).unwrap();
}

#[test]
fn damage_costs_time_and_nothing_else() {
    let place = Place::new();
    assert_eq!(ring_is_right(&place, &[]).0, 0.0);
    let whole = fs::read(place.file()).unwrap();
    let restore = || {
        let path = place.files().first().cloned().unwrap_or_default();
        fs::write(&path, &whole).unwrap();
        path
    };
    let records = offset_of_records(&whole);
    // Every block has a byte that is wrong: none is used, and all are replaced.
    damage(&restore(), records, 61);
    assert_eq!(ring_is_right(&place, &[]).0, 0.0);
    assert!(ring_is_right(&place, &[]).0 > 0.9);
    // Some have.
    damage(&restore(), records, 20_011);
    let (part, _) = ring_is_right(&place, &[]);
    assert!((0.05..0.98).contains(&part), "{part}");
    // An index that leads astray.
    damage(&restore(), 4096 + 8, 16);
    assert_eq!(ring_is_right(&place, &[]).0, 0.0);
    damage(&restore(), 4096 + 8, 3);
    ring_is_right(&place, &[]);
    // Cut off: among the records, in the index, in the header.
    for length in [records + (whole.len() - records) / 2 + 5, records, records / 2, 20, 1] {
        let file = OpenOptions::new().write(true).open(restore()).unwrap();
        file.set_len(length as u64).unwrap();
        let (part, _) = ring_is_right(&place, &[]);
        assert!(part < 0.9, "{part} of {length} bytes");
        ring_is_right(&place, &[]);
        assert!(ring_is_right(&place, &[]).0 > 0.9, "it has recovered from {length} bytes");
    }
    fs::write(restore(), "something else").unwrap();
    ring_is_right(&place, &[]);
    ring_is_right(&place, &[]);
    assert!(ring_is_right(&place, &[]).0 > 0.9);
}

/// Where records begin: the index, which starts at the second page, leads nowhere before that.
fn offset_of_records(whole: &[u8]) -> usize {
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
    let slots = (4096..4096 + (4 << 20)).step_by(16);
    let places = slots.filter(|at| word(*at) != 0);
    places.map(|at| word(at + 8)).min().expect("it holds a record") as usize
}

#[test]
fn what_is_not_safe_is_not_used_and_says_so() {
    let place = Place::new();
    ring_is_right(&place, &[]);
    let file = place.file();
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let refused = || {
        let (program, arguments) = ring();
        let command = [&[program.to_str().unwrap()][..], &arguments].concat();
        let recorded = place.record(&[], &command).run().expect_code(0);
        assert_eq!(part_stored(&place.profile()), 0.0);
        let stderr = recorded.stderr_text();
        stderr.contains("run 'chmod go-w' on it") && stderr.contains("--no-code-cache")
    };
    set(&file, 0o666);
    assert!(refused());
    set(&file, 0o600);
    set(&place.cache().join("threadtalk"), 0o777);
    assert!(refused());
    let (part, recorded) = ring_is_right(&place, &["--no-code-cache"]);
    assert!(part == 0.0 && !recorded.stderr_text().contains("chmod"), "{recorded}");
    set(&place.cache().join("threadtalk"), 0o700);
    assert!(ring_is_right(&place, &[]).0 > 0.9);
    // A link could lead anywhere; a folder leads nowhere.
    let elsewhere = place.scratch.join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert_eq!(ring_is_right(&place, &[]).0, 0.0);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(ring_is_right(&place, &[]).0, 0.0);
}

#[test]
fn without_a_place_for_it_all_is_as_before() {
    let place = Place::new();
    let (program, arguments) = ring();
    let command = [&[program.to_str().unwrap()][..], &arguments].concat();
    for cache in ["/dev/null", "/proc/threadtalk"] {
        let record = place.record(&[], &command).env("XDG_CACHE_HOME", cache);
        let recorded = record.run().expect_code(0);
        own_sentence_is_only_the_result(&recorded);
        assert_eq!(part_stored(&place.profile()), 0.0);
    }
    let record = place.record(&[], &command).env_remove("XDG_CACHE_HOME").env_remove("HOME");
    record.run().expect_code(0);
    assert_eq!(part_stored(&place.profile()), 0.0);
}

#[track_caller]
fn own_sentence_is_only_the_result(recorded: &Outcome) {
    assert!(own_sentence(recorded).contains("recorded"), "{recorded}");
}

/// A large store is mapped, but is none of the program's memory: limits on that are its own.
#[test]
fn a_large_store_leaves_limits_as_they_are() {
    let place = Place::new();
    ring_is_right(&place, &[]);
    let file = OpenOptions::new().write(true).open(place.file()).unwrap();
    file.set_len(250 << 20).unwrap();
    for arguments in [&["limits"][..], &["locked"], &["sparse"]] {
        let command = stress::command("odd_processes", arguments);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        for _ in 0..2 {
            assert_unchanged(&native(&command), &place.record(&[], &words).run());
            assert!(part_stored(&place.profile()) > 0.1, "{arguments:?}");
        }
    }
    for limit in ["-v 400000", "-d 60000", "-f 0", "-n 16"] {
        let script = format!("ulimit {limit}; exec /bin/echo done");
        let command = ["/bin/bash", "-c", &script];
        let alone = native(&command.map(String::from));
        for _ in 0..2 {
            assert_unchanged(&alone, &place.record(&[], &command).run());
        }
    }
}
