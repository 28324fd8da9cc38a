//! Plans for data, and the programs of `tests/programs/data/`.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use test_support::{Compiler, Scratch, Target, Threadtalk};

/// A program of the folder, and the same built otherwise: its code lies elsewhere. `None` when this
/// machine has no such compiler.
pub fn allocating(compiler: Compiler, file: &str, flags: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let built = |more: &[&str]| {
        let target = Target::new(compiler, &format!("tests/programs/data/{file}"));
        match target.flags(&["-g"]).flags(flags).flags(more).build() {
            Ok(path) => Some(path),
            Err(test_support::target::TargetError::NoCompiler(_)) => None,
            Err(error) => panic!("{error}"),
        }
    };
    Some((built(&[])?, built(&["-falign-functions=256", "-fno-schedule-insns2"])?))
}

/// The data part of a plan with these objects, for node 0.
pub fn data(objects: Value) -> Value {
    let cost = json!({ "total": 2.0, "communication": 1.0, "memory": 1.0, "controllers": 0.0 });
    json!({
        "policy": "auto", "page_bytes": 4096,
        "nodes": [{ "logical": 0, "os": 0, "weight": 1 }], "cost": cost, "lower_bound": 1.0,
        "locality": 1.0, "local": 1.0, "balance": 0.0, "policies": [], "rest": "first-touch",
        "rest_share": 0.0, "objects": objects,
    })
}

/// Records a program with its pages; the profile.
pub fn recorded(scratch: &Scratch, command: &[&str]) -> PathBuf {
    let profile = scratch.join("recorded.tt");
    let record = Threadtalk::built().record(&profile, &["--pages"], command);
    record.env("OMP_WAIT_POLICY", "passive").run().expect_code(0);
    profile
}

/// Plans a profile for this machine, with data where each page is used most.
pub fn place(profile: &Path, plan: &Path, machine: &str) {
    let place = Threadtalk::built().verb("place").arg(profile).args(["--on", machine]);
    let place = place.args(["--policy", "scatter", "--data", "locality", "--force", "-o"]);
    place.arg(plan).run().expect_code(0);
}

/// Records a program, plans it for two nodes, and puts all that the plan places on node 0 of this
/// machine, without binding threads.
pub fn plan_on_node_0(scratch: &Scratch, plan: &Path, command: &[&str]) {
    place(&recorded(scratch, command), plan, "numa:2 core:4 pu:1");
    let mut all: Value = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
    let here = plan.with_extension("here.json");
    crate::launch::plan(&here, &[0]);
    let here: Value = serde_json::from_slice(&std::fs::read(here).unwrap()).unwrap();
    all["slots"] = json!([]);
    all["policy"] = "os".into();
    all["machine_pus"] = here["machine_pus"].clone();
    all["data"]["nodes"] = json!([{ "logical": 0, "os": 0, "weight": 1 }]);
    for object in all["data"]["objects"].as_array_mut().unwrap() {
        for range in object["ranges"].as_array_mut().unwrap() {
            range["node"] = 0.into();
            let range = range.as_object_mut().unwrap();
            range.remove("interleave");
            range.remove("weights");
        }
    }
    std::fs::write(plan, all.to_string()).unwrap();
}

/// Whether this is the region of blocks of the heap, or of mappings that the program makes.
pub fn is_allocated(region: &Value) -> bool {
    ["heap", "anonymous"].iter().any(|known| region == known)
}

/// Pages of large blocks and mappings that a plan puts somewhere: small ones share theirs.
pub fn planned(plan: &Path) -> u64 {
    let all: Value = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
    let objects = all["data"]["objects"].as_array().unwrap();
    let large = |object: &&Value| {
        is_allocated(&object["identity"]["region"]) && object["bytes"].as_u64().unwrap() >= 1 << 16
    };
    let bytes = |range: &Value| range["bytes"].as_u64().unwrap();
    let ranges = objects.iter().filter(large).flat_map(|o| o["ranges"].as_array().unwrap());
    ranges.map(bytes).sum::<u64>() / 4096
}
