//! `threadtalk simulate`, from the engine's stream, from traces, and what it refuses.

use e2e::known::{self, Runtime};
use serde_json::Value;
use test_support::{Compiler, Scratch, Target, Threadtalk, paths};

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
        // And is told by place in the code, by object and, if a thread's cache gave it, by threads.
        let all_of = |rows: &str, name: &str| -> u64 {
            one[rows].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
        };
        for rows in ["sites", "objects"] {
            assert_eq!(all_of(rows, "transfers"), sum(&total["transfers"]), "{rows}");
            assert_eq!(all_of(rows, "local"), number("local"), "{rows}");
            assert_eq!(all_of(rows, "remote"), number("remote"), "{rows}");
        }
        let between = one["transfers_between_threads"].as_array().unwrap();
        let between: u64 = between.iter().map(|count| count.as_u64().unwrap()).sum();
        let transfers = sum(&total["transfers"]);
        assert!(between <= transfers && between * 100 > transfers * 99, "{between} {transfers}");
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
    // The page has the same numbers, and is never replaced without being asked to.
    let page = scratch.join("page.html");
    let html = ["--html", page.to_str().unwrap()];
    simulate(&html);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("{\"simulation\":{") && text.contains("\"served\":[{\"place\":\"L1\""));
    let again = threadtalk.verb("simulate").arg(&profile).args(["--on", MACHINE]).args(html);
    assert!(again.run().expect_code(125).stderr_text().contains("exists"));
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
    // Predicted and simulated time and energy: `21 ms  4 ms  28.32 mJ`.
    let values = |name: &str| -> Vec<&str> {
        row(name).split("first-touch").nth(1).unwrap().split_whitespace().take(6).collect()
    };
    let energy = |name: &str| values(name)[4].parse::<f64>().unwrap();
    // The policy places by what the replay of the trace counts: threads that hardly communicate
    // may come to lie elsewhere.
    assert_eq!(values("this plan")[..2], values("locality")[..2], "{table}");
    let apart = (energy("this plan") / energy("locality") - 1.0).abs();
    assert!(apart < 0.05, "{table}");
    assert_eq!(values("this plan")[5], values("distance")[5], "{table}");
    assert!(energy("distance") > 1.3 * energy("this plan"), "{table}");
    assert!(table.contains("predicted"));
    assert!(table.contains("In the simulation, none of these policies takes"), "{table}");
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

