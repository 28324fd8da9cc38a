//! Plans for the tests of the launchers, and what a shell would make of their files.

use crate::plan::{Baselines, Plan, PlanIdentity, PlanSlot};

/// A plan that puts thread i on `pus[i]` (P#); L# is twice that.
pub fn plan_of(pus: &[u32]) -> Plan {
    let slot = |(thread, &pu)| PlanSlot { thread, pu_logical: 2 * pu, pu_os: pu, identity: None };
    Plan {
        version: 1,
        policy: "locality".into(),
        seed: 0,
        events: String::new(),
        program: String::new(),
        cost: 1.0,
        baselines: Baselines { compact: 1.0, scatter: 1.0, random: 1.0, os: 1.0 },
        lower_bound: None,
        levels: Vec::new(),
        apps: Vec::new(),
        data: None,
        phases: None,
        slots: (0..).zip(pus).map(slot).collect(),
        machine: "a\nmachine".into(),
        machine_pus: 1000,
    }
}

/// The same with start routines, all started by thread 0 but for `others` (thread, routine,
/// parent).
pub fn with_identities(pus: &[u32], routines: &[&str], others: &[(u32, &str, u32)]) -> Plan {
    let mut plan = plan_of(pus);
    let identity = |routine: &str, parent| PlanIdentity {
        start_routine: routine.into(),
        parent,
        ..PlanIdentity::default()
    };
    for (slot, routine) in plan.slots.iter_mut().zip(routines) {
        slot.identity = Some(identity(routine, (slot.thread > 0).then_some(0)));
    }
    for &(thread, routine, parent) in others {
        plan.slots[thread as usize].identity = Some(identity(routine, Some(parent)));
    }
    plan
}

/// The value that sourcing `text` in a POSIX shell gives `variable`, which is put into the
/// environment of what the shell starts.
pub fn sourced(text: &str, variable: &str) -> String {
    let script = format!("{text}\nexec printenv {variable}");
    output(std::process::Command::new("sh").arg("-euc").arg(script))
}

/// The words that a wrapper script would execute, for the arguments `./app 'a b'`.
pub fn executed(text: &str) -> Vec<String> {
    // A function in the place of `exec` shows what it is given.
    let script =
        format!("show() {{ printf '%s\\n' \"$@\"; }}\n{}", text.replace("\nexec ", "\nshow "));
    let mut shell = std::process::Command::new("sh");
    output(shell.args(["-euc", &script, "sh", "./app", "a b"])).lines().map(String::from).collect()
}

fn output(command: &mut std::process::Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').into()
}
