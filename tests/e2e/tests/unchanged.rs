//! What instrumentation finds hard: each program must print and return the same when recorded.

use e2e::{assert_unchanged, launch, native, stress};
use test_support::{Run, Scratch, Threadtalk};

#[track_caller]
fn same_when_recorded(name: &str, arguments: &[&str]) {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let command = stress::command(name, arguments);
    let alone = native(&command);
    assert!(alone.signal.is_none(), "fails natively\n{alone}");
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let profile = scratch.join("stress.tt");
    let recorded = threadtalk.record(&profile, &[], &words).run();
    assert_unchanged(&alone, &recorded);
    assert!(profile.join("profile.json").exists(), "no profile was written\n{recorded}");
}

macro_rules! programs {
    ($($name:ident: [$($argument:literal),*]),+ $(,)?) => {
        $(#[test]
        fn $name() {
            same_when_recorded(stringify!($name), &[$($argument),*]);
        })+
    };
}

programs!(
    thread_storm: ["8", "256"], timer_signals: [], segv_jump: [], stack_overflow: [],
    children: [], self_exec: [], dlopen_loop: [], exceptions: [], jumps: [], sites: [], deep_stack: [],
    close_fds: [], large_static: [], signal_context: [], alternate_stack: [], cancel: [],
    signal_storm: [], rseq: [], fork_storm: ["64", "2"], asm_flags: [], patched: [], trap_flag: [], sharers: [],
    debugger: [], element_faults: [], injected: ["100", "2"],
    wanted_addresses: [], alignment: [], raw_threads: [], fault_addresses: [], own_gs: [],
    trapped_calls: [], far_returns: [], unmap_storm: ["500"], preempted: [],
);

/// A program of several ways to be run.
macro_rules! ways {
    ($($name:ident: [$($way:ident),+]),+ $(,)?) => {
        $(mod $name {
            $(#[test]
            fn $way() {
                super::same_when_recorded(stringify!($name), &[stringify!($way)]);
            })+
        })+
    };
}

ways!(
    seccomp: [filter, narrow, refuse, fork, strict],
    odd_processes: [limits, sparse, no_files, locked],
    unload: [turn, call],
);

/// Whatever is counted, and by blocks of whatever size, nothing of ours is misaligned when a
/// program has alignment checks on.
#[test]
fn alignment_checks_in_every_mode() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let command = stress::command("alignment", &[]);
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let alone = native(&command);
    let blocks = ["16", "32", "64", "128", "512", "4096"];
    let exact = blocks.iter().flat_map(|block| {
        let with = |mode: &[&'static str]| [mode, &["--block", *block]].concat();
        [with(&[]), with(&["--matrix"]), with(&["--undirected"])]
    });
    for (run, options) in exact.chain([vec!["--reference"]]).enumerate() {
        println!("{options:?}");
        let profile = scratch.join(&format!("{run}.tt"));
        assert_unchanged(&alone, &threadtalk.record(&profile, &options, &words).run());
    }
}

/// Registers and flags are what the processor and the kernel leave there, whatever is counted, and
/// in children that run natively.
#[test]
fn registers_and_flags_in_every_mode() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    for name in ["call_registers", "undefined_flags", "handler_entry"] {
        let command = stress::command(name, &[]);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let alone = native(&command);
        assert!(alone.exit_code == Some(0), "fails natively\n{alone}");
        let ways = ["--matrix", "--undirected", "--reference", "--no-follow"];
        for options in ways.iter().map(std::slice::from_ref).chain([&[][..]]) {
            println!("{name} {options:?}");
            let profile = scratch.join(&format!("{name}{}.tt", options.concat()));
            assert_unchanged(&alone, &threadtalk.record(&profile, options, &words).run());
        }
    }
}

/// What hardly any program does, but some runtimes do, is translated like the rest.
#[test]
fn threads_with_rare_instructions_stay() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    for name in ["own_gs", "far_returns"] {
        let command = stress::command(name, &[]);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let recorded = threadtalk.record(&scratch.join("rare.tt"), &["--force"], &words).run();
        let said = recorded.expect_code(0).stderr_text();
        assert!(!said.contains("left the engine"), "{name}: {said}");
    }
}

/// The engine without its checks, against which the benchmark holds their cost.
#[test]
fn translated_only() {
    for (name, argument) in
        [("children", None), ("signal_storm", None), ("seccomp", Some("filter"))]
    {
        let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
        let command = stress::command(name, argument.as_slice());
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let recorded = threadtalk
            .record(&scratch.join("translated.tt"), &[], &words)
            .env("THREADTALK_COUNT", "0")
            .run();
        assert_unchanged(&native(&command), &recorded);
        assert!(recorded.stderr_text().contains("translate only"), "{recorded}");
    }
}

