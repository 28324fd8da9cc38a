//! `threadtalk simulate`, from the engine's stream, from traces, and what it refuses.

use e2e::known::Runtime;
use serde_json::Value;
use test_support::{Scratch, Threadtalk};

/// Two packages of four cores.
const MACHINE: &str = "pack:2 numa:1(memory=1GiB) l3:1(size=8MiB) core:4 l2:1(size=256KiB) \
                       l1d:1(size=32KiB) pu:1";

/// The function with which partners read what the other has written.
const TALKS: &str = "read_words ";

/// Four threads in two pairs that talk.
fn pairs() -> Vec<String> {
    let binary = Runtime::Pthreads.target(&["-O2"]).build().unwrap();
    let command = [binary.to_str().unwrap(), "pairs", "4", "50", "256", "64"];
    command.map(String::from).to_vec()
}

fn scenario<'a>(json: &'a Value, threads: &str) -> &'a Value {
    let all = json["scenarios"].as_array().unwrap();
    all.iter().find(|one| one["threads_by"] == threads).unwrap()
}

#[test]
fn threads_that_talk_are_cheaper_close_together() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let out = scratch.join("simulated.json");
    let run = threadtalk
        .verb("simulate")
        .args(["--on", MACHINE, "--policy", "locality", "--policy", "distance", "--json", "-o"])
        .arg(&out)
        .arg("--")
        .args(pairs());
    run.run().expect_code(0);
    let json: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let (near, far) = (scenario(&json, "locality"), scenario(&json, "distance"));
    let crossing = |of: &Value| of["total"]["transfers"]["between packages"].as_u64().unwrap();
    assert!(crossing(near) * 5 < crossing(far), "{} {}", crossing(near), crossing(far));
    // What talks is named, and it is what the better plan helps.
    let waited = |of: &Value| -> f64 {
        let sites = of["sites"].as_array().unwrap().iter();
        let talking = sites.filter(|site| site["name"].as_str().is_some_and(|n| n.contains(TALKS)));
        talking.map(|site| site["latency_ns"].as_f64().unwrap()).sum()
    };
    assert!(waited(near) > 0.0 && waited(near) < waited(far), "{} {}", waited(near), waited(far));
    let time = |of: &Value| of["total"]["time_ns"].as_f64().unwrap();
    assert!(time(near) < time(far), "{} {}", time(near), time(far));
    // Every line that was touched came from somewhere.
    for one in [near, far] {
        let total = &one["total"];
        let sum =
            |of: &Value| of.as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum::<u64>();
        let number = |name: &str| total[name].as_u64().unwrap();
        let found =
            sum(&total["hits"]) + sum(&total["transfers"]) + number("local") + number("remote");
        assert_eq!(found, number("lines"));
        assert_eq!(total["accesses"], near["total"]["accesses"], "the same stream");
    }
}

