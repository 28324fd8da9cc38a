//! The ways in which a program is run: natively, and recorded with more or less counted.

use std::path::Path;
use test_support::{Run, Threadtalk, paths};

/// A way to run a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Native,
    /// Sampled, at the default rate.
    Sampled,
    /// The same, without following what the program allocates.
    SampledNoObjects,
    /// Sampled from inside, with debug registers.
    Watched,
    /// Recorded, but nothing counted.
    Translate,
    /// The communication matrices.
    Matrix,
    /// Matrices, sharing, lines and code sites: what `threadtalk record --exact` does, with code
    /// that earlier runs of the benchmark have translated.
    Detail,
    /// As `Detail`, without following what the program allocates.
    NoObjects,
    /// As `Detail`, with accesses counted by page.
    Pages,
    /// In windows: as `threadtalk record` does unless told otherwise, or with what sets the dial.
    Windows(&'static [&'static str]),
    /// As `Detail`, with all code translated anew.
    NoStore,
    /// As `Detail`, with an empty store of translated code: all code is translated, and kept.
    FirstTime,
    /// As `Detail`, with these engine optimisations switched off.
    Without(u32),
}

/// Optimisations of the engine, with their bits in `THREADTALK_DISABLE` (crate `engine`,
/// `options.rs`).
pub const OPTIMISATIONS: &[(&str, u32)] = &[
    ("liveness", 1),
    ("merge", 2),
    ("group", 4),
    ("hoist", 8),
    ("loops", 16),
    ("tallies", 32),
    ("park", 256),
    ("sites", 512),
    ("beside", 1024),
    ("entries", 2048),
    ("at once", 4096),
    ("all of them", 1 | 2 | 4 | 8 | 16 | 32 | 256 | 512 | 1024 | 2048 | 4096),
];

impl Mode {
    /// The command `program ARGUMENTS…` in this mode; `wrapper` goes before everything.
    pub fn run(
        self,
        wrapper: &[String],
        program: &Path,
        arguments: &[String],
        profile: &Path,
    ) -> Run {
        let mut words: Vec<std::ffi::OsString> = wrapper.iter().map(Into::into).collect();
        if self != Mode::Native {
            words.push(paths::release().join("threadtalk").into());
            words.extend(["record", "--force", "-o"].map(Into::into));
            words.push(profile.into());
            words.extend(self.options().iter().map(Into::into));
            words.push("--".into());
        }
        words.push(program.into());
        words.extend(arguments.iter().map(Into::into));
        let mut run = Run::new(&words[0]).args(&words[1..]).env("NO_COLOR", "1");
        for (name, value) in self.environment() {
            run = run.env(name, value);
        }
        if self == Mode::FirstTime {
            let cache = profile.with_file_name("empty-cache");
            let _ = std::fs::remove_dir_all(&cache);
            run = run.env("XDG_CACHE_HOME", cache);
        }
        run
    }

    fn options(self) -> Vec<&'static str> {
        match self {
            Mode::Sampled => vec!["--sample"],
            Mode::SampledNoObjects => vec!["--sample", "--no-objects"],
            Mode::Watched => vec!["--sample", "--watch"],
            Mode::Windows(dial) => dial.to_vec(),
            Mode::Matrix => vec!["--exact", "--matrix"],
            Mode::NoObjects => vec!["--exact", "--no-objects"],
            Mode::Pages => vec!["--exact", "--pages"],
            Mode::NoStore => vec!["--exact", "--no-code-cache"],
            _ => vec!["--exact"],
        }
    }

    fn environment(self) -> Vec<(&'static str, String)> {
        match self {
            Mode::Translate => vec![("THREADTALK_COUNT", "0".into())],
            Mode::Without(bits) => vec![("THREADTALK_DISABLE", bits.to_string())],
            _ => Vec::new(),
        }
    }
}

/// Panics, saying so, when the binary is not there.
pub fn check_built() {
    Threadtalk::built();
}