/// A program that reads or writes a closed stream notices; and the next file that it opens gets its
/// number.
#[test]
fn closed_standard_streams_stay_closed() {
    let scratch = Scratch::new();
    let (list, profile) = (scratch.join("list"), scratch.join("p.tt"));
    let script = format!(
        "for d in 0 1 2; do [ -e /proc/$$/fd/$d ] && set -- $* $d; done; echo $* > {}; exit 7",
        list.display()
    );
    let open = |command: &str| {
        let outcome = Run::new("sh").args(["-c", command]).env("SCRIPT", &script).run();
        assert_eq!(outcome.exit_code, Some(7), "{command}\n{outcome}");
        std::fs::read_to_string(&list).unwrap().trim().to_string()
    };
    for (redirection, expected) in [("<&-", "1 2"), (">&-", "0 2"), ("<&- >&- 2>&-", "")] {
        assert_eq!(open(&format!("exec sh -c \"$SCRIPT\" {redirection}")), expected);
        for way in ["--exact", "--sample", "--sample --watch"] {
            let command = format!(
                "exec {} record {way} --force -o {} -- sh -c \"$SCRIPT\" {redirection}",
                test_support::paths::release().join("threadtalk").display(),
                profile.display(),
            );
            assert_eq!(open(&command), expected, "{way} {redirection}");
        }
    }
}

/// A program finds its environment in the order in which the user has it.
#[test]
fn the_environment_keeps_its_order() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("order.tt");
    let variables = ["ZZ=1", "LD_PRELOAD=libm.so.6", "B=2", "A=3", "GLIBC_TUNABLES="];
    let expected = variables.map(|variable| format!("{variable}\n")).concat();
    for way in [&["--exact"][..], &["--sample"], &["--sample", "--watch"]] {
        println!("{way:?}");
        let run = Run::new("env").arg("-i").args(variables).arg(threadtalk.path());
        let run = run.arg("record").args(way).args(["--force", "-o"]).arg(&profile);
        let recorded = run.args(["--", "/usr/bin/env"]).run().expect_code(0);
        assert_eq!(recorded.stdout_text(), expected);
    }
}

/// Whatever the user has set of the variables that bring our libraries in: the program finds these
/// as they were, and behind its environment the whole auxiliary vector, where the kernel has put
/// it, too.
#[test]
fn the_auxiliary_vector_follows_the_environment() {
    let scratch = Scratch::new();
    let (profile, plan) = (scratch.join("auxiliary.tt"), scratch.join("plan.json"));
    launch::plan(&plan, &[0]);
    let command = stress::command("auxiliary", &[]);
    let verbs: [&[&str]; 4] = [
        &["record", "--force", "-o", profile.to_str().unwrap()],
        &["record", "--no-follow", "--force", "-o", profile.to_str().unwrap()],
        &["record", "--sample", "--watch", "--force", "-o", profile.to_str().unwrap()],
        &["run", "--plan", plan.to_str().unwrap()],
    ];
    let (preload, tunables) =
        (("LD_PRELOAD", "libm.so.6"), ("GLIBC_TUNABLES", "glibc.malloc.perturb=1"));
    let settings: [&[(&str, &str)]; 6] = [
        &[],
        &[preload],
        &[tunables],
        &[preload, tunables],
        &[("LD_PRELOAD", "")],
        &[("LD_PRELOAD", ""), ("GLIBC_TUNABLES", "")],
    ];
    for variables in settings {
        let with =
            |run: Run| variables.iter().fold(run, |run, (name, value)| run.env(name, *value));
        let clean = |run: Run| with(run.env_remove("LD_PRELOAD").env_remove("GLIBC_TUNABLES"));
        let alone = clean(Run::new(&command[0])).run().expect_code(7);
        assert!(!alone.stdout_text().contains("walked -"), "fails natively\n{alone}");
        for verb in verbs {
            println!("{variables:?} {verb:?}");
            let run = Threadtalk::built().verb(verb[0]).args(&verb[1..]).arg("--");
            assert_unchanged(&alone, &clean(run.args(&command)).run());
        }
    }
}

/// What the kernel refuses it refuses in every mode, and no code of ours reads a pointer before it
/// does.
#[test]
fn bad_pointers_are_the_kernels_to_refuse() {
    let scratch = Scratch::new();
    let (profile, plan) = (scratch.join("bad.tt"), scratch.join("plan.json"));
    launch::plan(&plan, &[0]);
    let record = ["record", "--force", "-o", profile.to_str().unwrap()];
    let verbs = [
        [&record[..], &["--exact"]].concat(),
        [&record[..], &["--exact", "--reference"]].concat(),
        [&record[..], &["--sample", "--watch"]].concat(),
        vec!["run", "--plan", plan.to_str().unwrap()],
    ];
    for arguments in [&[][..], &["masked"]] {
        let command = stress::command("bad_pointers", arguments);
        let alone = native(&command).expect_code(0);
        for verb in &verbs {
            println!("{arguments:?} {verb:?}");
            let run = Threadtalk::built().verb(verb[0]).args(&verb[1..]).arg("--");
            assert_unchanged(&alone, &run.args(&command).run());
        }
    }
}
