//! Progress of what takes more than two seconds, on standard error.
//!
//! On a terminal it is a line that is redrawn and vanishes; elsewhere a few plain lines. Nothing is
//! drawn while a recorded program may write to the same terminal: there `record --progress` prints
//! plain lines, and without that option nothing. Neighbours: `family` reads, `verbs/record.rs`
//! records, `verbs/tune.rs` and `verbs/topo/measure.rs` count steps.

use crate::said::{say, several};
use indicatif::{ProgressBar, ProgressStyle};
use recorder::progress::Look;
use recorder::signals;
use std::cell::{Cell, OnceCell};
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use types::numbers::grouped;

/// What takes less time shows no progress.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two plain lines.
const PLAIN: Duration = Duration::from_secs(10);
/// Time between two drawings.
const TICK: Duration = Duration::from_millis(200);

/// Something whose end cannot be foreseen. Shown until this is dropped.
pub struct Waiting {
    /// Gone when it is over.
    over: Option<Sender<()>>,
    shows: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Says after a while what is waited for, like "reading app.tt".
    pub fn new(what: String) -> Self {
        let (over, is_over) = channel();
        // Signals that may end us are for the thread that holds them back while it writes.
        let shows = signals::held(|| std::thread::spawn(move || show(&what, &is_over)));
        Self { over: Some(over), shows: Some(shows) }
    }
}

fn show(what: &str, over: &Receiver<()>) {
    if over.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    if !stderr().is_terminal() {
        return say(what);
    }
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
    let spinner = ProgressBar::new_spinner().with_elapsed(PATIENCE).with_message(what.to_owned());
    spinner.set_style(style.expect("a valid template"));
    while over.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        spinner.tick();
    }
    spinner.finish_and_clear();
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(shows) = self.shows.take() {
            // A panic there has been printed; progress is not worth another one.
            let _ = shows.join();
        }
    }
}

/// Something that is waited for after something else, at a time that a callback says.
pub struct Later {
    what: &'static str,
    waiting: OnceCell<Waiting>,
}

impl Later {
    /// What is to be waited for.
    pub fn new(what: &'static str) -> Self {
        Self { what, waiting: OnceCell::new() }
    }

    /// It begins now. It ends when this is dropped.
    pub fn begin(&self) {
        self.waiting.get_or_init(|| Waiting::new(self.what.into()));
    }
}

/// Steps, none of which writes to the terminal: how many are done of those planned.
pub struct Steps {
    /// What they are, in the plural.
    what: &'static str,
    bar: Option<ProgressBar>,
    began: Instant,
    told: Cell<Duration>,
    done: Cell<u64>,
    planned: Cell<u64>,
}

impl Steps {
    /// With one step planned. `what` are they, in the plural?
    pub fn new(what: &'static str) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos} of {len} {msg} ({elapsed})");
            ProgressBar::new(1).with_style(style.expect("a valid template")).with_message(what)
        });
        let (told, done, planned) = (Cell::default(), Cell::new(0), Cell::new(1));
        Self { what, bar, began: Instant::now(), told, done, planned }
    }

    /// Adds runs to those that are to come.
    pub fn plan(&self, more: usize) {
        self.planned.set(self.planned.get() + more as u64);
    }

    /// `done` steps of `planned` are done.
    pub fn reached(&self, done: usize, planned: usize) {
        self.planned.set(planned as u64);
        self.done.set(done as u64);
        self.show();
    }

    /// One more step is done.
    pub fn did_one(&self) {
        self.done.set(self.done.get() + 1);
        self.show();
    }

    fn show(&self) {
        let elapsed = self.began.elapsed();
        match &self.bar {
            Some(bar) if elapsed >= PATIENCE => {
                bar.set_length(self.planned.get());
                bar.set_position(self.done.get());
            }
            Some(_) => {}
            None => {
                if let Some(line) = self.line(elapsed) {
                    say(&line);
                }
            }
        }
    }

    /// The plain line, if one is due.
    fn line(&self, elapsed: Duration) -> Option<String> {
        let (done, planned) = (self.done.get(), self.planned.get());
        let due = if self.told.get().is_zero() { PATIENCE } else { self.told.get() + PLAIN };
        if elapsed < due || done == planned {
            return None;
        }
        self.told.set(elapsed);
        Some(format!("{done} of {planned} {} done after {} s", self.what, elapsed.as_secs()))
    }

    /// A line that stays.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) if bar.position() > 0 => bar.suspend(|| say(text)),
            _ => say(text),
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A plain line about an exact recording.
pub fn recording(look: &Look) -> String {
    format!(
        "recording for {:.1} s: {}, {} events, {} MiB of counts",
        look.elapsed.as_secs_f64(),
        several(look.threads as usize, "thread"),
        grouped(look.events),
        look.bytes.div_ceil(1 << 20),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_rare() {
        let runs = Steps {
            what: "runs",
            bar: None,
            began: Instant::now(),
            told: Cell::default(),
            done: Cell::new(3),
            planned: Cell::new(1),
        };
        runs.plan(12);
        let line = |seconds| runs.line(Duration::from_secs(seconds));
        assert_eq!(line(1), None);
        assert_eq!(line(2).unwrap(), "3 of 13 runs done after 2 s");
        assert_eq!(line(11), None);
        runs.done.set(4);
        assert_eq!(line(12).unwrap(), "4 of 13 runs done after 12 s");
        runs.done.set(13);
        assert_eq!(line(60), None, "what follows says that all is done");
    }
}
