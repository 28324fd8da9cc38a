//! Communication between processes through memory that they share: every cell of the matrix of all
//! processes together, however the memory is shared.

use e2e::known::program;
use e2e::{assert_unchanged, native};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use test_support::matrix::Expected;
use test_support::threadtalk::profile_json;
use test_support::{Matrix, Outcome, Run, Scratch, Threadtalk, probe};

fn words<'a>(program: &'a Path, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![program.to_str().unwrap()];
    words.extend(arguments);
    words
}

/// The profile of all processes together.
#[track_caller]
fn together(profile: &Path, recorded: &Outcome) -> PathBuf {
    let folder = profile_json(profile)["together"].as_str().map(ToOwned::to_owned);
    profile.join(folder.unwrap_or_else(|| panic!("no process talks to another\n{recorded}")))
}

/// Compares the events of these kinds with what the program has printed. Where the processes have
/// several threads, these meet elsewhere, too: up to `noise` times a cell.
#[track_caller]
fn assert_exact(all: &Path, recorded: &Outcome, kinds: &[&str], noise: u64) {
    for kind in kinds {
        let expected = Expected::from_output(&recorded.stdout_text(), kind).unwrap();
        let matrix = Threadtalk::built().matrix(all, kind);
        let complaints = matrix.complaints(&expected, |_, _| noise);
        assert!(complaints.is_empty(), "{kind}: {}\n{recorded}", complaints.join("\n"));
    }
}

/// All ways in which `between` shares its memory.
fn ways(between: &Path) -> Vec<String> {
    let list = Run::new(between).arg("list").run_natively().expect_code(0).stdout_text();
    list.lines().map(ToOwned::to_owned).collect()
}

fn each_way(options: &[&str]) {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let between = program("between", &["-O2"]);
    for way in ways(&between) {
        let profile = scratch.join("between.tt");
        let command = words(&between, &[&way, "500"]);
        let options = [options, &["--block", "64", "--force"]].concat();
        let recorded = threadtalk.record(&profile, &options, &command).run().expect_code(0);
        match way.as_str() {
            "twice" | "threads" => assert_exact(&profile, &recorded, &["raw", "waw"], 60),
            "killed" => {
                let all = together(&profile, &recorded);
                let raw = threadtalk.matrix(&all, "raw");
                assert_eq!((raw.get(0, 1), raw.get(1, 0)), (500, 500), "{recorded}");
            }
            _ => {
                let all = together(&profile, &recorded);
                assert_exact(&all, &recorded, &["raw", "waw", "invalidation"], 0);
            }
        }
    }
}

#[test]
fn every_hand_over_is_counted_however_memory_is_shared() {
    each_way(&[]);
}

#[test]
fn every_hand_over_is_counted_in_matrices() {
    each_way(&["--matrix"]);
}

#[test]
fn the_reference_counts_the_same() {
    each_way(&["--reference"]);
}

#[test]
fn larger_and_smaller_blocks_are_told_apart_like_others() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let between = program("between", &["-O2"]);
    for block in ["16", "256", "4096"] {
        let profile = scratch.join("between.tt");
        let command = words(&between, &["memfd", "300"]);
        let options = ["--block", block, "--force"];
        let recorded = threadtalk.record(&profile, &options, &command).run().expect_code(0);
        assert_exact(&together(&profile, &recorded), &recorded, &["raw", "waw"], 0);
    }
}

#[test]
fn undirected_pairs_are_counted_between_processes() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (between, profile) = (program("between", &["-O2"]), scratch.join("between.tt"));
    let command = words(&between, &["file", "300"]);
    let recorded = threadtalk.record(&profile, &["--undirected"], &command).run().expect_code(0);
    let pairs = threadtalk.matrix(&together(&profile, &recorded), "undirected");
    // Each of 601 reads and 600 writes, but for the first access, pairs with the other's last one;
    // each thread's own last access is the other one of the two.
    assert_eq!(pairs.get(0, 1), 4 * 300 - 1, "{recorded}");
}

fn report(profile: &Path) -> Value {
    let text = Threadtalk::built().verb("report").arg(profile).arg("--json").run().expect_code(0);
    serde_json::from_str(&text.stdout_text()).unwrap()
}

