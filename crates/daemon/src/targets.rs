//! Which processes are looked after: a program that we started, some processes, all of a cgroup, or
//! all of a user that are worth it; and what they start.

use crate::error::DaemonError;
use crate::processes::{self, Stat};
use crate::status;
use recorder::clock::cpu_time;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two looks for new processes.
const LOOK: Duration = Duration::from_millis(250);
/// What looking may cost: 1/`SHARE` of a processor.
const SHARE: u32 = 500;
/// A process of a user is worth it from this age on, and from this processor time on, ns.
const MIN_AGE_NS: u64 = 1_000_000_000;
const MIN_RAN_NS: u64 = 300_000_000;
/// Most processes that are looked after.
const MAX_PROCESSES: usize = 1024;

/// What the user asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// These processes.
    Processes(Vec<u32>),
    /// Those of a cgroup and the cgroups below, by the path under /sys/fs/cgroup or a full one.
    Cgroup(PathBuf),
    /// Those of a user.
    User(u32),
    /// Those of all users; the kernel's threads and our own process never count.
    Everyone,
}

impl Wanted {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Processes(pids) if pids.len() == 1 => {
                format!("process {} ({})", pids[0], processes::command_of(pids[0]))
            }
            Self::Processes(pids) => {
                let list: Vec<String> = pids.iter().map(u32::to_string).collect();
                format!("processes {}", list.join(", "))
            }
            Self::Cgroup(path) => format!("cgroup {}", path.display()),
            Self::User(user) => format!("user {user}"),
            Self::Everyone => "all users".into(),
        }
    }
}

/// The processes that are looked after.
#[derive(Debug)]
pub struct Targets {
    wanted: Wanted,
    /// By number, with the time of their start.
    there: BTreeMap<u32, u64>,
    next: Instant,
}

impl Targets {
    /// Finds them for the first time.
    ///
    /// # Errors
    /// When one that was named is not there or not a program's, or there is no such cgroup.
    pub fn new(wanted: Wanted) -> Result<Self, DaemonError> {
        if let Wanted::Processes(pids) = &wanted {
            pids.iter().try_for_each(|&pid| check(pid))?;
        }
        let wanted = match wanted {
            Wanted::Cgroup(path) => Wanted::Cgroup(cgroup(&path)?),
            wanted => wanted,
        };
        let mut targets = Self { wanted, there: BTreeMap::new(), next: Instant::now() };
        targets.refresh();
        Ok(targets)
    }

    /// Looks for new processes, if it is time.
    pub fn refresh(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        let before = cpu_time();
        self.there.retain(|&pid, started| {
            Stat::of(pid, pid).is_some_and(|stat| stat.started == *started && stat.lives())
        });
        match &self.wanted {
            Wanted::Processes(pids) => {
                let roots: Vec<u32> = match self.there.is_empty() {
                    true => pids.clone(),
                    false => self.there.keys().copied().collect(),
                };
                self.add(roots.iter().copied());
                self.add(descendants(&roots).into_iter());
            }
            Wanted::Cgroup(path) => {
                let mut found = BTreeSet::new();
                members(path, &mut found);
                self.add_unless_of_others(found.into_iter().collect());
            }
            Wanted::User(user) => {
                let theirs = |pid| processes::user_of(pid) == Some(*user);
                self.add_unless_of_others(self.new_ones(theirs));
            }
            Wanted::Everyone => self.add_unless_of_others(self.new_ones(|_| true)),
        }
        self.next = Instant::now() + LOOK.max(cpu_time().saturating_sub(before) * SHARE);
    }

    /// Processes that are worth it and not known yet.
    fn new_ones(&self, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
        let new = |pid: &u32| !self.there.contains_key(pid) && wanted(*pid) && is_worth_it(*pid);
        processes::all().into_iter().filter(new).collect()
    }

    /// Adds processes, but not those that another daemon looks after because they were named or
    /// started there.
    fn add_unless_of_others(&mut self, pids: Vec<u32>) {
        if pids.iter().all(|pid| self.there.contains_key(pid)) {
            return;
        }
        let others = named_elsewhere();
        self.add(pids.into_iter().filter(|pid| !others.contains(pid)));
    }

    fn add(&mut self, pids: impl Iterator<Item = u32>) {
        for pid in pids {
            if self.there.len() >= MAX_PROCESSES || pid == std::process::id() {
                continue;
            }
            if let Some(stat) = Stat::of(pid, pid).filter(|stat| stat.lives() && !stat.kernels) {
                self.there.entry(pid).or_insert(stat.started);
            }
        }
    }

