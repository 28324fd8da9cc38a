//! The virtual machine itself: what goes in, what comes back, and what it says when it fails.

use lab::{Guest, LabError, Machine, Node, can_boot};
use std::time::Duration;
use test_support::Scratch;

/// Uneven nodes, reserved pages, output, exit code, files: all in one boot.
#[test]
fn a_guest_is_as_described_and_what_it_says_and_leaves_comes_back() {
    if !can_boot("a boot") {
        return;
    }
    let (scratch, out) = (Scratch::new(), Scratch::new());
    let given = scratch.join("given");
    std::fs::write(&given, "a file\n").unwrap();
    let distances = vec![vec![10, 15, 30], vec![15, 10, 40], vec![30, 40, 10]];
    let machine = Machine::even(3, 2).distances(distances).huge_pages(3).kernel_options("mine=1");
    let machine = machine.node(2, Node { cpus: 0, memory_mib: 128 });
    let script = "cd /sys/devices/system/node\n\
         cat node*/cpulist node*/distance node*/hugepages/hugepages-2048kB/nr_hugepages\n\
         grep -o mine=1 /proc/cmdline\n\
         cat /given /text >/dev/stdout\n\
         /usr/bin/env echo complaint >&2\n\
         mkdir /out/folder && seq 1 100000 >/out/folder/left\n\
         kill -TERM $$";
    let guest = Guest::new(machine).file(&given, "/given").text("/text", "a text\n");
    let guest = guest.program("/usr/bin/env").out(out.path());
    let ended = guest.run(script).unwrap().expect_code(128 + 15);
    let expected = "0-1\n2-3\n\n10 15 30\n15 10 40\n30 40 10\n3\n3\n3\nmine=1\na file\na text\n";
    assert_eq!(ended.stdout, expected, "{ended}");
    assert_eq!(ended.stderr, "complaint\nTerminated\n", "{ended}");
    let left = std::fs::read_to_string(out.join("folder/left")).unwrap();
    assert!(left.ends_with("\n99999\n100000\n"));
}

#[test]
fn a_guest_that_does_not_end_is_stopped_and_what_it_said_is_told() {
    if !can_boot("a boot that takes too long") {
        return;
    }
    let guest = Guest::new(Machine::even(1, 1)).timeout(Duration::from_secs(8));
    let error = guest.run("echo so far; sleep 1000").unwrap_err();
    let LabError::TimedOut { stdout, .. } = &error else { panic!("{error}") };
    // A busy machine may not even have come to the script.
    assert!(stdout.is_empty() || stdout == "so far\n", "{error}");
    assert!(error.to_string().starts_with("the guest did not end within 8 s"), "{error}");
}

#[test]
fn a_guest_that_stops_by_itself_says_why() {
    if !can_boot("a boot that ends in the kernel's panic") {
        return;
    }
    let machine = Machine::even(1, 1);
    let error = Guest::new(machine).run("echo c >/proc/sysrq-trigger").unwrap_err();
    let LabError::Stopped { console, .. } = &error else { panic!("{error}") };
    assert!(console.contains("sysrq triggered crash"), "{error}");
}

#[test]
fn a_file_that_is_not_here_is_named() {
    if !can_boot("a missing file") {
        return;
    }
    let error = Guest::new(Machine::even(1, 1)).file("/no/such", "/such").run("true").unwrap_err();
    let expected = "/no/such cannot be brought into the guest: there is no such file";
    assert_eq!(error.to_string(), expected);
}
