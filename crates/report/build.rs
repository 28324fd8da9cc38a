//! Says in one sentence what to do when the report's page has not been built.

use std::path::Path;

fn main() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist/report.html");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", page.display());
    if !page.exists() {
        println!(
            "cargo::error=web/dist/report.html is missing: run `make build`, or `npm ci && npm run \
             build` in web/"
        );
    }
}
