//! A virtual NUMA machine for tests.
//!
//! QEMU emulates a machine with several nodes, and an unmodified Debian kernel boots in it with a
//! root file system that holds nothing but busybox and what the test brings. The test's script
//! runs, and its output, exit code and the files it leaves in `/out` come back. A boot takes about
//! five seconds.
//!
//! Everything that depends on where pages and threads are is real: nodes, distances, binding,
//! migration, NUMA balancing. Nothing that depends on time is: an emulated access takes the same
//! time on every node, and all of them take some thirty times longer than real ones. There are no
//! hardware counters.
//!
//! * [`machine`]: nodes, processors, distances, and QEMU's options for them;
//! * [`guest`]: the files that go in, and the run;
//! * [`inside`]: a test that runs itself in the guest;
//! * [`tools`]: QEMU, kernel and busybox, or what is missing;
//! * `archive`: the root file system as an archive that the kernel unpacks;
//! * `init.sh`: the guest's first process.
//!
//! By hand: `cargo run --release -p threadtalk-lab -- --nodes 4 -- COMMAND`. Neighbours: the
//! end-to-end tests in `virtual_numa.rs` use it; it uses `test-support`, and knows the product only
//! as files.

#![allow(missing_docs, reason = "used only here: no library for others")]

mod archive;
pub mod guest;
mod inside;
pub mod machine;
pub mod tools;

pub use guest::{Ended, Guest, LabError};
pub use inside::{can_boot, inside};
pub use machine::{Machine, Node};
pub use tools::{Missing, Tools};

/// Words as one command line for the guest's shell.
pub fn quoted<S: AsRef<str>>(words: &[S]) -> String {
    let quote = |word: &S| format!("'{}'", word.as_ref().replace('\'', r"'\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn quoted_words_reach_the_command_unchanged() {
        let words = ["printf", "%s|", "two words", "it's", "$HOME", ""];
        let run = test_support::Run::new("sh").args(["-c", &super::quoted(&words)]).run();
        assert_eq!(run.stdout_text(), "two words|it's|$HOME||");
    }
}
