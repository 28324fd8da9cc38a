//! Drawing: the frame around the parts. Each part is a list of lines of text, so it can be drawn in
//! any area and written to a pipe as well.

pub(crate) mod help;
pub(crate) mod levels;
pub(crate) mod lines;
pub(crate) mod matrix;
pub(crate) mod placing;
pub(crate) mod processes;
pub(crate) mod threads;

#[cfg(test)]
mod tests;

use crate::select;
use crate::snapshot::Snapshot;
use crate::state::{State, Tab};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use types::numbers::{clock, narrow, percent};

/// What the terminal can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Whether it shows colours.
    pub colour: bool,
    /// Shades and bars of Unicode; ASCII otherwise.
    pub unicode: bool,
}

impl Look {
    /// A style that is only used where there is colour.
    pub(crate) fn coloured(self, style: Style) -> Style {
        if self.colour { style } else { Style::new() }
    }
}

/// A part of the screen: its title and its lines.
pub(crate) struct Part<'a> {
    pub title: String,
    pub lines: Vec<Line<'a>>,
}

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, state: &State, look: Look) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    let width = usize::from(head.width);
    let heading = [title(snapshot, state), method(snapshot)];
    frame.render_widget(
        Paragraph::new(heading.map(|line| Line::from(clipped(&line, width))).to_vec())
            .style(Style::new().add_modifier(Modifier::BOLD)),
        head,
    );
    match state.tab {
        Tab::Overview => overview(frame, snapshot, state, look, body),
        tab => place(frame, body, whole(tab, snapshot, state, look, body), state.scroll),
    }
    let foot_style = Style::new().add_modifier(Modifier::REVERSED);
    let text = format!("{:width$}", clipped(&footer(snapshot, state), width));
    frame.render_widget(Paragraph::new(text).style(foot_style), foot);
}

fn whole<'a>(tab: Tab, snapshot: &Snapshot, state: &State, look: Look, area: Rect) -> Part<'a> {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    match tab {
        Tab::Overview | Tab::Matrix => matrix::part(snapshot, state, look, width, height),
        Tab::Lines => lines::part(snapshot, state, width),
        Tab::Threads => threads::part(snapshot, state, width),
        Tab::Levels => levels::part(snapshot, look, width),
        Tab::Processes => processes::part(snapshot, width),
        Tab::Placing => placing::part(snapshot, width),
        Tab::Help => help::part(),
    }
}

/// Matrix and threads beside each other, the hottest lines below, levels in one row.
fn overview(frame: &mut Frame<'_>, snapshot: &Snapshot, state: &State, look: Look, area: Rect) {
    let [upper, lower, last] =
        Layout::vertical([Constraint::Fill(3), Constraint::Fill(2), Constraint::Length(1)])
            .areas(area);
    let [left, right] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(40)]).areas(upper);
    for (tab, area) in [(Tab::Matrix, left), (Tab::Threads, right), (Tab::Lines, lower)] {
        // Scrolling moves the list of lines only: the overview's other parts show what is hottest.
        let scroll = if tab == Tab::Lines { state.scroll } else { 0 };
        let area = if tab == Tab::Matrix {
            Rect { width: area.width.saturating_sub(1), ..area }
        } else {
            area
        };
        place(frame, area, whole(tab, snapshot, state, look, area), scroll);
    }
    let text = clipped(&levels::in_one_row(snapshot), usize::from(last.width));
    frame.render_widget(Paragraph::new(text), last);
}

/// Draws a part: its title, and below what fits after scrolling, never past the last line.
fn place(frame: &mut Frame<'_>, area: Rect, part: Part<'_>, scroll: usize) {
    let [top, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let title = clipped(&part.title, usize::from(area.width));
    let style = Style::new().add_modifier(Modifier::UNDERLINED);
    frame.render_widget(Paragraph::new(title).style(style), top);
    let beyond = part.lines.len().saturating_sub(usize::from(rest.height));
    let shown: Vec<_> = part.lines.into_iter().skip(scroll.min(beyond)).collect();
    frame.render_widget(Paragraph::new(shown), rest);
}

pub(crate) fn title(snapshot: &Snapshot, state: &State) -> String {
    let mark = match (snapshot.over, state.paused) {
        (true, _) => "  [ended]",
        (_, true) => "  [paused]",
        _ => "",
    };
    let few = if snapshot.too_few { "  [too few events seen]" } else { "" };
    let one = if snapshot.threads.len() == 1 { "" } else { "s" };
    format!(
        "{}{}: {} thread{one}, {} transfers/s (RAW + WAW), {}{mark}{few}",
        snapshot.target,
        processes::place(snapshot),
        snapshot.threads.len(),
        narrow(select::total(snapshot)),
        clock(snapshot.elapsed.as_secs()),
    )
}

/// What rates rest on, then how communication is found and what that costs, which may not fit.
pub(crate) fn method(snapshot: &Snapshot) -> String {
    let Some(sampling) = &snapshot.sampling else {
        return format!("{}; {}", snapshot.basis, snapshot.method);
    };
    let lost = match sampling.lost {
        0 => String::new(),
        lost => format!(", {} lost", narrow(lost as f64)),
    };
    format!(
        "{}; {}: {} samples/s, {} usable{lost}, cost {}",
        snapshot.basis,
        snapshot.method,
        narrow(sampling.samples_per_second),
        percent(sampling.decoded),
        percent(sampling.cost),
    )
}

fn footer(snapshot: &Snapshot, state: &State) -> String {
    if state.typing.is_some() {
        return format!("filter: {}_   Enter keeps, Esc gives up", state.filter);
    }
    let filter = match state.filter.as_str() {
        "" => String::new(),
        filter => format!(" [{filter}, Esc clears]"),
    };
    // What is rarer gives way, for a row of 80 characters.
    let several = snapshot.processes.len() > 1;
    let (process, clear) = if several { ("n process  ", "") } else { ("", "c clear  ") };
    let sort = state.sort.name();
    format!(
        "q quit  {process}p pause  s sort: {sort}  r reverse  / filter{filter}  1-7 views  {clear}? help"
    )
}

/// The text in at most `width` characters, with a mark where something is missing.
fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}~")
}
