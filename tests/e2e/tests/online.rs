//! `auto` from outside: what it does to real programs, that it leaves alone what is not its own,
//! and that everything is given back, whatever ends it.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};
use test_support::run::heed_interrupts;
use test_support::{Compiler, Outcome, Run, Scratch, Target, Threadtalk, probe};

/// Two processes that share a file's memory.
fn family() -> &'static str {
    static BUILT: OnceLock<String> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Target::new(Compiler::Gcc, "tests/programs/known/mapped.c");
        let path = target.flags(&["-O2"]).build().unwrap_or_else(|error| panic!("{error}"));
        path.to_str().unwrap().to_owned()
    })
}

fn partners() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Target::new(Compiler::Gcc, "tests/programs/known/partners.c");
        let target = target.flags(&["-O2", "-g", "-pthread"]);
        target.build().unwrap_or_else(|error| panic!("{error}"))
    })
}

thread_local! {
    /// Each test runs in a thread of its own, and has journals, status and lock of its own.
    static STATE: Scratch = Scratch::new();
}

fn state() -> PathBuf {
    STATE.with(|folder| folder.join("state"))
}

fn auto(args: &[&str]) -> Run {
    let run = Threadtalk::built().verb("auto").env("THREADTALK_STATE_DIR", state());
    run.args(args).timeout(Duration::from_secs(120))
}

/// Threads that may use fewer processors than this process.
fn narrow(pid: u32) -> usize {
    let own = allowed("/proc/self/status");
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let narrow = |path: PathBuf| allowed(&path.join("status").to_string_lossy()) != own;
    threads.flatten().filter(|thread| narrow(thread.path())).count()
}

fn allowed(status: &str) -> Option<String> {
    let text = fs::read_to_string(status).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|l| l.trim().into())
}

