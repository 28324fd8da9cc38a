//! The plan file: what goes in comes out, and bad files are told apart.

mod support;

use placement::{
    DataPolicy, Effort, JointRequest, Plan, PlanData, PlanError, PolicyKind, Request, place_at,
    plan_jointly,
};
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

/// A plan for a program whose master touches first what others use.
fn data_plan() -> Plan {
    let machine = Machine::file("nehalem-ex-4s.synthetic");
    let kernel = support::kernels::by_master(8);
    let (tasks, usage) = (&kernel.tasks, &kernel.usage);
    let request = JointRequest {
        policy: None,
        data: DataPolicy::Auto,
        seed: 0,
        effort: Effort::Fast,
        jobs: 1,
    };
    let joint = plan_jointly(tasks, usage, &machine.topology, &machine.costs, &request).unwrap();
    let threads = Request::new(PolicyKind::Locality);
    let pus = &joint.pu_logical;
    let placement = place_at(tasks, &machine.topology, &machine.costs, &threads, pus).unwrap();
    assert_eq!(&placement.pu_logical, pus);
    let data = PlanData::new(&joint, usage, &machine.topology, &machine.costs);
    Plan::new(&placement, &machine.topology, &[]).with_data(data)
}

#[test]
fn a_plan_with_data_survives_its_file_and_is_checked() {
    let folder = Folder::new("plan-data");
    let path = folder.0.join("p.json");
    let plan = data_plan();
    plan.write(&path, false).unwrap();
    let read = Plan::read(&path).unwrap();
    assert_eq!((read.version, &read.slots), (3, &plan.slots));
    // Costs may differ in the last digit.
    let (data, written) = (read.data.unwrap(), plan.data.as_ref().unwrap());
    assert_eq!(
        (&data.objects, &data.nodes, data.rest),
        (&written.objects, &written.nodes, written.rest)
    );
    assert_eq!((data.page_bytes, data.nodes.len(), data.policies.len()), (4096, 4, 9));
    // A line of plan names object and offset, and no address.
    let object = &data.objects[0];
    assert_eq!((object.identity.name.as_str(), object.ordinal), ("table", Some(0)));
    assert!(object.ranges.windows(2).all(|w| w[0].offset + w[0].bytes <= w[1].offset));
    let good: serde_json::Value = serde_json::from_str(&plan.to_json()).unwrap();
    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = good.clone();
        change(&mut value["data"]["objects"][0]["ranges"][0]);
        std::fs::write(&path, value.to_string()).unwrap();
        Plan::read(&path).unwrap_err().to_string()
    };
    let error = refused(&|range| range["node"] = 17.into());
    assert!(error.contains("puts data on node P#17, which is not among its nodes"), "{error}");
    let error = refused(&|range| range["bytes"] = 100.into());
    assert!(error.contains("is not one of whole pages"), "{error}");
    let error = refused(&|range| range["interleave"] = serde_json::json!([0, 1]));
    assert!(error.contains("must name a node or several"), "{error}");
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
        changed(&|v| v["version"] = 5.into())
            .contains("is of version 5, this program reads up to 4")
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