#[test]
fn false_sharing_between_processes_is_told() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (between, profile) = (program("between", &["-O2"]), scratch.join("between.tt"));
    for (way, falsely) in [("false", 3999), ("anonymous", 0)] {
        let command = words(&between, &[way, "1000"]);
        let options = ["--block", "64", "--force"];
        let recorded = threadtalk.record(&profile, &options, &command).run().expect_code(0);
        let totals = &profile_json(&together(&profile, &recorded))["totals"];
        let of = |name: &str| totals[name].as_u64().unwrap();
        assert_eq!(of("raw_false") + of("waw_false"), falsely, "{totals:#}\n{recorded}");
        assert_eq!(of("raw_true") + of("waw_true"), 3999 - falsely, "{totals:#}\n{recorded}");
        // Reports are about all processes, and both threads' code has a name, as what calls it has.
        let text = threadtalk.verb("report").arg(&profile).run().expect_code(0).stdout_text();
        assert!(text.contains("\n2 threads make "), "{text}");
        assert!(text.contains(" ask") && text.contains(" answer"), "{text}");
        let report = report(&profile);
        for side in report["causes"][0]["sides"].as_array().unwrap() {
            // Compilers may take `start` into `main`.
            let caller = side["callers"][0].as_str().unwrap_or_default();
            assert!(["main at ", "start at "].iter().any(|of| caller.starts_with(of)), "{side:#}");
        }
        assert_eq!(report["processes"].as_array().unwrap().len(), 1);
        let first = threadtalk.verb("report").arg(&profile).args(["--process", "1"]).run();
        assert!(first.expect_code(0).stdout_text().contains("a single thread"));
    }
}

#[test]
fn a_hundred_processes_have_a_matrix() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (crowd, profile) = (program("crowd", &["-O2"]), scratch.join("crowd.tt"));
    for options in [&["--block", "64"][..], &["--block", "64", "--matrix", "--force"]] {
        let command = words(&crowd, &["read", "100", "12"]);
        let recorded = threadtalk.record(&profile, options, &command).run().expect_code(0);
        let all = together(&profile, &recorded);
        assert_exact(&all, &recorded, &["raw", "waw", "invalidation"], 0);
    }
}

/// Whatever they were doing: the others go on.
#[test]
fn processes_that_are_killed_while_they_write_stop_nobody() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (crowd, profile) = (program("crowd", &["-O2"]), scratch.join("crowd.tt"));
    let command = words(&crowd, &["kill", "60"]);
    let alone = native(&command.iter().map(ToString::to_string).collect::<Vec<_>>());
    let recorded = threadtalk.record(&profile, &[], &command).run();
    assert_unchanged(&alone, &recorded);
    together(&profile, &recorded);
}

/// What the kernel reads and writes in another process's memory, private or shared.
#[test]
fn memory_of_another_process_is_read_and_written() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (peek, profile) = (program("peek", &["-O2"]), scratch.join("peek.tt"));
    for way in ["read", "write", "shared-read", "shared-write"] {
        for options in
            [&["--block", "64", "--force"][..], &["--matrix", "--block", "64", "--force"]]
        {
            let command = words(&peek, &[way, "20"]);
            let recorded = threadtalk.record(&profile, options, &command).run().expect_code(0);
            let all = together(&profile, &recorded);
            assert_exact(&all, &recorded, &["raw", "waw", "invalidation"], 0);
        }
    }
}

#[test]
fn windows_see_hand_overs_between_processes() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (between, profile) = (program("between", &["-O2"]), scratch.join("between.tt"));
    let record = threadtalk.verb("record").args(["--duty", "30%", "-o"]).arg(&profile).arg("--");
    let recorded = record.args(words(&between, &["memfd", "100000"])).run().expect_code(0);
    let all = together(&profile, &recorded);
    assert!(profile_json(&all)["windows"]["windows"].as_u64().unwrap() > 0, "{recorded}");
    for kind in ["raw", "waw"] {
        let matrix = threadtalk.matrix(&all, kind);
        for (from, to) in [(0, 1), (1, 0)] {
            let count = matrix.get(from, to);
            assert!((60_000..160_000).contains(&count), "{kind} {from} {to}: {count}\n{recorded}");
        }
    }
}

/// The cells with at least so many events.
fn large_cells(matrix: &Matrix, least: u64) -> Vec<(usize, usize, u64)> {
    let of = |from| (0..matrix.threads).map(move |to| (from, to, matrix.get(from, to)));
    (0..matrix.threads).flat_map(of).filter(|(.., count)| *count >= least).collect()
}

/// A message of 2048 bytes is copied into shared memory by one rank and out of it by the next: 32
/// lines, and what tells that it is there.
#[test]
fn ranks_of_mpi_are_a_ring() {
    const TURNS: u64 = 300;
    const LINES: u64 = 2048 / 64;
    if let Some(missing) = ["mpicc", "mpirun"].iter().find(|c| probe::command(c).is_none()) {
        return probe::skip("ranks of MPI", &format!("no {missing} here"));
    }
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let ring = scratch.join("ring");
    let source = test_support::paths::root().join("tests/programs/known/mpi_ring.c");
    let compile = Run::new("mpicc").arg("-O2").arg("-o").arg(&ring).arg(source);
    compile.run_natively().expect_code(0);
    let turns = TURNS.to_string();
    let mut command = vec!["mpirun", "--oversubscribe", "--mca", "btl", "self,vader"];
    // Otherwise the kernel may copy from process to process.
    command.extend(["--mca", "btl_vader_single_copy_mechanism", "none", "-np", "4"]);
    command.extend(words(&ring, &[&turns, "2048"]));
    let profile = scratch.join("ring.tt");
    let record = threadtalk.record(&profile, &["--block", "64"], &command);
    let record =
        record.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let recorded = record.timeout(Duration::from_secs(180)).run().expect_code(0);
    let raw = threadtalk.matrix(&together(&profile, &recorded), "raw");
    let cells = large_cells(&raw, TURNS * LINES);
    let (from, to): (BTreeSet<_>, BTreeSet<_>) = cells.iter().map(|c| (c.0, c.1)).unzip();
    assert!(cells.len() == 4 && from.len() == 4 && from == to, "{cells:?}\n{recorded}");
    let most = TURNS * (LINES + 8) + 2000;
    assert!(cells.iter().all(|(.., count)| *count <= most), "{cells:?}\n{recorded}");
    // One ring of four, not two of two.
    let next = |rank| cells.iter().find(|cell| cell.0 == rank).unwrap().1;
    assert_ne!(next(next(cells[0].0)), cells[0].0, "{cells:?}");
}

