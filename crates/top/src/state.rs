//! What the reader has chosen, and how keys change it. Pure.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What fills the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tab {
    /// A summary.
    Overview,
    /// The communication matrix.
    Matrix,
    /// Hot lines.
    Lines,
    /// Threads.
    Threads,
    /// Levels of the machine.
    Levels,
    /// Processes.
    Processes,
    /// What `threadtalk auto` does.
    Placing,
    /// What keys do.
    Help,
}

impl Tab {
    /// In the order of their keys, 1 to 7.
    pub const NUMBERED: [Self; 7] = [
        Self::Overview,
        Self::Matrix,
        Self::Lines,
        Self::Threads,
        Self::Levels,
        Self::Processes,
        Self::Placing,
    ];

    fn next(self) -> Self {
        let at = Self::NUMBERED.iter().position(|tab| *tab == self);
        at.map_or(Self::Overview, |at| Self::NUMBERED[(at + 1) % Self::NUMBERED.len()])
    }
}

/// The order of threads, in the matrix too. Lines and pairs are always ordered by rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// Most communication first.
    Talk,
    /// In the order of their start.
    Id,
    /// Most CPU time first.
    Busy,
    /// By name.
    Name,
}

impl Sort {
    /// All orders, in the order in which a key goes through them.
    pub const ALL: [Self; 4] = [Self::Talk, Self::Id, Self::Busy, Self::Name];

    /// As the view shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Talk => "talk",
            Self::Id => "id",
            Self::Busy => "cpu",
            Self::Name => "name",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// What a key asks of the code that runs the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Nothing, but the screen may have changed.
    Redraw,
    /// The view ends.
    Quit,
    /// Forget what has been seen so far.
    Clear,
    /// Make the terminal anew.
    Repaint,
    /// Show another process.
    Process(Step),
}

/// Which of several processes is to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The next one.
    Next,
    /// The previous one.
    Previous,
    /// Always the one that talks most.
    Most,
}

/// What the reader has chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// What fills the screen.
    pub tab: Tab,
    /// The order of threads.
    pub sort: Sort,
    /// Whether that order is reversed.
    pub reversed: bool,
    /// Snapshots that come are not shown.
    pub paused: bool,
    /// Only threads, lines and code whose text has this, without regard to case.
    pub filter: String,
    /// The filter is being typed; Escape brings the former one back.
    pub typing: Option<String>,
    /// First row shown of a table that is longer than the screen.
    pub scroll: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            tab: Tab::Overview,
            sort: Sort::Talk,
            reversed: false,
            paused: false,
            filter: String::new(),
            typing: None,
            scroll: 0,
        }
    }
}

impl State {
    /// Follows a key.
    pub fn press(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Redraw;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Wish::Quit,
                KeyCode::Char('l') => Wish::Repaint,
                _ => Wish::Redraw,
            };
        }
        if self.typing.is_some() {
            self.type_filter(key.code);
            return Wish::Redraw;
        }
        self.command(key.code)
    }

    fn command(&mut self, code: KeyCode) -> Wish {
        match code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('c') => return Wish::Clear,
            KeyCode::Char('n') => return self.step(Step::Next),
            KeyCode::Char('N') => return self.step(Step::Previous),
            KeyCode::Char('m') => return self.step(Step::Most),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/' | 'f') => {
                self.typing = Some(std::mem::take(&mut self.filter));
                self.scroll = 0;
            }
            KeyCode::Char('?' | 'h') => self.show(Tab::Help),
            KeyCode::Char(digit @ '1'..='7') => {
                self.show(Tab::NUMBERED[digit as usize - '1' as usize]);
            }
            KeyCode::Tab => self.show(self.tab.next()),
            KeyCode::Esc if self.tab == Tab::Help => self.show(Tab::Overview),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Wish::Redraw
    }

    /// Another process: what was scrolled or kept is of the former one.
    fn step(&mut self, step: Step) -> Wish {
        (self.paused, self.scroll) = (false, 0);
        Wish::Process(step)
    }

    fn show(&mut self, tab: Tab) {
        self.tab = tab;
        self.scroll = 0;
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = None,
            KeyCode::Esc => self.filter = self.typing.take().unwrap_or_default(),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(character) => self.filter.push(character),
            _ => {}
        }
    }

    /// Whether something with these texts is to be shown.
    pub fn wants(&self, texts: &[&str]) -> bool {
        let filter = self.filter.to_lowercase();
        filter.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(&filter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(state: &mut State, text: &str) {
        for character in text.chars() {
            assert_eq!(state.press(KeyCode::Char(character).into()), Wish::Redraw);
        }
    }

    #[test]
    fn keys_choose_tabs_and_orders() {
        let mut state = State::default();
        typed(&mut state, "3jjs");
        assert_eq!((state.tab, state.scroll, state.sort), (Tab::Lines, 2, Sort::Id));
        state.press(KeyCode::Tab.into());
        assert_eq!((state.tab, state.scroll), (Tab::Threads, 0));
        typed(&mut state, "pr");
        assert!(state.paused && state.reversed);
        typed(&mut state, " 7");
        state.press(KeyCode::Tab.into());
        assert_eq!((state.tab, state.paused), (Tab::Overview, false));
    }

    #[test]
    fn keys_ask_for_other_processes_and_end_a_pause() {
        let mut state = State { paused: true, scroll: 3, ..State::default() };
        for (key, step) in [('n', Step::Next), ('N', Step::Previous), ('m', Step::Most)] {
            assert_eq!(state.press(KeyCode::Char(key).into()), Wish::Process(step));
        }
        assert_eq!((state.paused, state.scroll), (false, 0));
    }

    #[test]
    fn a_filter_is_typed_kept_or_given_up() {
        let mut state = State::default();
        typed(&mut state, "/Io q");
        assert!(state.typing.is_some());
        state.press(KeyCode::Backspace.into());
        state.press(KeyCode::Backspace.into());
        state.press(KeyCode::Enter.into());
        assert_eq!((state.filter.as_str(), &state.typing), ("Io", &None));
        assert!(state.wants(&["main", "IO-thread"]) && !state.wants(&["main"]));
        typed(&mut state, "/zzz");
        state.press(KeyCode::Esc.into());
        assert_eq!(state.filter, "Io");
        state.press(KeyCode::Esc.into());
        assert_eq!(state.filter, "");
    }

    #[test]
    fn control_c_quits_even_while_typing() {
        let mut state = State::default();
        typed(&mut state, "/q");
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.press(key), Wish::Quit);
        assert_eq!(State::default().press(KeyCode::Char('q').into()), Wish::Quit);
        assert_eq!(State::default().press(KeyCode::Char('c').into()), Wish::Clear);
    }
}
