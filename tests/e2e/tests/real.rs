//! Programs of the distribution, recorded whole: what they produce must not change by a byte, and
//! no access is one that the engine cannot follow.

use e2e::{assert_unchanged, native};
use std::time::Duration;
use test_support::{Run, Scratch, Threadtalk, probe};

/// A few megabytes that compress neither well nor badly, the same on every run.
fn sample(bytes: usize) -> Vec<u8> {
    let words = ["thread", "line", "block", "matrix", "cache", "write", "read", "node", "page"];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut text = Vec::with_capacity(bytes + 32);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend_from_slice(words[(state % 9) as usize].as_bytes());
        text.extend_from_slice(format!(" {}\n", state >> 50).as_bytes());
    }
    text.truncate(bytes);
    text
}

/// Runs the command natively and recorded with the same standard input and compares the two.
/// Returns the number of threads that the profile holds.
#[track_caller]
fn same_when_recorded(command: &[&str], stdin: &[u8]) -> u64 {
    let Some(program) = probe::command(command[0]) else {
        probe::skip(command[0], "not installed");
        return u64::MAX;
    };
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let alone = Run::new(program).args(&command[1..]).stdin(stdin).run_natively();
    assert_eq!(alone.exit_code, Some(0), "fails natively\n{alone}");
    let profile = scratch.join("real.tt");
    let record = threadtalk.record(&profile, &[], command).stdin(stdin);
    let recorded = record.timeout(Duration::from_secs(240)).run();
    assert_unchanged(&alone, &recorded);
    assert!(!recorded.stderr_text().contains("cannot follow"), "{recorded}");
    let json = test_support::threadtalk::profile_json(&profile);
    json["totals"]["threads"].as_u64().expect("totals.threads is a number")
}

#[test]
fn pigz() {
    assert!(same_when_recorded(&["pigz", "-n", "-c", "-p", "4"], &sample(4 << 20)) >= 4);
}

#[test]
fn pbzip2() {
    let command = ["pbzip2", "-c", "-p4", "-b1"];
    assert!(same_when_recorded(&command, &sample(2 << 20)) >= 5);
}

#[test]
fn xz() {
    let command = ["xz", "-1", "-T4", "--block-size=262144", "-c"];
    assert!(same_when_recorded(&command, &sample(2 << 20)) >= 4);
}

#[test]
fn zstd() {
    assert!(same_when_recorded(&["zstd", "-q", "-T4", "-B1MiB", "-c"], &sample(8 << 20)) >= 4);
}

#[test]
fn sort() {
    // sort starts threads only for input that is large enough.
    assert!(same_when_recorded(&["sort", "--parallel=4", "-S64M"], &sample(4 << 20)) >= 1);
}

#[test]
fn openssl() {
    let command = ["openssl", "enc", "-aes-256-ctr", "-pass", "pass:x", "-nosalt", "-pbkdf2"];
    assert!(same_when_recorded(&command, &sample(1 << 20)) >= 1);
}

#[test]
fn python_threads() {
    let program = "
import hashlib, queue, threading
work, done = queue.Queue(), {}
def worker():
    while (item := work.get()) is not None:
        done[item] = hashlib.sha256(bytes(200000) + str(item).encode()).hexdigest()
threads = [threading.Thread(target=worker) for _ in range(4)]
for t in threads: t.start()
for i in range(40): work.put(i)
for t in threads: work.put(None)
for t in threads: t.join()
print(sorted(done.items()))
";
    let python =
        if probe::command("/usr/bin/python3").is_some() { "/usr/bin/python3" } else { "python3" };
    assert!(same_when_recorded(&[python, "-c", program], b"") >= 5);
}

#[test]
fn gcc_and_its_children() {
    let program = b"#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n";
    // The driver starts the compiler proper as a child; the assembly text goes to standard output.
    assert!(same_when_recorded(&["gcc", "-O2", "-S", "-o", "-", "-x", "c", "-"], program) >= 1);
}

#[test]
fn a_shell_pipeline() {
    let script = "seq 1 20000 | sort -r | sed 's/1/one/' | md5sum; exit 0";
    assert!(same_when_recorded(&["bash", "-c", script], b"") >= 1);
}

#[test]
fn failing_programs_fail_the_same() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    for command in [&["false"][..], &["ls", "/nonexistent"], &["sh", "-c", "exit 77"]] {
        let alone = native(&command.iter().map(ToString::to_string).collect::<Vec<_>>());
        let recorded = threadtalk.record(&scratch.join("f.tt"), &["--force"], command).run();
        assert_unchanged(&alone, &recorded);
    }
}