/// The machine of table 5.1, whose L1 caches have 64 sets, but with this number of ways.
fn with_ways(scratch: &Scratch, ways: u32) -> String {
    let text = std::fs::read_to_string(paths::root().join("tests/machines/sinuca-table-5.1.xml"));
    let l1 = r#"type="L1Cache""#;
    let line = |line: &str| match line.contains(l1) {
        true => line
            .replace(r#"cache_size="32768""#, &format!("cache_size=\"{}\"", 4096 * ways))
            .replace(r#"associativity="8""#, &format!("associativity=\"{ways}\"")),
        false => line.to_string(),
    };
    let file = scratch.join(&format!("{ways}-ways.xml"));
    std::fs::write(&file, text.unwrap().lines().map(line).collect::<Vec<_>>().join("\n")).unwrap();
    file.to_str().unwrap().to_string()
}

#[test]
fn lines_that_alternate_in_a_set_are_left_out_where_the_caches_hold_them() {
    const KIB: u64 = 256;
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let binary = Target::new(Compiler::Gcc, "tests/programs/known/walk.c").build().unwrap();
    let binary = binary.to_str().unwrap();
    let simulate = |what: &[&str], on: &str, arrays: u64| -> Value {
        let out = scratch.join("simulated.json");
        let run = threadtalk.verb("simulate").args(["--no-prefetch", "--json", "--on", on]);
        let run = run.arg("--force").arg("-o").arg(&out);
        let (arrays, kib) = (arrays.to_string(), KIB.to_string());
        let run = match what {
            [] => run.args(["--", binary, &arrays, &kib]),
            trace => run.args(trace),
        };
        run.run().expect_code(0);
        serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap()
    };
    // Accesses that L1 does not serve, over the arrays' lines.
    let missed = |json: &Value, arrays: u64| {
        let total = &json["scenarios"][0]["total"];
        let hits = total["hits"]["L1"].as_u64().unwrap();
        (total["lines"].as_u64().unwrap() - hits) as f64 / (arrays * (KIB << 10) / 64) as f64
    };
    for (ways, arrays, expected) in [(8, 3, 1.0), (8, 6, 1.0), (4, 3, 1.0), (2, 3, 64.0)] {
        let json = simulate(&[], &with_ways(&scratch, ways), arrays);
        let missed = missed(&json, arrays);
        let what = format!("{arrays} arrays, {ways} ways: {missed} lines");
        // Startup has some, too.
        assert!((0.97..1.15).contains(&(missed / expected)), "{what} of {expected}");
        assert!(!json["notes"].to_string().contains("leaves out"), "{what}");
    }
    // A trace for machines that are not known yet.
    let profile = scratch.join("walk.tt");
    let kib = KIB.to_string();
    let command = [binary, "3", &kib];
    let said = threadtalk.record(&profile, &["--trace"], &command).run().expect_code(0);
    let said = said.stderr_text();
    let kept = said.lines().find_map(|line| line.split_once("kept ")).unwrap().1;
    let kept: String =
        kept.chars().take_while(|c| *c != ' ').filter(char::is_ascii_digit).collect();
    let kept: u64 = kept.parse().unwrap();
    assert!(kept < 3 * (KIB << 10) / 8, "{kept} accesses kept");
    let trace = profile.to_str().unwrap();
    let eight = simulate(&[trace], &with_ways(&scratch, 8), 3);
    assert!(!eight["notes"].to_string().contains("leaves out"));
    let two = simulate(&[trace], &with_ways(&scratch, 2), 3);
    assert!(two["notes"].to_string().contains("leaves out"));
}

/// Two packages whose caches are too small for what the stencil works on.
const SMALL: &str = "pack:2 numa:1(memory=1GiB) l3:1(size=256KiB) core:4 l2:1(size=64KiB) \
                     l1d:1(size=32KiB) pu:1";

/// A stencil whose grids the initial thread fills, so that half of the pages lie on the wrong node
/// where they are first touched.
fn stencil() -> Vec<String> {
    let target = Target::new(Compiler::Gcc, "tests/programs/data/stencil.c");
    let binary = target.flags(&["-O1", "-g", "-pthread"]).build().unwrap();
    [binary.to_str().unwrap(), "512", "4"].map(String::from).to_vec()
}

#[test]
fn windows_of_a_run_stand_for_all_of_it() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let sweeps = |sweeps: &str, how: &[&str]| -> Value {
        let mut command = stencil();
        command[2] = sweeps.into();
        let out = scratch.join(sweeps);
        let run = threadtalk.verb("simulate").args(["--on", MACHINE, "--policy", "locality"]);
        let run = run.args(how).args(["--json", "-o"]).arg(&out).arg("--").args(command);
        run.run().expect_code(0);
        serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap()
    };
    let (few, many) = (sweeps("20", &[]), sweeps("6000", &["--duty", "40%"]));
    let [few, many] = [&few, &many].map(|json| &json["scenarios"][0]);
    assert!(few["margins"].is_null());
    assert!(many["margins"]["windows"].as_u64().unwrap() >= 2, "{}", many["margins"]);
    let number = |of: &Value| of.as_f64().unwrap();
    // A sweep is a sweep.
    let times = number(&many["total"]["accesses"]) / number(&few["total"]["accesses"]);
    assert!((250.0..320.0).contains(&times), "{times}");
    let share = |of: &Value, level: &str| {
        number(&of["total"]["hits"][level]) / number(&of["total"]["lines"])
    };
    for level in ["L1", "L2", "L3"] {
        let (few, many) = (share(few, level), share(many, level));
        assert!((few - many).abs() < 0.01, "{level}: {few} {many}");
    }
}

#[test]
fn what_the_program_prints_is_not_among_the_results() {
    let script = "echo out; echo err >&2";
    let run =
        Threadtalk::built().verb("simulate").args(["--json", "--on", SMALL, "--", "sh", "-c"]);
    let outcome = run.arg(script).run().expect_code(0);
    let json = serde_json::from_str::<Value>(&outcome.stdout_text());
    assert!(json.is_ok(), "{outcome}");
    let said = outcome.stderr_text();
    assert!(said.contains("out\n") && said.contains("err\n"), "{outcome}");
}

#[test]
fn the_data_of_a_plan_is_simulated() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let [counted, traced] = ["counted.tt", "traced.tt"].map(|name| scratch.join(name));
    let plan = scratch.join("plan.json");
    let command = stencil();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    threadtalk.record(&counted, &["--pages"], &command).run().expect_code(0);
    threadtalk.record(&traced, &["--trace"], &command).run().expect_code(0);
    let place = threadtalk.verb("place").arg(&counted).args(["--on", SMALL, "-o"]).arg(&plan);
    place.args(["--policy", "scatter", "--data", "locality"]).run().expect_code(0);
    let simulate = |more: &[&str]| -> Value {
        let run = threadtalk.verb("simulate").arg(&traced).args([
            "--on",
            SMALL,
            "--no-prefetch",
            "--json",
        ]);
        let run = run.arg("--plan").arg(&plan).args(more).run();
        serde_json::from_str(&run.expect_code(0).stdout_text()).unwrap()
    };
    let by = |json: &Value, data: &str| -> Value {
        let all = json["scenarios"].as_array().unwrap();
        all.iter().find(|one| one["data_by"] == data).unwrap().clone()
    };
    // In another run than the one that the plan was made of.
    let json = simulate(&["--data", "first-touch"]);
    let (planned, touched) = (by(&json, "as planned"), by(&json, "first-touch"));
    let remote = |of: &Value| of["total"]["remote"].as_u64().unwrap();
    assert!(remote(&planned) * 2 < remote(&touched), "{} {}", remote(&planned), remote(&touched));
    // The grids are what it helps.
    let grids = |of: &Value| -> u64 {
        let objects = of["objects"].as_array().unwrap().iter();
        let grids = objects.filter(|object| object["name"].to_string().contains("make_grid"));
        grids.map(|object| object["remote"].as_u64().unwrap()).sum()
    };
    assert!(grids(&touched) * 10 > remote(&touched) * 9, "{}", grids(&touched));
    assert!(grids(&planned) * 2 < grids(&touched));
    let notes = |json: &Value| json["notes"].to_string();
    assert!(notes(&json).contains("pages that the program accesses"), "{}", notes(&json));
    // What this program does not have is told, and lies where it is first touched.
    let text = std::fs::read_to_string(&plan).unwrap().replace("make_grid", "make_mesh");
    std::fs::write(&plan, text).unwrap();
    let json = simulate(&[]);
    assert!(notes(&json).contains("pages of its data were not found"), "{}", notes(&json));
    assert!(grids(&by(&json, "as planned")) * 10 > grids(&touched) * 9);
    // A profile with a trace alone says nothing of pages.
    let profile = profile::Profile::load(&traced).unwrap();
    assert!(profile.pages.pages.is_empty() && profile.pages.accesses.is_empty());
    // Traces of other tools do not name data.
    let text = scratch.join("text");
    std::fs::write(&text, "I  1000,4\n L 2000,8\n").unwrap();
    let run = threadtalk.verb("simulate").arg(&text).args(["--on", SMALL, "--plan"]).arg(&plan);
    let said = run.run().expect_code(125).stderr_text();
    assert!(said.contains("does not tell which objects"), "{said}");
}

