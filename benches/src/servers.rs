//! Servers: recorded while a client that is not recorded asks a fixed amount of them.
//!
//! Only the server's CPU time counts, and beside it how long clients wait for answers. Both listen
//! on sockets in a folder of their own, so that nothing on the machine is in the way.

use crate::inputs;
use crate::mode::Mode;
use crate::rows::{LIMIT, PROFILE, Row, Work};
use anyhow::{Context, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use test_support::{Outcome, Run, probe};

/// A program that serves until it is told to end.
pub trait Server {
    /// Makes ready what all runs use; the reason when it cannot run here.
    fn prepare(&mut self) -> anyhow::Result<Result<(), String>>;

    /// Where recorded runs write the profile.
    fn profile(&self, scratch: &Path) -> PathBuf {
        scratch.join(PROFILE)
    }

    /// Starts the server in a mode, has the client ask, ends the server. The time in which 99 of
    /// 100 requests were answered comes with it, milliseconds.
    fn run(&self, mode: Mode, scratch: &Path) -> anyhow::Result<(Outcome, f64)>;
}

/// The servers, each asked for about a second natively.
pub fn rows(threads: usize) -> Vec<Row> {
    long_rows(threads, 1)
}

/// The same, asked `times` as much.
pub fn long_rows(threads: usize, times: usize) -> Vec<Row> {
    let row = |name: &str, why, server| Row {
        name: name.into(),
        why,
        repeat: 1,
        work: Work::Server(server),
    };
    vec![
        row(
            "redis-server",
            "I/O threads, hash tables",
            Box::new(Redis { threads, requests: 60_000 * times }),
        ),
        row("postgresql", "processes, shared memory", Box::new(Postgresql::new(1000 * times))),
    ]
}

/// Calls `ready` until it says so, for at most half a minute.
fn wait_until(ready: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if ready() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

fn succeeds(run: Run) -> bool {
    run.timeout(LIMIT).run().exit_code == Some(0)
}

/// redis-server with I/O threads under redis-benchmark.
struct Redis {
    threads: usize,
    /// Of each kind.
    requests: usize,
}

impl Server for Redis {
    fn prepare(&mut self) -> anyhow::Result<Result<(), String>> {
        let missing = ["redis-server", "redis-benchmark", "redis-cli"]
            .into_iter()
            .find(|c| probe::command(c).is_none());
        Ok(missing.map_or(Ok(()), |command| Err(format!("no {command} here"))))
    }

    fn run(&self, mode: Mode, scratch: &Path) -> anyhow::Result<(Outcome, f64)> {
        let folder = inputs::fresh_folder(scratch, "redis")?;
        let socket = folder.join("socket").to_string_lossy().into_owned();
        let threads = self.threads.max(2).to_string();
        let words = [
            "--port",
            "0",
            "--unixsocket",
            &socket,
            "--save",
            "",
            "--io-threads",
            &threads,
            "--io-threads-do-reads",
            "yes",
            "--daemonize",
            "no",
        ];
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let program = probe::command("redis-server").expect("prepared");
        let server = mode.run(&[], &program, &words, &self.profile(scratch));
        let ask = |arguments: &[&str]| Run::new("redis-cli").args(["-s", &socket]).args(arguments);
        let (mut served, mut waited) = (false, None);
        let requests = self.requests.to_string();
        let outcome = server.directory(&folder).timeout(LIMIT).run_meanwhile(|_| {
            let load = [
                "--csv",
                "-n",
                &requests,
                "-c",
                "20",
                "-P",
                "4",
                "-r",
                "10000",
                "-t",
                "set,get,lpush,zadd",
            ];
            if wait_until(|| succeeds(ask(&["ping"]))) {
                let load = Run::new("redis-benchmark").args(["-s", &socket]).args(load);
                let asked = load.timeout(LIMIT).run();
                served = asked.exit_code == Some(0);
                waited = slowest_of_table(&asked.stdout_text());
            }
            ask(&["shutdown", "nosave"]).run();
        });
        ensure!(served, "redis-server does not serve\n{outcome}");
        Ok((outcome, waited.context("redis-benchmark says no latencies")?))
    }
}

/// The largest 99th percentile in redis-benchmark's table.
fn slowest_of_table(csv: &str) -> Option<f64> {
    let field = |text: &str| text.trim_matches('"').to_string();
    let mut lines = csv.lines().map(|line| line.split(',').map(field).collect::<Vec<_>>());
    let column = lines.next()?.iter().position(|name| name == "p99_latency_ms")?;
    let times = lines.filter_map(|line| line.get(column)?.parse::<f64>().ok());
    times.max_by(f64::total_cmp)
}

/// The 99th percentile of pgbench's logs in a folder, which it removes: the third word of a line is
/// the time of a transaction, microseconds.
fn slowest_of_logs(folder: &Path) -> Option<f64> {
    let mut times: Vec<f64> = Vec::new();
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("pgbench_log.") {
            let text = std::fs::read_to_string(entry.path()).ok()?;
            times.extend(text.lines().filter_map(|l| l.split(' ').nth(2)?.parse::<f64>().ok()));
            std::fs::remove_file(entry.path()).ok()?;
        }
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() * 99 / 100).map(|time| time / 1000.0)
}

/// PostgreSQL under pgbench: one process for each connection.
struct Postgresql {
    /// Folder of the newest version's programs.
    programs: PathBuf,
    /// What makes a command run as an ordinary user: PostgreSQL refuses to be root.
    wrapper: Vec<String>,
    /// Folder of ours for the database, its socket and profiles.
    base: PathBuf,
    /// Of each of four clients.
    transactions: usize,
}

impl Postgresql {
    fn new(transactions: usize) -> Self {
        let (programs, base) = (PathBuf::new(), PathBuf::new());
        Self { programs, wrapper: Vec::new(), base, transactions }
    }

    fn command(&self, name: &str) -> Run {
        let program = self.programs.join(name);
        match self.wrapper.split_first() {
            Some((first, rest)) => Run::new(first).args(rest).arg(program),
            None => Run::new(program),
        }
    }

    fn data(&self) -> String {
        self.base.join("data").to_string_lossy().into_owned()
    }

    /// Starts the server in a mode and lets `client` ask it, then ends it.
    fn serve(&self, mode: Mode, client: impl FnOnce() -> bool) -> anyhow::Result<Outcome> {
        let data = self.data();
        let words = ["-D", &data, "-k", &data, "-c", "listen_addresses=", "-c", "fsync=off"];
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let program = self.programs.join("postgres");
        let server = mode.run(&self.wrapper, &program, &words, &self.base.join(PROFILE));
        // What recordings keep must be the user's own.
        let server = server.env("XDG_CACHE_HOME", self.base.join("cache").as_os_str());
        let mut served = false;
        let outcome = server.directory(&self.base).timeout(LIMIT).run_meanwhile(|_| {
            let ready = || succeeds(self.command("pg_isready").args(["-q", "-h", &data]));
            served = wait_until(ready) && client();
            self.command("pg_ctl").args(["stop", "-s", "-m", "fast", "-D", &data]).run();
        });
        ensure!(served, "PostgreSQL does not serve\n{outcome}");
        Ok(outcome)
    }

    fn load(&self) -> bool {
        let each = self.transactions.to_string();
        succeeds(self.client(&["-n", "-l", "-c", "4", "-j", "2", "-t", &each]))
    }

    fn client(&self, arguments: &[&str]) -> Run {
        let run = self.command("pgbench").args(["-h", &self.data(), "-U", USER]);
        run.args(arguments).arg("postgres").directory(&self.base)
    }
}

/// Name of the database's owner.
const USER: &str = "bench";

impl Server for Postgresql {
    fn prepare(&mut self) -> anyhow::Result<Result<(), String>> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let Some(newest) = versions.map(|entry| entry.path()).max() else {
            return Ok(Err("no PostgreSQL here".into()));
        };
        self.programs = newest.join("bin");
        if !self.programs.join("postgres").exists() || !self.programs.join("pgbench").exists() {
            return Ok(Err("no PostgreSQL server here".into()));
        }
        if probe::is_root() {
            if probe::command("setpriv").is_none() {
                return Ok(Err("PostgreSQL refuses to be root, and there is no setpriv".into()));
            }
            // The unprivileged user.
            let words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
            self.wrapper = words.map(Into::into).to_vec();
        }
        // Sockets have short paths, and that user may not look into every user's folders.
        let name = format!("threadtalk-bench-{}", std::process::id());
        self.base = inputs::fresh_folder(&std::env::temp_dir(), &name)?;
        std::fs::set_permissions(&self.base, std::fs::Permissions::from_mode(0o777))?;
        let data = self.data();
        let init = ["-N", "-A", "trust", "-E", "UTF8", "--locale=C", "-U", USER, "-D", &data];
        let outcome = self.command("initdb").args(init).directory(&self.base).run();
        if outcome.exit_code != Some(0) {
            return Ok(Err(format!("initdb fails: {}", outcome.stderr_text().trim())));
        }
        self.serve(Mode::Native, || succeeds(self.client(&["-i", "-q", "-s", "2"])))?;
        // As other programs' code, this one's has been translated by earlier runs.
        for mode in [Mode::Translate, Mode::Matrix, Mode::Detail] {
            self.serve(mode, || self.load())?;
        }
        Ok(Ok(()))
    }

    /// An ordinary user may not write everywhere.
    fn profile(&self, _scratch: &Path) -> PathBuf {
        self.base.join(PROFILE)
    }

    fn run(&self, mode: Mode, _scratch: &Path) -> anyhow::Result<(Outcome, f64)> {
        slowest_of_logs(&self.base); // Of runs that were not measured.
        let outcome = self.serve(mode, || self.load())?;
        Ok((outcome, slowest_of_logs(&self.base).context("pgbench has no logs")?))
    }
}

impl Drop for Postgresql {
    fn drop(&mut self) {
        if !self.base.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_percent_is_found() {
        let csv = "\"test\",\"rps\",\"p99_latency_ms\"\n\"SET\",\"9.5\",\"0.5\"\n\"GET\",\"8\",\"0.75\"\n";
        assert_eq!(slowest_of_table(csv), Some(0.75));
        assert_eq!(slowest_of_table("nothing"), None);
        let scratch = test_support::Scratch::new();
        let line = |k: u32| format!("0 {k} {} 0 1600000000 1\n", 1000 * k);
        let lines: String = (0..200).map(line).collect();
        std::fs::write(scratch.join("pgbench_log.5.1"), lines).unwrap();
        assert_eq!(slowest_of_logs(scratch.path()), Some(198.0));
        assert_eq!(slowest_of_logs(scratch.path()), None);
    }
}