    /// What was asked for.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The processes that are there.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.there.keys().copied()
    }

    /// Whether no more can come: all that were named are gone, and what they started.
    pub fn is_over(&self) -> bool {
        matches!(self.wanted, Wanted::Processes(_)) && self.there.is_empty()
    }
}

/// Whether a process can be looked after.
fn check(pid: u32) -> Result<(), DaemonError> {
    if pid == std::process::id() {
        return Err(DaemonError::Ourselves);
    }
    match (Stat::of(pid, pid), processes::process_of(pid)) {
        (Some(stat), _) if stat.kernels => Err(DaemonError::Kernels { pid, name: stat.name }),
        // A thread has a folder in /proc, too.
        (Some(_), Some(process)) if process != pid => Err(DaemonError::Thread { pid, process }),
        (Some(stat), _) if stat.lives() => Ok(()),
        _ => Err(DaemonError::NoProcess { pid }),
    }
}

/// Processes that other daemons have started or were told to look after, and their descendants.
fn named_elsewhere() -> BTreeSet<u32> {
    let own = std::process::id();
    let others = status::all().into_iter().filter(|other| other.pid != own);
    let others = others.filter(|other| !other.service && !other.dry);
    let roots: Vec<u32> = others.flat_map(|other| other.pids).collect();
    match roots.is_empty() {
        true => BTreeSet::new(),
        false => descendants(&roots).into_iter().chain(roots).collect(),
    }
}

/// The folder of a cgroup.
fn cgroup(path: &Path) -> Result<PathBuf, DaemonError> {
    const ROOT: &str = "/sys/fs/cgroup";
    let under_root = Path::new(ROOT).join(path.strip_prefix("/").unwrap_or(path));
    let found = [path.to_path_buf(), under_root];
    let found = found.into_iter().find(|path| path.join("cgroup.procs").exists());
    found.ok_or_else(|| DaemonError::NoCgroup { path: path.into() })
}

fn members(folder: &Path, found: &mut BTreeSet<u32>) {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid > 0));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            members(&entry.path(), found);
        }
    }
}

/// All that were started by these, directly or not.
fn descendants(roots: &[u32]) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in processes::all() {
        if let Some(stat) = Stat::of(pid, pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let (mut found, mut next) = (BTreeSet::new(), roots.to_vec());
    while let Some(pid) = next.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            if found.insert(child) {
                next.push(child);
            }
        }
    }
    found.into_iter().collect()
}

/// Whether a process lives long enough, and computes enough, to be looked after without being asked
/// for.
fn is_worth_it(pid: u32) -> bool {
    let Some(stat) = Stat::of(pid, pid).filter(|stat| !stat.kernels && stat.lives()) else {
        return false;
    };
    let age = processes::uptime_ns().saturating_sub(stat.started * processes::tick_ns());
    age >= MIN_AGE_NS && process_ran_ns(pid) >= MIN_RAN_NS
}

/// Processor time of a process, ns.
fn process_ran_ns(pid: u32) -> u64 {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid places for a clock's number and a time.
    let ok = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    if ok { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn what_cannot_be_looked_after_is_refused() {
        let refused = |pid| Targets::new(Wanted::Processes(vec![pid])).unwrap_err();
        assert!(matches!(refused(std::process::id()), DaemonError::Ourselves));
        assert!(matches!(refused(u32::MAX / 2), DaemonError::NoProcess { .. }));
        if Stat::of(2, 2).is_some_and(|stat| stat.kernels) {
            assert!(matches!(refused(2), DaemonError::Kernels { .. }));
        }
        let none = Targets::new(Wanted::Cgroup("/no/such/group".into())).unwrap_err();
        assert!(matches!(none, DaemonError::NoCgroup { .. }));
    }

    #[test]
    fn children_are_found_and_ends_noticed() {
        let script = "sleep 30 & wait";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap();
        let mut targets = Targets::new(Wanted::Processes(vec![shell.id()])).unwrap();
        let child = (0..500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            targets.refresh();
            targets.pids().find(|pid| *pid != shell.id())
        });
        let child = child.expect("the shell has started a process");
        // SAFETY: a process of this test.
        unsafe { libc::kill(child as i32, libc::SIGKILL) };
        shell.wait().unwrap();
        let over = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            targets.refresh();
            targets.is_over()
        });
        assert!(over);
    }

    #[test]
    fn short_processes_of_a_user_are_not_looked_after() {
        let mut shell = Command::new("sleep").arg("5").spawn().unwrap();
        // SAFETY: no preconditions.
        let targets = Targets::new(Wanted::User(unsafe { libc::geteuid() })).unwrap();
        assert!(!targets.pids().any(|pid| pid == shell.id()));
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
}
