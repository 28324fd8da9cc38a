//! The plan file: what goes in comes out, and bad files are told apart.

mod support;

use placement::{Plan, PlanError, PolicyKind};
use std::path::PathBuf;
use support::{Machine, lattice, unit_graph};
use types::{ThreadId, ThreadIdentity};

/// A folder removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("threadtalk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn plan() -> Plan {
    let machine = Machine::new("pack:2 core:2 pu:1", "180,50");
    let chain = unit_graph(4, &lattice([1, 1, 4]), 0);
    let placement = machine.place(&chain, PolicyKind::Locality, 3);
    let identities: Vec<ThreadIdentity> = (0..4)
        .map(|t| ThreadIdentity {
            start_routine: "app+0x10".into(),
            parent: (t > 0).then_some(ThreadId(0)),
            ordinal: t,
            name: "näme \"x\"".into(),
        })
        .collect();
    Plan::new(&placement, &machine.topology, &identities)
}

#[test]
fn a_plan_survives_its_file() {
    let folder = Folder::new("plan-roundtrip");
    let path = folder.0.join("p.json");
    let plan = plan();
    plan.write(&path, false).unwrap();
    assert_eq!(Plan::read(&path).unwrap(), plan);
    assert!(matches!(plan.write(&path, false), Err(PlanError::Exists { .. })));
    plan.write(&path, true).unwrap();
    assert_eq!(plan.slots[2].identity.as_ref().unwrap().parent, Some(0));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn bad_plans_are_told_apart() {
    let folder = Folder::new("plan-bad");
    let path = folder.0.join("p.json");
    let good: serde_json::Value = serde_json::from_str(&plan().to_json()).unwrap();
    let read = |text: String| {
        std::fs::write(&path, text).unwrap();
        Plan::read(&path).unwrap_err().to_string()
    };
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = good.clone();
        change(&mut value);
        read(value.to_string())
    };
    assert!(read(String::new()).contains("it is not JSON"));
    assert!(read("{}".into()).contains("it has no version"));
    assert!(read("[1]".into()).contains("it has no version"));
    assert!(
        changed(&|v| v["version"] = 3.into())
            .contains("is of version 3, this program reads up to 2")
    );
    assert!(changed(&|v| v["slots"] = "x".into()).contains("is not a plan"));
    assert!(changed(&|v| v["slots"] = serde_json::json!([])).contains("it places no thread"));
    assert!(changed(&|v| v["slots"][1]["thread"] = 0.into()).contains("places thread 0 twice"));
    let beyond = changed(&|v| v["slots"][1]["pu_logical"] = 4.into());
    assert!(beyond.contains("puts thread 1 on PU L#4, but its machine has 4 PUs"), "{beyond}");
    let missing = Plan::read(&folder.0.join("none.json")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the plan"), "{missing}");
    // Fields added by a later program of the same version do not matter.
    let mut more = good.clone();
    more["comment"] = "hello".into();
    std::fs::write(&path, more.to_string()).unwrap();
    assert_eq!(Plan::read(&path).unwrap(), plan());
}