#[test]
fn a_plan_with_data_is_verified_on_a_trace_with_pages() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("both.tt");
    let command = stencil();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    threadtalk.record(&profile, &["--trace", "--pages"], &command).run().expect_code(0);
    let counted = profile::Profile::load(&profile).unwrap();
    let accesses: u64 = counted.threads.iter().map(|thread| thread.loads + thread.stores).sum();
    let by_page: u64 = counted.pages.accesses.iter().map(profile::AccessRow::total).sum();
    assert!(by_page * 100 > accesses * 95, "{by_page} of {accesses}");
    let place = threadtalk.verb("place").arg(&profile).args(["--on", SMALL, "--policy", "scatter"]);
    let place = place.args(["--data", "locality", "--verify", "simulate"]);
    let text = place.run().expect_code(0).stdout_text();
    assert!(text.contains("as planned") && text.contains("first-touch"), "{text}");
    assert!(text.contains("stalled by data") && text.contains("make_grid"), "{text}");
}

#[test]
fn repeated_interleavings_have_intervals() {
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
    let (once, often) = (json(&one), json(&[&one[..], &["--repeat", "4"]].concat()));
    let (once, often) = (scenario(&once, "distance"), scenario(&often, "distance"));
    assert_eq!(once["interleavings"], Value::Null);
    assert_eq!(often["interleavings"], 4);
    assert_eq!(once["total"], often["total"], "counts are those of the first one");
    let (mean, half) = (often["time_ns"]["mean"].as_f64(), often["time_ns"]["half"].as_f64());
    let time = once["total"]["time_ns"].as_f64().unwrap();
    assert!((mean.unwrap() / time - 1.0).abs() < 0.2, "{mean:?} {time}");
    assert!(half.unwrap() > 0.0 && half.unwrap() < time, "{half:?}");
    let text = simulate(&["--repeat", "4"]);
    assert!(text.contains(" ± ") && text.contains("means of 4 interleavings"), "{text}");
    let never = threadtalk.verb("simulate").arg(&profile).args(["--repeat", "0"]).run();
    assert_ne!(never.exit_code, Some(0));
}