#[test]
fn a_trace_is_simulated_again_and_again() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (profile, plan) = (scratch.join("pairs.tt"), scratch.join("plan.json"));
    let command = pairs();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    threadtalk.record(&profile, &["--trace"], &command).run().expect_code(0);
    let simulate = |more: &[&str]| {
        let run = threadtalk.verb("simulate").arg(&profile).args(["--on", MACHINE]).args(more);
        run.run().expect_code(0).stdout_text()
    };
    let text = simulate(&["--data", "first-touch", "--data", "interleave"]);
    assert_eq!(text, simulate(&["--data", "first-touch", "--data", "interleave"]));
    assert!(text.contains("interleave") && text.contains("between packages"), "{text}");
    // A plan of the same recording does what the policy does.
    let place = threadtalk.verb("place").arg(&profile).args(["--on", MACHINE, "-o"]).arg(&plan);
    place.run().expect_code(0);
    let row = |text: &str, name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().skip(1).map(String::from).collect()
    };
    let (planned, policy) =
        (simulate(&["--plan", plan.to_str().unwrap()]), simulate(&["--policy", "locality"]));
    assert_eq!(row(&planned, "plan.json"), row(&policy, "locality"));
    // Cut off, it is refused.
    let trace = std::fs::read(profile.join("trace")).unwrap();
    std::fs::write(profile.join("trace"), &trace[..trace.len() / 2]).unwrap();
    let cut = threadtalk.verb("simulate").arg(&profile).args(["--on", MACHINE]).run();
    let said = cut.expect_code(125).stderr_text();
    assert!(said.contains("it is cut off"), "{said}");
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let text = scratch.join("text");
    std::fs::write(&text, "I  1000,4\n L 2000,8\n S 2040,8\n").unwrap();
    let on = |machine: &str, more: &[&str]| {
        threadtalk.verb("simulate").arg(&text).args(["--on", machine]).args(more).run()
    };
    let found = on(MACHINE, &["--policy", "compact"]).expect_code(0).stdout_text();
    assert!(found.starts_with("2 accesses of 1 thread"), "{found}");
    for (machine, more, words) in [
        ("pack:2 core:2 pu:1", &[][..], "names no caches"),
        (MACHINE, &["--policy", "os"], "binds nothing"),
        (MACHINE, &["--data", "auto"], "--data auto belongs to plans"),
        (MACHINE, &["--plan", "/nonexistent"], "cannot read the plan"),
    ] {
        let said = on(machine, more).expect_code(125).stderr_text();
        assert!(said.contains(words), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    std::fs::write(&text, "once upon a time\n").unwrap();
    let said = on(MACHINE, &[]).expect_code(125).stderr_text();
    assert!(said.contains("is no trace"), "{said}");
}

#[test]
fn a_part_of_the_sets_has_intervals_and_loses_no_access() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("pairs.tt");
    let command = pairs();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    threadtalk.record(&profile, &["--trace"], &command).run().expect_code(0);
    let simulate = |more: &[&str]| {
        let run = threadtalk.verb("simulate").arg(&profile).args(["--on", MACHINE]).args(more);
        run.run().expect_code(0).stdout_text()
    };
    let json = |more: &[&str]| -> Value { serde_json::from_str(&simulate(more)).unwrap() };
    let one = ["--policy", "distance", "--json"];
    let all = json(&one);
    let part = json(&[&one[..], &["--sample-sets", "1/16"]].concat());
    let (all, part) = (scenario(&all, "distance"), scenario(&part, "distance"));
    assert!(all["margins"].is_null());
    assert_eq!((&part["margins"]["sets"], &part["margins"]["of_sets"]), (&4.into(), &64.into()));
    assert_eq!(part["total"]["accesses"], all["total"]["accesses"]);
    assert_eq!(part["total"]["lines"], all["total"]["lines"]);
    assert_eq!(part["predicted_ns"], all["predicted_ns"]);
    let text = simulate(&["--sample-sets", "1/16"]);
    assert!(text.contains(" ± ") && text.contains("4 in 64 sets"), "{text}");
    let wrong = threadtalk.verb("simulate").arg(&profile).args(["--sample-sets", "16"]).run();
    assert!(wrong.stderr_text().contains("write a part like 1/16"));
}

#[test]
fn place_simulates_its_plan_beside_other_policies() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("pairs.tt");
    let command = pairs();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let place = |profile: &std::path::Path| {
        let run = threadtalk.verb("place").arg(profile).args(["--on", MACHINE]);
        run.args(["--verify", "simulate"]).run()
    };
    threadtalk.record(&profile, &["--trace"], &command).run().expect_code(0);
    let text = place(&profile).expect_code(0).stdout_text();
    let (_, table) = text.split_once("simulated").unwrap();
    let row = |name: &str| table.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    let values = |name: &str| row(name).split("first-touch").nth(1).unwrap().to_string();
    assert_eq!(values("this plan"), values("locality"), "{table}");
    assert_ne!(values("this plan"), values("distance"), "{table}");
    assert!(table.contains("predicted"));
    // Without a trace there is nothing to simulate.
    std::fs::remove_file(profile.join("trace")).unwrap();
    let said = place(&profile).expect_code(125).stderr_text();
    assert!(said.contains("record --trace"), "{said}");
}

#[test]
fn accesses_that_a_trace_leaves_out_are_counted() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("pairs.tt");
    let command = pairs();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let recorded = threadtalk.record(&profile, &["--trace"], &command).run().expect_code(0);
    let said = recorded.stderr_text();
    let kept = said.lines().find_map(|line| line.split_once("kept ")).unwrap().1;
    let kept: String =
        kept.split(' ').next().unwrap().chars().filter(char::is_ascii_digit).collect();
    let threads = profile::Profile::load(&profile).unwrap().threads;
    let counted: u64 = threads.iter().map(|thread| thread.loads + thread.stores).sum();
    let simulate = |args: &[&str]| -> Value {
        let run = threadtalk.verb("simulate").arg(&profile).args(args).arg("--json");
        serde_json::from_str(&run.run().expect_code(0).stdout_text()).unwrap()
    };
    let json = simulate(&["--on", MACHINE]);
    assert_eq!(json["accesses"].as_u64(), Some(counted));
    assert!(kept.parse::<u64>().unwrap() < counted, "{kept} of {counted}");
    let notes = |json: &Value| json["notes"].to_string();
    assert!(!notes(&json).contains("leaves out"), "{}", notes(&json));
    // Its innermost caches have 32 sets.
    let small = "pack:2 numa:1(memory=1GiB) core:2 l1d:1(size=16KiB) pu:1";
    assert!(notes(&simulate(&["--on", small])).contains("leaves out"));
    // A profile with a trace is a profile.
    threadtalk.record(&profile, &["--trace", "--force"], &command).run().expect_code(0);
}
