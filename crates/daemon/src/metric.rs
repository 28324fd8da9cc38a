//! Work that the application or its user tells: a number that grows with the work done, in a file
//! or printed by a command.

use crate::error::DaemonError;
use online::Work;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Least time between two readings of a file, and of a command.
const FILE_REST: Duration = Duration::from_millis(50);
const COMMAND_REST: Duration = Duration::from_millis(200);
/// What a command may cost: 1/`SHARE` of the time.
const SHARE: u32 = 20;

/// Where the number is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// In this file.
    File(PathBuf),
    /// This shell command prints it.
    Command(String),
}

/// Reads the number.
#[derive(Debug)]
pub struct Metric {
    source: Source,
    last: Option<(f64, Instant)>,
    next: Instant,
    /// A failure that may have to be told.
    failed: Option<DaemonError>,
    /// One has been told.
    told: bool,
}

impl Metric {
    /// Nothing is read yet.
    pub fn new(source: Source) -> Self {
        Self { source, last: None, next: Instant::now(), failed: None, told: false }
    }

    /// What was done since the last reading, if it is time at `now` and there is a number. A number
    /// that shrinks begins anew.
    pub fn look(&mut self, now: Instant) -> Option<Work> {
        if now < self.next {
            return None;
        }
        let read = match self.read() {
            Ok(read) => Some(read),
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        };
        let rest = match self.source {
            Source::File(_) => FILE_REST,
            Source::Command(_) => COMMAND_REST.max(now.elapsed() * SHARE),
        };
        self.next = now + rest;
        let (before, at) = self.last.replace((read?, now))?;
        let amount = read? - before;
        let ns = (now - at).as_nanos() as u64;
        (amount >= 0.0).then_some(Work { process: 0, amount, ns })
    }

    /// That the number could not be read, the first time that it could not.
    pub fn failure(&mut self) -> Option<DaemonError> {
        let failed = self.failed.take().filter(|_| !self.told);
        self.told |= failed.is_some();
        failed
    }

    /// The number now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self) -> Result<f64, DaemonError> {
        let (what, text) = match &self.source {
            Source::File(path) => {
                let what = path.display().to_string();
                (what.clone(), std::fs::read_to_string(path).map_err(|e| (what, e.to_string())))
            }
            Source::Command(command) => {
                let run = Command::new("/bin/sh")
                    .args(["-c", command])
                    .stdin(Stdio::null())
                    .stderr(Stdio::null())
                    .output();
                let text = run.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
                (command.clone(), text.map_err(|e| (command.clone(), e.to_string())))
            }
        };
        let text = text.map_err(|(what, why)| DaemonError::Metric { what, why })?;
        let number = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        number
            .filter(|number| number.is_finite())
            .ok_or_else(|| DaemonError::Metric { what, why: "it begins with no number".into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_work() {
        let scratch = test_support::Scratch::new();
        let path = scratch.join("count");
        std::fs::write(&path, "100 requests\n").unwrap();
        let mut metric = Metric::new(Source::File(path.clone()));
        let start = Instant::now();
        assert_eq!(metric.look(start), None);
        std::fs::write(&path, "130\n").unwrap();
        assert_eq!(metric.look(start + FILE_REST / 2), None, "too early");
        let work = metric.look(start + FILE_REST).unwrap();
        assert_eq!((work.amount, work.ns), (30.0, FILE_REST.as_nanos() as u64));
        std::fs::write(&path, "soon").unwrap();
        assert_eq!(metric.look(start + 2 * FILE_REST), None);
        assert!(metric.failure().unwrap().to_string().contains("begins with no number"));
        assert_eq!(metric.look(start + 9 * FILE_REST), None);
        assert!(metric.failure().is_none(), "it is told once");
        assert!(metric.read().unwrap_err().to_string().contains("begins with no number"));
        assert_eq!(Metric::new(Source::Command("echo 7.5".into())).read().unwrap(), 7.5);
        assert!(Metric::new(Source::Command("exit 1".into())).read().is_err());
    }
}