/// A client with a backend of its own.
struct Session {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Session {
    fn open(wrapper: &[&str], programs: &Path, folder: &Path) -> Self {
        let psql = programs.join("psql");
        let mut words: Vec<&str> = wrapper.to_vec();
        words.extend([
            psql.to_str().unwrap(),
            "-Atq",
            "-U",
            "test",
            "-h",
            folder.to_str().unwrap(),
        ]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("postgres").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn ask(&mut self, text: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{text}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Where the newest server is.
fn newest_postgresql() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path().join("bin")).max();
    newest.filter(|bin| bin.join("postgres").exists())
}

/// Two sessions add to a number in turn; what it is in the end.
fn add_in_turns(open: impl Fn() -> Session, turns: u64) -> String {
    let (mut a, mut b) = (open(), open());
    a.ask("CREATE TABLE t (n int); INSERT INTO t VALUES (0); SELECT 'made';");
    let mut last = String::new();
    for _ in 0..turns {
        a.ask("UPDATE t SET n = n + 1 RETURNING n;");
        last = b.ask("UPDATE t SET n = n + 1 RETURNING n;");
    }
    last
}

/// Two backends that add to one row in turn: each finds the row, its page, the newest transaction
/// and the log as the other one has left them, in ten lines at least.
#[test]
fn backends_of_postgresql_hand_a_row_over() {
    const TURNS: u64 = 150;
    let Some(programs) = newest_postgresql() else {
        return probe::skip("backends of PostgreSQL", "no PostgreSQL server here");
    };
    // It refuses to be root.
    let unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let wrapper = if probe::is_root() { &unprivileged[..] } else { &[] };
    let folder = std::env::temp_dir().join(format!("threadtalk-pg-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let _gone = Gone(&folder);
    let run = |words: &[&str]| {
        let words = [wrapper, words].concat();
        Run::new(words[0]).args(&words[1..]).directory(&folder)
    };
    let path = |name: &str| programs.join(name).to_str().unwrap().to_owned();
    let data = folder.join("data");
    let data = data.to_str().unwrap();
    let init = [&path("initdb"), "-N", "-A", "trust", "--locale=C", "-U", "test", "-D", data];
    run(&init).timeout(Duration::from_secs(120)).run().expect_code(0);

    let profile = folder.join("pg.tt");
    let (threadtalk, socket) = (Threadtalk::built(), folder.to_str().unwrap());
    let binary = threadtalk.path().to_str().unwrap().to_owned();
    let (server, sockets) = (path("postgres"), format!("unix_socket_directories={socket}"));
    let mut words = vec![&*binary, "record", "--exact", "-o", profile.to_str().unwrap(), "--"];
    words.extend([
        &*server,
        "-D",
        data,
        "-c",
        "listen_addresses=",
        "-c",
        &sockets,
        "-c",
        "fsync=off",
    ]);
    let server = run(&words).env("XDG_CACHE_HOME", folder.join("cache")).env_remove("LD_PRELOAD");
    let mut last = String::new();
    let recorded = server.timeout(Duration::from_secs(180)).run_meanwhile(|_| {
        let ready = || run(&[&path("pg_isready"), "-q", "-h", socket]).run().exit_code == Some(0);
        for _ in 0..300 {
            if ready() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        last = add_in_turns(|| Session::open(wrapper, &programs, &folder), TURNS);
        run(&[&path("pg_ctl"), "stop", "-s", "-m", "fast", "-D", data]).run();
    });
    let recorded = recorded.expect_code(0);
    assert_eq!(last, (2 * TURNS).to_string(), "{recorded}");
    let raw = threadtalk.matrix(&together(&profile, &recorded), "raw");
    // Others only write out what the two have written.
    let both =
        |a: usize, b: usize| (raw.get(a, b).min(raw.get(b, a)), raw.get(a, b).max(raw.get(b, a)));
    let pairs = (0..raw.threads).flat_map(|a| (0..a).map(move |b| (a, b)));
    let (least, most) = pairs.map(|(a, b)| both(a, b)).max().unwrap();
    assert!(least >= 10 * TURNS && most < 3 * least, "{least} and {most}\n{recorded}");
}

/// A folder that goes with this.
struct Gone<'a>(&'a Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}
