//! What profiles say about how they were sampled: processor time, yield, losses.
//!
//! Read from `profile.json`, as any user may; `overhead` makes its table of it.

use anyhow::Context;
use serde_json::Value;
use std::path::Path;

/// One recording, with all its processes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Told {
    /// User plus system time of the program, without the recorder, seconds.
    pub program_cpu: f64,
    pub wall: f64,
    /// Processor time of reading samples, seconds.
    pub reader_cpu: f64,
    pub samples: u64,
    /// Samples whose access was found.
    pub decoded: u64,
    pub hits: u64,
    /// Records that were lost.
    pub lost: u64,
}

impl Told {
    /// Reads a profile with those of its children.
    pub fn read(profile: &Path) -> anyhow::Result<Self> {
        let meta = meta(profile)?;
        let number = |value: &Value, name: &str| {
            value[name].as_f64().with_context(|| format!("{} lacks {name}", profile.display()))
        };
        let sampled = &meta["sampled"];
        let mut told = Self {
            program_cpu: number(&meta, "cpu_seconds")?,
            wall: number(&meta, "wall_seconds")?,
            reader_cpu: number(sampled, "reader_seconds")?,
            lost: number(sampled, "lost")? as u64,
            ..Self::default()
        };
        told.add(sampled)?;
        for process in meta["processes"].as_array().into_iter().flatten() {
            if let Some(folder) = process["profile"].as_str() {
                told.add(&self::meta(&profile.join(folder))?["sampled"])?;
            }
        }
        Ok(told)
    }

    fn add(&mut self, sampled: &Value) -> anyhow::Result<()> {
        let number = |name: &str| sampled[name].as_u64().with_context(|| format!("no {name}"));
        self.samples += number("samples")?;
        self.decoded += number("decoded")?;
        self.hits += number("hits")?;
        Ok(())
    }

    /// Part of one processor that reading took.
    pub fn reader_share(&self) -> f64 {
        self.reader_cpu / self.wall.max(1e-3)
    }
}

fn meta(profile: &Path) -> anyhow::Result<Value> {
    let file = profile.join("profile.json");
    let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
    serde_json::from_slice(&bytes).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_count_too() {
        let scratch = test_support::Scratch::new();
        let child = scratch.path().join("processes/1-cc1.tt");
        std::fs::create_dir_all(&child).unwrap();
        let write = |folder: &Path, text: &str| {
            std::fs::write(folder.join("profile.json"), text).unwrap();
        };
        write(
            scratch.path(),
            r#"{"cpu_seconds": 1.5, "wall_seconds": 2.0,
                "sampled": {"samples": 90, "decoded": 60, "hits": 2, "lost": 5, "reader_seconds": 0.01},
                "processes": [{"profile": "processes/1-cc1.tt"}, {"profile": null}]}"#,
        );
        write(&child, r#"{"sampled": {"samples": 10, "decoded": 5, "hits": 0, "lost": 5}}"#);
        let told = Told::read(scratch.path()).unwrap();
        assert_eq!((told.samples, told.decoded, told.hits, told.lost), (100, 65, 2, 5));
        assert_eq!(told.reader_share(), 0.005);
    }
}
