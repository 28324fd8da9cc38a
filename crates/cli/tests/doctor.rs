//! `threadtalk doctor`: where sampling works, for another user, and where perf_event_open is
//! refused.

use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

fn doctor() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_threadtalk"));
    command.arg("doctor");
    command
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Lets `perf_event_open` fail in the program that is executed.
fn without_perf(command: &mut Command, errno: i32) {
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    // SAFETY: only system calls between fork and exec; the filter lives while it is installed.
    unsafe {
        command.pre_exec(move || {
            let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
            let mut filter = [
                step(LOAD, 0, 0, 0),
                step(JUMP_IF_EQUAL, 0, 1, libc::SYS_perf_event_open as u32),
                step(RETURN, 0, 0, ERRNO | errno as u32),
                step(RETURN, 0, 0, ALLOW),
            ];
            let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

fn paranoid() -> Option<i32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

#[test]
fn text_and_json_agree_on_what_works() {
    let json = json(&doctor().arg("--json").output().unwrap());
    assert_eq!(json["version"], 1);
    let sources = json["sources"].as_array().unwrap();
    for source in sources {
        let (works, why) = (&source["works"], &source["why"]);
        assert_eq!(works.as_bool().unwrap(), why.is_null(), "{source}");
    }
    let text = doctor().output().unwrap();
    let lines = String::from_utf8(text.stdout).unwrap();
    for name in ["transfers", "precise", "instructions", "cycles", "clock", "watchpoints"] {
        assert!(lines.lines().any(|line| line.starts_with(name)), "{name}: {lines}");
    }
    let works = json["detector"] != "none";
    assert_eq!(text.status.code(), Some(if works { 0 } else { 1 }));
    if !works {
        return test_support::probe::skip("the default rate", "nothing can be sampled here");
    }
    assert!(lines.contains("Default rate: ") && lines.contains(" µs "), "{lines}");
    let rate = json["rate"]["per_second"].as_f64().unwrap();
    assert!((10.0..=10_000.0).contains(&rate), "{rate}");
    let cost = json["cost"]["sample_ns"].as_f64().unwrap();
    if json["rate"]["limit"] == "budget" {
        // 2 % of a second.
        assert!((rate * cost / 2e7 - 1.0).abs() < 0.01, "{rate} {cost}");
    }
}

#[test]
fn where_perf_is_forbidden_it_says_so_and_what_to_do() {
    for (errno, said) in [(libc::EPERM, "seccomp"), (libc::ENOSYS, "CONFIG_PERF_EVENTS")] {
        let mut command = doctor();
        without_perf(&mut command, errno);
        let text = command.output().unwrap();
        let lines = String::from_utf8(text.stdout).unwrap();
        assert_eq!(text.status.code(), Some(1), "{lines}");
        assert!(lines.contains(said), "{lines}");
        assert!(lines.contains("Nothing can be sampled here"), "{lines}");
        assert!(!lines.contains("Default rate"), "{lines}");
        if errno == libc::EPERM {
            assert!(lines.contains("--cap-add PERFMON"), "{lines}");
        }
    }
}

#[test]
fn another_user_is_told_what_the_setting_allows() {
    let level = paranoid();
    if !test_support::probe::is_root() || level.is_none() {
        return test_support::probe::skip("doctor for another user", "needs root and perf_event");
    }
    // Where any user can execute it.
    let folder = std::env::temp_dir().join(format!("threadtalk-doctor-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let copy = folder.join("threadtalk");
    std::fs::copy(env!("CARGO_BIN_EXE_threadtalk"), &copy).unwrap();
    let output = Command::new(&copy).args(["doctor", "--json"]).uid(65534).gid(65534).output();
    std::fs::remove_dir_all(&folder).unwrap();
    let json = match output {
        Ok(output) => json(&output),
        Err(error) => {
            return test_support::probe::skip("doctor for another user", &error.to_string());
        }
    };
    let clock =
        json["sources"].as_array().unwrap().iter().find(|s| s["source"] == "clock").unwrap();
    if clock["works"] == false {
        let why = clock["why"].as_str().unwrap();
        assert!(why.contains("perf_event_paranoid") || why.contains("perf_event_open"), "{why}");
        assert!(!clock["remedy"].is_null(), "{clock}");
    } else {
        assert_ne!(json["detector"], "none");
    }
}

#[test]
fn a_budget_that_is_none_is_refused() {
    for budget in ["0", "101", "much"] {
        let output = doctor().args(["--budget", budget]).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("share in percent") || said.contains("--budget"), "{said}");
    }
}
