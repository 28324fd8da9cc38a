//! The loop: keys, snapshots, screen. However it ends, the terminal is left as it was.

use crate::snapshot::Snapshot;
use crate::state::{State, Step, Wish};
use crate::view::{Look, draw};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use std::io;
use std::time::{Duration, Instant};

/// By then a source shows what it was asked for.
const SOON: Duration = Duration::from_millis(200);

/// Where snapshots come from.
pub trait Source {
    /// What is to be shown now.
    fn snapshot(&mut self) -> Snapshot;
    /// Forgets what has been seen so far.
    fn clear(&mut self);
    /// Shows another process, soon.
    fn choose(&mut self, step: Step);
    /// Whether the view is to end by itself.
    fn ended(&self) -> bool;
}

/// Why the view ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The reader wanted it.
    Quit,
    /// The source did.
    Source,
}

/// Shows the source's snapshots, a new one each `interval`, until a key or the source ends it.
///
/// # Errors
/// Those of the terminal.
pub fn run(source: &mut dyn Source, look: Look, interval: Duration) -> io::Result<Ended> {
    let mut terminal = ratatui::try_init()?;
    let ended = follow(&mut terminal, source, look, interval);
    ratatui::restore();
    ended
}

fn follow(
    terminal: &mut DefaultTerminal,
    source: &mut dyn Source,
    look: Look,
    interval: Duration,
) -> io::Result<Ended> {
    let mut state = State::default();
    let mut shown = source.snapshot();
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| draw(frame, &shown, &state, look))?;
        if source.ended() {
            return Ok(Ended::Source);
        }
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()? {
                match state.press(key) {
                    Wish::Redraw => {}
                    Wish::Quit => return Ok(Ended::Quit),
                    Wish::Clear => source.clear(),
                    Wish::Process(step) => {
                        source.choose(step);
                        next = next.min(Instant::now() + SOON);
                    }
                    Wish::Repaint => terminal.clear()?,
                }
            }
            continue;
        }
        // The source works on while its snapshots are not shown.
        let fresh = source.snapshot();
        if !state.paused {
            shown = fresh;
        }
        next = Instant::now() + interval;
    }
}
