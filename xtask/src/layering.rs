//! Layering: who may use whom among our own crates.
//!
//! [`TABLE`] is the table of ARCHITECTURE.md as data. A crate may use what its row names and
//! whatever those may use; every arrow must point to an earlier row. Development dependencies are
//! held to the same table, except that every crate may use `test-support` and `lab` in tests.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// One row: a crate (package name less its `threadtalk-` prefix) and what it may use directly.
pub type Row = (&'static str, &'static [&'static str]);

/// What may use what, lowest layer first.
pub const TABLE: &[Row] = &[
    ("types", &[]),
    ("wire", &["types"]),
    ("access", &[]),
    ("engine", &["types"]),
    ("inspect", &["wire"]),
    ("agent", &["engine", "inspect"]),
    ("injected", &[]),
    ("shim", &["wire", "injected"]),
    ("watch", &["wire", "injected", "access"]),
    ("allocations", &["injected", "inspect"]),
    ("blocks", &["allocations"]),
    ("data", &["allocations"]),
    ("statistics", &[]),
    ("perf", &["access", "statistics"]),
    ("sampling", &["types", "access", "statistics"]),
    ("windows", &["types", "statistics"]),
    ("profile", &["types", "statistics"]),
    ("symbols", &["types"]),
    ("topology", &["types", "statistics"]),
    ("analysis", &["profile", "statistics"]),
    ("placement", &["topology"]),
    ("online", &["placement", "statistics"]),
    ("simulation", &["placement", "statistics"]),
    ("binding", &["topology"]),
    ("latency", &["binding"]),
    ("reference", &["types"]),
    (
        "recorder",
        &[
            "wire",
            "profile",
            "symbols",
            "placement",
            "binding",
            "simulation",
            "reference",
            "perf",
            "sampling",
            "windows",
        ],
    ),
    ("daemon", &["recorder", "online"]),
    ("report", &["analysis", "placement"]),
    ("top", &["types"]),
    ("cli", &["recorder", "daemon", "report", "latency", "top"]),
    ("test-support", &[]),
    ("lab", &["test-support"]),
    ("e2e", &["profile", "lab"]),
    ("benches", &["windows", "profile", "online", "test-support"]),
    ("bench-placement", &["placement"]),
    ("xtask", &[]),
];

/// `from` uses `to`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrow {
    pub from: String,
    pub to: String,
    /// Only in tests.
    pub dev: bool,
}

/// The part of `cargo metadata` that is looked at.
#[derive(Deserialize)]
pub struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
}

/// Name in the table: `threadtalk-types` is `types`; the binary, `threadtalk`, is `cli`.
fn short(package: &str) -> String {
    match package {
        "threadtalk" => "cli".into(),
        _ => package.strip_prefix("threadtalk-").unwrap_or(package).into(),
    }
}

/// The arrows between our own crates. A crate without dependencies appears as an arrow to itself,
/// so that one missing from the table is noticed all the same.
pub fn arrows(metadata: &Metadata) -> Vec<Arrow> {
    let mut arrows = Vec::new();
    for package in &metadata.packages {
        let from = short(&package.name);
        arrows.push(Arrow { from: from.clone(), to: from.clone(), dev: false });
        for dependency in package.dependencies.iter().filter(|d| d.path.is_some()) {
            let dev = dependency.kind.as_deref() == Some("dev");
            arrows.push(Arrow { from: from.clone(), to: short(&dependency.name), dev });
        }
    }
    arrows
}

/// What each crate may use, directly or through others.
fn closure(table: &[Row]) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut allowed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, uses) in table {
        let mut all: BTreeSet<&str> = uses.iter().copied().collect();
        for used in *uses {
            all.extend(allowed.get(used).into_iter().flatten());
        }
        allowed.insert(name, all);
    }
    allowed
}

/// One sentence for each arrow that the table does not allow, and for each row of the table that
/// itself points upwards.
pub fn complaints(arrows: &[Arrow], table: &[Row]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (row, (name, uses)) in table.iter().enumerate() {
        for used in *uses {
            if !table[..row].iter().any(|(earlier, _)| earlier == used) {
                complaints.push(format!("the table lets {name} use {used}, which is not below it"));
            }
        }
    }
    let allowed = closure(table);
    for Arrow { from, to, dev } in arrows {
        let Some(uses) = allowed.get(from.as_str()) else {
            complaints.push(format!(
                "crate {from} is not in the table: give it a row in xtask/src/layering.rs and in \
                 ARCHITECTURE.md"
            ));
            continue;
        };
        let for_tests = *dev && ["test-support", "lab"].contains(&to.as_str());
        if from != to && !for_tests && !uses.contains(to.as_str()) {
            complaints.push(format!("{from} must not use {to} (see the table in ARCHITECTURE.md)"));
        }
    }
    complaints.dedup();
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: &str, to: &str, dev: bool) -> Arrow {
        Arrow { from: from.into(), to: to.into(), dev }
    }

    #[test]
    fn the_table_points_downwards() {
        assert_eq!(complaints(&[], TABLE), [""; 0]);
    }

    #[test]
    fn a_downward_arrow_and_a_transitive_one_are_fine() {
        let arrows = [arrow("placement", "topology", false), arrow("report", "types", false)];
        assert_eq!(complaints(&arrows, TABLE), [""; 0]);
    }

    #[test]
    fn an_upward_arrow_is_found() {
        assert_eq!(
            complaints(&[arrow("types", "cli", false)], TABLE),
            ["types must not use cli (see the table in ARCHITECTURE.md)"]
        );
    }

    #[test]
    fn a_sideways_arrow_is_found_in_tests_too() {
        assert_eq!(complaints(&[arrow("symbols", "profile", true)], TABLE).len(), 1);
    }

    #[test]
    fn test_support_is_for_tests_only() {
        assert_eq!(complaints(&[arrow("types", "test-support", true)], TABLE), [""; 0]);
        assert_eq!(complaints(&[arrow("types", "test-support", false)], TABLE).len(), 1);
        assert_eq!(complaints(&[arrow("types", "lab", true)], TABLE), [""; 0]);
        assert_eq!(complaints(&[arrow("types", "lab", false)], TABLE).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let found = complaints(&[arrow("newcomer", "newcomer", false)], TABLE);
        assert!(found[0].starts_with("crate newcomer is not in the table"), "{found:?}");
    }

    #[test]
    fn an_upward_row_in_the_table_is_found() {
        let table: &[Row] = &[("low", &["high"]), ("high", &[])];
        assert_eq!(complaints(&[], table), ["the table lets low use high, which is not below it"]);
    }

    #[test]
    fn metadata_becomes_arrows_under_short_names() {
        let metadata = serde_json::from_str(
            r#"{"packages": [{"name": "threadtalk", "dependencies": [
                {"name": "threadtalk-types", "kind": null, "path": "/x"},
                {"name": "threadtalk-test-support", "kind": "dev", "path": "/x"},
                {"name": "clap", "kind": null}]}]}"#,
        )
        .unwrap();
        assert_eq!(
            arrows(&metadata),
            [
                arrow("cli", "cli", false),
                arrow("cli", "types", false),
                arrow("cli", "test-support", true)
            ]
        );
    }
}
