//! Licences and sources of all libraries: what `cargo deny` would check, with nothing to install.

use serde::Deserialize;

/// Licences that allow what Threadtalk's own allows, by SPDX identifier.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// The registry that libraries come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The part of `cargo metadata` that is looked at.
#[derive(Deserialize)]
pub struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    /// `None` for packages that lie in a folder.
    source: Option<String>,
    manifest_path: String,
}

/// One sentence for each library with another licence or from another source. Our own packages lie
/// below `root`.
pub fn complaints(metadata: &Metadata, root: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in &metadata.packages {
        let name = &package.name;
        match package.source.as_deref() {
            Some(CRATES_IO) => {}
            None if package.manifest_path.starts_with(root) => {}
            other => complaints.push(format!(
                "{name} comes from {}; use a release from crates.io",
                other.unwrap_or(&package.manifest_path)
            )),
        }
        let licence = package.license.as_deref().unwrap_or_default();
        if !is_accepted(licence) {
            complaints.push(format!(
                "{name} has the licence '{licence}', which is not in xtask/src/licences.rs"
            ));
        }
    }
    complaints
}

/// Whether an SPDX expression can be met with accepted licences. Understands one level of brackets;
/// an expression that mixes AND and OR without them is refused.
fn is_accepted(expression: &str) -> bool {
    if expression.contains(" AND ") && expression.contains(" OR ") && !expression.contains('(') {
        return false;
    }
    // Old manifests write a slash for OR.
    let expression = expression.replace('/', " OR ");
    expression.split(" AND ").all(|part| {
        let part = part.trim().trim_start_matches('(').trim_end_matches(')');
        part.split(" OR ").any(|licence| ACCEPTED.contains(&licence.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(license: &str, source: Option<&str>, manifest_path: &str) -> Vec<String> {
        let package = Package {
            name: "x".into(),
            license: Some(license.into()),
            source: source.map(Into::into),
            manifest_path: manifest_path.into(),
        };
        complaints(&Metadata { packages: vec![package] }, "/tree")
    }

    #[test]
    fn expressions_are_understood() {
        for good in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR GPL-2.0) AND Unicode-3.0"]
        {
            assert!(is_accepted(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT OR GPL-3.0 AND GPL-2.0"] {
            assert!(!is_accepted(bad), "{bad}");
        }
    }

    #[test]
    fn other_licences_and_sources_are_refused() {
        assert_eq!(judge("MIT", Some(CRATES_IO), "/registry/x"), [""; 0]);
        assert_eq!(judge("MIT", None, "/tree/crates/x/Cargo.toml"), [""; 0]);
        assert_eq!(judge("GPL-3.0", Some(CRATES_IO), "/registry/x").len(), 1);
        assert_eq!(judge("MIT", Some("git+https://example.org/x"), "/git/x").len(), 1);
        assert_eq!(judge("MIT", None, "/elsewhere/Cargo.toml").len(), 1);
    }
}