#[test]
fn transfers_between_threads_are_a_matrix_that_place_reads() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let (profile, matrix) = (scratch.join("pairs.tt"), scratch.join("matrix.csv"));
    let command = pairs();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    threadtalk.record(&profile, &["--trace"], &command).run().expect_code(0);
    let csv = |policies: &[&str]| {
        let run = threadtalk.verb("simulate").arg(&profile).args(["--on", MACHINE, "--csv"]);
        run.args(policies).run()
    };
    let text = csv(&["--policy", "compact"]).expect_code(0).stdout_text();
    std::fs::write(&matrix, &text).unwrap();
    let threads = profile::Profile::load(&profile).unwrap().threads.len();
    assert_eq!(text.lines().count(), threads);
    threadtalk.verb("place").arg(&matrix).args(["--on", MACHINE]).run().expect_code(0);
    let said = csv(&["--policy", "compact", "--policy", "scatter"]).expect_code(125).stderr_text();
    assert!(said.contains("one matrix, but there are 2 plans"), "{said}");
}

/// A shell that runs this command and does something afterwards, so that it waits for it.
fn in_a_shell(command: &[String]) -> Vec<String> {
    let words: Vec<String> = command.iter().map(|word| format!("'{word}'")).collect();
    ["sh".into(), "-c".into(), format!("{}; :", words.join(" "))].to_vec()
}

/// How many accesses were simulated, of how many threads.
fn simulated(text: &str) -> (u64, u64) {
    let line = text.lines().find(|line| line.ends_with(", simulated")).expect("a first line");
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].replace(',', "").parse().unwrap();
    (number(0), number(3))
}

