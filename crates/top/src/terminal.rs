//! The loop: keys, snapshots, screen. However it ends, the terminal is left as it was.

use crate::keys::{Keys, Waited};
use crate::snapshot::Snapshot;
use crate::state::{State, Step, Wish};
use crate::view::{Look, draw};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Size;
use std::io;
use std::time::{Duration, Instant};

/// By then a source shows what it was asked for.
const SOON: Duration = Duration::from_millis(200);

/// Longest wait without a look at whether the source has ended and the terminal still has its size.
const LONGEST: Duration = Duration::from_millis(100);

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
    /// The terminal was closed.
    Closed,
}

/// Shows the source's snapshots, a new one each `interval`, until a key or the source ends it, or
/// the terminal is closed.
///
/// # Errors
/// Those of the terminal.
pub fn run(source: &mut dyn Source, look: Look, interval: Duration) -> io::Result<Ended> {
    let shown = ratatui::try_init().and_then(|mut terminal| {
        let shown = follow(&mut terminal, source, look, interval);
        // A terminal that is gone has no cursor, and being dropped it would complain of that.
        if terminal.show_cursor().is_err() {
            std::mem::forget(terminal);
        }
        shown
    });
    let _ = ratatui::try_restore();
    match shown {
        Err(_) if Keys::is_closed() => Ok(Ended::Closed),
        shown => shown,
    }
}

fn follow(
    terminal: &mut DefaultTerminal,
    source: &mut dyn Source,
    look: Look,
    interval: Duration,
) -> io::Result<Ended> {
    let mut state = State::default();
    let mut keys = Keys::default();
    let mut shown = source.snapshot();
    let mut next = Instant::now() + interval;
    loop {
        let drawn = terminal.draw(|frame| draw(frame, &shown, &state, look))?.area.as_size();
        match wait(terminal, source, &mut keys, drawn, next)? {
            Event::Key(key) => match state.press(key) {
                Wish::Redraw => {}
                Wish::Quit => return Ok(Ended::Quit),
                Wish::Clear => source.clear(),
                Wish::Process(step) => {
                    source.choose(step);
                    next = next.min(Instant::now() + SOON);
                }
                Wish::Repaint => terminal.clear()?,
            },
            Event::Resized => {}
            Event::Next => {
                // The source works on while its snapshots are not shown.
                let fresh = source.snapshot();
                if !state.paused {
                    shown = fresh;
                }
                next = Instant::now() + interval;
            }
            Event::Over(ended) => return Ok(ended),
        }
    }
}

/// What the loop has to do something about.
enum Event {
    Key(KeyEvent),
    Resized,
    /// The time for another snapshot.
    Next,
    Over(Ended),
}

/// Waits until `next` at the longest, with the screen drawn in this size.
fn wait(
    terminal: &DefaultTerminal,
    source: &dyn Source,
    keys: &mut Keys,
    drawn: Size,
    next: Instant,
) -> io::Result<Event> {
    loop {
        if source.ended() {
            return Ok(Event::Over(Ended::Source));
        }
        let left = next.saturating_duration_since(Instant::now());
        match keys.wait(left.min(LONGEST))? {
            Waited::Key(key) => return Ok(Event::Key(key)),
            Waited::Closed => return Ok(Event::Over(Ended::Closed)),
            Waited::Nothing if left.is_zero() => return Ok(Event::Next),
            Waited::Nothing if terminal.size()? != drawn => return Ok(Event::Resized),
            Waited::Nothing => {}
        }
    }
}