/// Waits until it is so; whether it became so.
fn comes(what: impl Fn() -> bool, within: u64) -> bool {
    let deadline = Instant::now() + Duration::from_secs(within);
    while Instant::now() < deadline {
        if what() {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    what()
}

/// A program or an `auto` beside the test; killed at its end.
struct Beside(Child);

impl Beside {
    fn program(args: &[&str]) -> Self {
        let child = Command::new(partners()).args(args).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("its first line");
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn auto(args: &[&str]) -> Self {
        let mut command = Command::new(Threadtalk::built().path());
        heed_interrupts(&mut command);
        command.env("THREADTALK_STATE_DIR", state());
        let child = command.arg("auto").args(args).stderr(Stdio::null()).spawn();
        Self(child.expect("auto starts"))
    }

    fn signal(&self, signal: i32) {
        let number = self.0.id().to_string();
        let sent = Command::new("kill").args([format!("-{signal}"), number]).status();
        assert!(sent.is_ok_and(|status| status.success()));
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether anything here tells which threads communicate, and there is something to place on.
fn can_place(what: &str) -> bool {
    if probe::cpus() < 2 {
        probe::skip(what, "one processor");
        return false;
    }
    let outcome = auto(&["--sense", "samples", "--", "sleep", "0.3"]).run();
    let works = outcome.exit_code == Some(0);
    if !works {
        probe::skip(what, "nothing can be sampled here");
    }
    works
}

/// Arguments of `partners` after its seconds: partners begin on different processors, and no
/// scheduler has a reason to bring them together. Where they sleep, it often does, and there is
/// nothing to place.
const APART: [&str; 5] = ["0", "256", "", "2", "spin"];

/// Arguments of `auto` that place on little evidence: on a busy machine, threads seldom run, and
/// what was seen of them is forgotten before it is enough.
#[rustfmt::skip]
const EAGER: [&str; 14] = [
    "--set", "half_life_ms=10000", "--set", "sigmas=0", "--set", "min_events=1",
    "--set", "min_busy=0.001",
    "--set", "min_gain=0", "--set", "unproven_saving=0", "--set", "priced=false",
];

fn binds(outcome: &Outcome) -> bool {
    outcome.stderr_text().contains("bindings made") && outcome.stderr_text().contains("placed ")
}

#[test]
fn pairs_are_placed_logged_and_replayed() {
    if !can_place("online: pairs") {
        return;
    }
    let scratch = Scratch::new();
    let program = partners().to_str().unwrap();
    // Where others keep the processors busy, the kernel may have put the threads well already.
    let once = |number: u32| {
        let log = scratch.join(&format!("pairs{number}.log")).to_str().unwrap().to_owned();
        let words = [&EAGER, &["--log", &log, "--", program, "8"][..], &APART].concat();
        (auto(&words).run().expect_code(0), log)
    };
    let (outcome, log) = (0..7).map(once).find(|(run, _)| binds(run)).unwrap_or_else(|| once(7));
    assert!(binds(&outcome), "{outcome}");
    let log = log.as_str();
    let replayed = auto(&["--replay", log]).run().expect_code(0);
    assert!(replayed.stdout_text().contains("placed "), "{replayed}");
    let json = auto(&["--replay", log, "--json"]).run().expect_code(0);
    for word in ["\"same_decisions\": true", "\"complete\": true"] {
        assert!(json.stdout_text().contains(word), "{json}");
    }
    // One that is cut off says so.
    let text = fs::read_to_string(log).unwrap();
    let cut = scratch.join("cut.log");
    fs::write(&cut, &text[..text.len() / 2]).unwrap();
    let replayed = auto(&["--replay", cut.to_str().unwrap()]).run().expect_code(0);
    assert!(replayed.stderr_text().contains("the log ends before"), "{replayed}");
    // A log is not overwritten, and one that is none is refused.
    auto(&["--log", log, "--", "true"]).run().expect_code(125);
    auto(&["--replay", program]).run().expect_code(125);
}

#[test]
fn partners_are_placed_or_left_alone_with_a_reason() {
    if !can_place("online: partners") {
        return;
    }
    let program = partners().to_str().unwrap();
    let outcome = auto(&["--", program, "8"]).run().expect_code(0);
    // On a busy machine, too little may be seen.
    let reasons = ["is enough better than this one", "too little communication", "may be chance"];
    let left = reasons.iter().any(|reason| outcome.stderr_text().contains(reason));
    assert!(left || binds(&outcome), "{outcome}");
}

#[test]
fn a_program_begins_as_recorded_and_this_is_replayed() {
    if probe::cpus() < 2 {
        return probe::skip("online: recorded", "one processor");
    }
    let scratch = Scratch::new();
    let path = |name: &str| scratch.join(name).to_str().unwrap().to_owned();
    let (profile, plan, log) = (path("partners.tt"), path("plan.json"), path("log"));
    let program = partners().to_str().unwrap();
    let recorded = Threadtalk::built().record(profile.as_ref(), &[], &[program, "0.5", "0", "16"]);
    recorded.run().expect_code(0);
    let place = Threadtalk::built().verb("place").args([&profile, "-o", &plan]);
    place.run().expect_code(0);
    // Nothing that is seen can say where threads go: the load tells no communication.
    for from in [&profile, &plan] {
        let args = ["--profile", from, "--sense", "load", "--log", &log, "--force", "--"];
        let outcome = auto(&[&args[..], &[program, "2"]].concat()).run().expect_code(0);
        let said = outcome.stderr_text();
        assert!(said.contains("threads as recorded") && said.contains("bindings made"), "{said}");
        // Unlike under `run`, other threads than those of the plan do as they like.
        assert!(said.contains("given back what they had"), "{said}");
        let json = auto(&["--replay", &log, "--json"]).run().expect_code(0).stdout_text();
        assert!(json.contains("\"same_decisions\": true") && json.contains("\"begun\""), "{json}");
    }
    let pinned = auto(&["--profile", &profile, "--", "taskset", "-c", "0", program, "2"]).run();
    let pinned = pinned.expect_code(0).stderr_text();
    assert!(!pinned.contains("placed 5 threads as recorded"), "{pinned}");
    let said = ["the plan is for 'partners", "and this is 'taskset'"];
    assert!(said.iter().all(|said| pinned.contains(said)), "{pinned}");
    for (args, said) in [
        (&["--profile", &profile, "--pid", "1"][..], "for a program that is started here"),
        (&["--profile", &profile, "--sense", "windows", "--", "true"], "leave out --sense windows"),
        (&["--profile", "/no/such/profile", "--", "true"], "cannot read the plan"),
    ] {
        let refused = auto(args).run().expect_code(125);
        assert!(refused.stderr_text().contains(said), "{args:?}: {refused}");
    }
}

#[test]
fn page_faults_tell_which_processes_share_memory() {
    if probe::cpus() < 2 {
        return probe::skip("online: faults", "one processor");
    }
    let scratch = Scratch::new();
    let log = scratch.join("faults.log").to_str().unwrap().to_owned();
    // Two processes that map one file again and again, and write to each of its pages.
    let program = family();
    let args = ["--sense", "faults", "--log", &log, "--", program, "3"];
    let outcome = auto(&args).run();
    if outcome.stderr_text().contains("not permitted") || outcome.exit_code == Some(125) {
        return probe::skip("online: faults", &outcome.stderr_text());
    }
    let outcome = outcome.expect_code(0);
    assert!(outcome.stderr_text().contains("by page faults"), "{outcome}");
    let text = fs::read_to_string(&log).unwrap();
    assert!(met_in_shared_memory(&text), "no memory of both processes was seen");
    let json = auto(&["--replay", &log, "--json"]).run().expect_code(0).stdout_text();
    assert!(json.contains("\"same_decisions\": true"), "{json}");
}

/// Whether a log has accesses of two tasks to one memory that processes share, whose spaces have
/// the highest bit set. On a busy machine too few are sampled for one page to be seen twice.
fn met_in_shared_memory(log: &str) -> bool {
    let mut seen = std::collections::BTreeMap::new();
    for line in log.lines() {
        let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let accesses = line["saw"]["accesses"].as_array().cloned().unwrap_or_default();
        for access in accesses {
            let space = access["space"].as_u64().unwrap_or(0);
            if space >> 63 == 1 {
                let task = access["task"].as_u64();
                if *seen.entry(space).or_insert(task) != task {
                    return true;
                }
            }
        }
    }
    false
}

#[test]
fn other_policies_of_the_literature_run() {
    let program = partners().to_str().unwrap();
    let scratch = Scratch::new();
    let work = scratch.join("work").to_str().unwrap().to_owned();
    let args = ["--policy", "autopin", "--set", "autopin_ms=300", "--metric", &work, "--"];
    let outcome = auto(&[&args[..], &[program, "8", "0", "64", &work]].concat()).run();
    let said = outcome.expect_code(0).stderr_text();
    if probe::cpus() > 1 {
        assert!(
            said.contains("tries no placement") && said.contains("tries the placement"),
            "{said}"
        );
    }
    auto(&["--policy", "carrefour", "--", program, "1"]).run().expect_code(0);
    // On a busy machine a short program may have ended before the first look at it.
    let blind = |seconds: &str| {
        auto(&["--policy", "autopin", "--", program, seconds]).run().expect_code(0).stderr_text()
    };
    let mut said = blind("2");
    if said.contains("there is no process") {
        said = blind("20");
    }
    assert!(said.contains("add --metric"), "{said}");
}

#[test]
fn exit_codes_and_output_are_the_programs_own() {
    let outcome = auto(&["-q", "--", "sh", "-c", "echo out; exit 7"]).run().expect_code(7);
    assert_eq!((outcome.stdout_text().as_str(), outcome.stderr_text().as_str()), ("out\n", ""));
    auto(&["--", "/no/such/program"]).run().expect_code(127);
}

/// A running program, and an `auto` that looks after it and has bound its threads.
///
/// Where the scheduler brings partners together nevertheless, there is nothing to place, and it
/// has no reason to part them again: then another program gets a try.
fn bound() -> (Beside, Beside) {
    for _ in 0..8 {
        let program = Beside::program(&[&["200"][..], &APART].concat());
        let pid = program.0.id();
        let looking = Beside::auto(&[&EAGER[..], &["--pid", &pid.to_string()]].concat());
        if comes(|| narrow(pid) >= 4, 15) {
            return (program, looking);
        }
    }
    panic!("nothing was bound");
}

#[test]
fn a_running_program_gets_everything_back() {
    if !can_place("online: --pid") {
        return;
    }
    for signal in [15, 2] {
        let (program, looking) = bound();
        let pid = program.0.id();
        looking.signal(signal);
        assert!(comes(|| narrow(pid) == 0, 30), "{} stay bound", narrow(pid));
    }
}

#[test]
fn the_live_view_shows_what_is_bound() {
    if !can_place("online: top") {
        return;
    }
    let (program, looking) = bound();
    let pid = program.0.id();
    let view = || {
        let top = Threadtalk::built().verb("top").env("THREADTALK_STATE_DIR", state());
        top.args(["--pid", &pid.to_string(), "--batch", "1"]).run().expect_code(0).stdout_text()
    };
    let by = format!("process {} looks after", looking.0.id());
    let words = ["What threadtalk auto does here", &by, "  bound: T"];
    let shows_all = || {
        let text = view();
        words.iter().all(|word| text.contains(word))
    };
    // It tells of itself now and then.
    assert!(comes(shows_all, 30), "{}", view());
    drop(looking);
    let after = view();
    assert!(words.iter().all(|word| !after.contains(word)), "{after}");
}

#[test]
fn what_a_killed_auto_has_bound_is_restored() {
    if !can_place("online: kill -9") {
        return;
    }
    let (program, looking) = bound();
    let pid = program.0.id();
    looking.signal(9);
    drop(looking);
    let restored = auto(&["--restore"]).run().expect_code(0);
    assert!(restored.stderr_text().contains("from 1 journal"), "{restored}");
    assert_eq!(narrow(pid), 0);
}

#[test]
fn a_program_that_auto_has_started_outlives_it() {
    let scratch = Scratch::new();
    let [began, ended] = ["began", "ended"].map(|name| scratch.join(name));
    let steps = format!("touch {}; sleep 2; touch {}", began.display(), ended.display());
    let looking = Beside::auto(&["--sense", "load", "--", "sh", "-c", &steps]);
    assert!(comes(|| began.exists(), 30));
    looking.signal(9);
    drop(looking);
    assert!(comes(|| ended.exists(), 30));
}

#[test]
fn what_a_program_pins_itself_is_left_alone() {
    if !can_place("online: own pinning") {
        return;
    }
    let program = partners().to_str().unwrap();
    let outcome = auto(&["--duration", "4s", "--", "taskset", "-c", "0", program, "5"]).run();
    let said = outcome.expect_code(0);
    assert!(!said.stderr_text().contains("placed "), "{said}");
}

#[test]
fn nothing_is_moved_where_nothing_tells() {
    let program = partners().to_str().unwrap();
    let outcome = auto(&["--sense", "load", "--", program, "2"]).run().expect_code(0);
    assert!(outcome.stderr_text().contains("nothing here tells"), "{outcome}");
    assert!(!outcome.stderr_text().contains("placed "), "{outcome}");
}

#[test]
fn what_cannot_be_looked_after_is_refused() {
    let own = std::process::id().to_string();
    for (args, said) in [
        (&["--pid", "4194305"][..], "does not exist"),
        (&["--cgroup", "/no/such/group"], "no cgroup"),
        (&["--user", "no-such-user"], "no user"),
        (&["--set", "x=1", "--", "true"], "there is no setting 'x'"),
        (&["--set", "mapping_ms=soon", "--", "true"], "is no value for the setting mapping_ms"),
        (&["--policy", "x", "--", "true"], "there is no policy 'x'"),
        (&["--sense", "windows", "--pid", &own], "for programs that are started here"),
    ] {
        let outcome = auto(args).run().expect_code(125);
        assert!(outcome.stderr_text().contains(said), "{args:?}: {outcome}");
    }
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        let outcome = auto(&["--pid", "2"]).run().expect_code(125);
        assert!(outcome.stderr_text().contains("thread of the kernel"), "{outcome}");
    }
}

/// The number of the user who runs this.
fn own_user() -> String {
    let user = Command::new("id").arg("-u").output().expect("id").stdout;
    String::from_utf8_lossy(&user).trim().to_owned()
}

#[test]
fn a_thread_is_no_process() {
    let program = Beside::program(&[&["200"][..], &APART].concat());
    let pid = program.0.id().to_string();
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let other = || {
        let mut names = threads().map(|thread| thread.file_name().to_string_lossy().into_owned());
        names.find(|name| *name != pid)
    };
    assert!(comes(|| other().is_some(), 10), "it has one thread");
    let said = auto(&["--pid", &other().unwrap()]).run().expect_code(125).stderr_text();
    assert!(said.contains(&format!("is a thread of process {pid}; name the process")), "{said}");
}

#[test]
fn a_dry_run_binds_nothing() {
    if !can_place("online: dry run") {
        return;
    }
    // Another program gets a try where there was nothing to place.
    let once = |_| {
        let program = Beside::program(&[&["200"][..], &APART].concat());
        let pid = program.0.id().to_string();
        let args = ["--dry-run", "--duration", "6s", "--pid", &pid];
        let said = auto(&[&EAGER[..], &args].concat()).run().expect_code(0).stderr_text();
        assert!(!said.contains("s  placed"), "{said}");
        assert_eq!(narrow(program.0.id()), 0);
        said
    };
    let would = |said: &String| said.contains("would have been done: placed");
    assert!((0..8).map(once).any(|said| would(&said)), "nothing would have been placed");
}

#[test]
fn two_daemons_do_not_look_after_the_same_program() {
    let [named, other] = [(); 2].map(|()| Beside::program(&[&["200"][..], &APART].concat()));
    let pid = named.0.id().to_string();
    let _first = Beside::auto(&["--pid", &pid, "--sense", "load"]);
    let status = || auto(&["--status", "--json"]).run().expect_code(0).stdout_text();
    let shown = || serde_json::from_str::<Value>(&status()).expect("JSON");
    let looked_after = |service: bool| -> Vec<u64> {
        let all = shown();
        let all = all.as_array().expect("a list").iter();
        let pids =
            all.filter(|one| one["service"] == service).flat_map(|one| one["pids"].as_array());
        pids.flatten().filter_map(Value::as_u64).collect()
    };
    assert!(comes(|| looked_after(false) == [u64::from(named.0.id())], 30), "{}", status());
    let again = auto(&["--pid", &pid, "--sense", "load"]).run().expect_code(125);
    assert!(again.stderr_text().contains("already looks after"), "{again}");
    let _service = Beside::auto(&["--user", &own_user(), "--sense", "load"]);
    let by_service = |program: &Beside| looked_after(true).contains(&u64::from(program.0.id()));
    assert!(comes(|| by_service(&other), 30), "{}", status());
    assert!(!by_service(&named), "{}", status());
}

#[test]
fn a_service_has_a_status_and_ends_cleanly() {
    if !can_place("online: service") {
        return;
    }
    let program = Beside::program(&[&["200"][..], &APART].concat());
    let pid = program.0.id();
    let user = own_user();
    let mut service = Beside::auto(&["--user", &user, "--sense", "load"]);
    let status = || auto(&["--status"]).run().expect_code(0).stdout_text();
    assert!(comes(|| status().contains(&format!("user {user}")), 10), "{}", status());
    // Two would undo what the other one does.
    let second = auto(&["--user", &user]).run().expect_code(125);
    assert!(second.stderr_text().contains("already looks after"), "{second}");
    auto(&["--stop"]).run().expect_code(0);
    assert!(service.0.wait().is_ok_and(|status| status.success()));
    assert!(!status().contains("looks after"), "{}", status());
    assert_eq!(narrow(pid), 0);
}