#[test]
fn of_a_program_that_is_killed_it_is_said_that_its_run_is_no_whole_one() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let out = scratch.join("killed.json");
    let script = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; kill -TERM $$";
    let run = threadtalk.verb("simulate").args(["--on", MACHINE, "--json", "-o"]).arg(&out);
    let run = run.args(["--", "sh", "-c", script]).run();
    assert_eq!(run.exit_code, Some(128 + 15), "{run}");
    let json: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(json["cut"], "the program was killed (SIGTERM)");
    assert!(json["notes"].to_string().contains("not of a whole run"), "{}", json["notes"]);
}

#[test]
fn the_process_that_accesses_memory_most_is_simulated() {
    let threadtalk = Threadtalk::built();
    let simulate = |command: &[String]| {
        let run = threadtalk.verb("simulate").args(["--on", MACHINE, "--policy", "locality", "--"]);
        run.args(command).run().expect_code(0)
    };
    let (alone, within) = (simulate(&pairs()), simulate(&in_a_shell(&pairs())));
    let (is, should) = (simulated(&within.stdout_text()), simulated(&alone.stdout_text()));
    assert_eq!(is.1, should.1, "threads");
    assert!(is.0.abs_diff(should.0) < should.0 / 10, "{is:?} of {should:?}");
    assert!(within.stdout_text().contains("Of 2 processes only "), "{within}");
    assert!(!alone.stdout_text().contains("processes"), "{alone}");
}

#[test]
fn each_process_has_its_trace_in_its_profile() {
    let (scratch, threadtalk) = (Scratch::new(), Threadtalk::built());
    let profile = scratch.join("shell.tt");
    let command = in_a_shell(&pairs());
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let recorded = threadtalk.record(&profile, &["--trace"], &command).run().expect_code(0);
    let children = std::fs::read_dir(profile.join("processes")).unwrap();
    let [child] = &children.map(|child| child.unwrap().path()).collect::<Vec<_>>()[..] else {
        panic!("not one child: {recorded}");
    };
    let said = recorded.stderr_text();
    let advice = format!("'threadtalk simulate {}'", child.display());
    assert!(said.contains(&advice), "{said}");
    let simulate = |profile: &std::path::Path| {
        let run = threadtalk.verb("simulate").arg(profile).args(["--on", MACHINE]);
        run.args(["--policy", "locality"]).run().expect_code(0).stdout_text()
    };
    // Of the profile, the largest trace is taken.
    let (shell, all, largest) =
        (simulate(&profile.join("trace")), simulate(&profile), simulate(child));
    assert_eq!((simulated(&shell).1, simulated(&largest).1), (1, 5), "{shell}\n{largest}");
    assert_eq!(simulated(&all), simulated(&largest));
    assert!(all.contains(child.to_str().unwrap()) && !largest.contains("child process"), "{all}");
    // What `place` plans is simulated for the process that it is for.
    let place = threadtalk.verb("place").arg(&profile).args(["--on", MACHINE]);
    let verified = place.args(["--verify", "simulate"]).run().expect_code(0).stdout_text();
    assert_eq!(simulated(&verified).1, 5, "{verified}");
    // Nothing lies beside the profile.
    assert_eq!(std::fs::read_dir(profile.parent().unwrap()).unwrap().count(), 1);
}

/// Memory that processes can share is simulated as any other.
#[test]
fn lines_of_shared_memory_go_from_thread_to_thread() {
    const LINES: u64 = 256;
    let binary = known::program("passed", &["-O1"]);
    for memory in ["private", "shared"] {
        let run = Threadtalk::built().verb("simulate").args(["--on", MACHINE]);
        let run = run.args(["--policy", "distance", "--no-prefetch", "--csv", "--"]);
        let run = run.arg(&binary).args([memory, &LINES.to_string()]).run().expect_code(0);
        let row = run.stdout_text().lines().nth(1).unwrap().to_owned();
        let to_reader: u64 = row.split(',').nth(2).unwrap().parse().unwrap();
        // Beside them a few of the C library's.
        assert!((LINES..LINES + 16).contains(&to_reader), "{memory}: {run}");
    }
}
