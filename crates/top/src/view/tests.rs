//! Whole screens, as text.

use super::{Look, clipped, draw};
use crate::batch;
use crate::samples::{process, snapshot};
use crate::snapshot::Snapshot;
use crate::state::{State, Tab};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

const PLAIN: Look = Look { colour: false, unicode: false };

fn buffer(snapshot: &Snapshot, state: &State, look: Look, size: (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("a terminal");
    terminal.draw(|frame| draw(frame, snapshot, state, look)).expect("a drawing");
    terminal.backend().buffer().clone()
}

fn screen(snapshot: &Snapshot, state: &State, look: Look, size: (u16, u16)) -> Vec<String> {
    let buffer = buffer(snapshot, state, look, size);
    let row = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..size.1).map(|y| row(y).trim_end().to_string()).collect()
}

#[test]
fn the_overview_says_everything_at_80_by_24() {
    let expected = "\
redis-server, pid 1234: 6 threads, 8.0k transfers/s (RAW + WAW), 1:05
estimates from waiting times; cpu-clock, sample matching: 1.2k samples/s, 71 % ~
Matrix: rows give, columns take; 6 thr~ Threads by talk; events/s
      2    3    0    1    4    5          id name            cpu %cpu gives take
2     \\ 3.0k    .    .    .    .           2 worker-2          0   27  3.0k 3.0k
3  3.0k    \\    .    .    .    .           3 worker-3          1   28  3.0k 3.0k
0     .    .    \\ 1.0k    .    .           0 worker-0          0   25  1.0k 1.0k
1     .    . 1.0k    \\    .    .           1 worker-1          1   26  1.0k 1.0k
4     .    .    .    .    \\    .           4 worker-4          0   29     0    0
5     .    .    .    .    .    \\           5 worker-5          1   30     0    0




Hot lines of memory
line            ev/s  hits false thr object                written by
0x7f00          6.0k    80     ?   2 heap                  pop queue.c:120
0x5000          2.0k    80  97 %   2 counters+0x40 (app)   count app.c:12




Levels: same L3 75 %, other package 25 %
q quit  p pause  s sort: talk  r reverse  / filter  1-7 views  c clear  ? help";
    let text = screen(&snapshot(6), &State::default(), PLAIN, (80, 24));
    assert_eq!(text.join("\n"), expected);
}

#[test]
fn that_samples_are_too_few_is_said_at_the_top() {
    let few = Snapshot { too_few: true, ..snapshot(2) };
    let state = State::default();
    assert!(crate::view::title(&few, &state).ends_with("(RAW + WAW), 1:05  [too few events seen]"));
    assert!(!crate::view::title(&snapshot(2), &state).contains("samples"));
}

#[test]
fn many_threads_are_shades_of_those_that_talk_most() {
    let state = State { tab: Tab::Matrix, ..State::default() };
    let look = Look { unicode: true, ..PLAIN };
    let text = screen(&snapshot(64), &state, look, (40, 24));
    assert_eq!(text[2], "Matrix: rows give, columns take; 12 of ~");
    assert_eq!(text[3], "     2  3  0  1  4  5  6  7  8  9 10 11");
    assert_eq!(text[4], " 2   \\  █  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·");
    assert_eq!(text[6], " 0   ·  ·  \\  ▓  ·  ·  ·  ·  ·  ·  ·  ·");
}

#[test]
fn colour_changes_no_character() {
    let (snapshot, state) = (snapshot(6), State::default());
    let coloured = Look { colour: true, unicode: true };
    let with = buffer(&snapshot, &state, coloured, (80, 24));
    let without = buffer(&snapshot, &state, Look { colour: false, ..coloured }, (80, 24));
    let symbols = |buffer: &Buffer| -> Vec<String> {
        buffer.content().iter().map(|cell| cell.symbol().into()).collect()
    };
    assert_eq!(symbols(&with), symbols(&without));
    assert!(with.content().iter().any(|cell| cell.fg == Color::Red));
    assert!(without.content().iter().all(|cell| cell.fg == Color::Reset));
}

#[test]
fn every_tab_fits_any_screen() {
    for tab in Tab::NUMBERED.into_iter().chain([Tab::Help]) {
        for size in [(1, 1), (10, 3), (80, 24), (250, 70)] {
            for threads in [0, 1, 1024] {
                let state = State { tab, scroll: 5000, ..State::default() };
                screen(&snapshot(threads), &state, PLAIN, size);
            }
        }
    }
    screen(&Snapshot::default(), &State::default(), PLAIN, (80, 24));
}

#[test]
fn what_auto_does_is_shown_where_it_does_something() {
    let state = State { tab: Tab::Placing, ..State::default() };
    let text = screen(&snapshot(2), &state, PLAIN, (80, 10));
    assert_eq!(
        text[2..4],
        ["What threadtalk auto does here", "process 77 looks after redis-server"]
    );
    assert!(batch(&snapshot(2), &state, PLAIN, 80).contains("\nWhat threadtalk auto does here\n"));
    let nothing = Snapshot { placing: Vec::new(), ..snapshot(2) };
    let text = screen(&nothing, &state, PLAIN, (80, 10));
    assert_eq!(text[2], "What threadtalk auto does here; it does not look after this process");
    assert!(!batch(&nothing, &state, PLAIN, 80).contains("threadtalk auto"));
}

#[test]
fn scrolling_stops_where_the_last_row_is_seen() {
    let state = State { tab: Tab::Threads, scroll: 5000, ..State::default() };
    let text = screen(&snapshot(100), &state, PLAIN, (80, 10));
    assert!(text[8].trim_start().starts_with("99"), "{text:?}");
    assert!(text[3].trim_start().starts_with("94"), "{text:?}");
}

#[test]
fn what_happens_is_said() {
    let mut snapshot = snapshot(2);
    let mut state = State { paused: true, ..State::default() };
    let title =
        |snapshot: &Snapshot, state: &State| screen(snapshot, state, PLAIN, (80, 24))[0].clone();
    let foot =
        |snapshot: &Snapshot, state: &State| screen(snapshot, state, PLAIN, (80, 24))[23].clone();
    assert!(title(&snapshot, &state).ends_with("  [paused]"));
    snapshot.over = true;
    assert!(title(&snapshot, &state).ends_with("  [ended]"));
    state.typing = Some(String::new());
    state.filter = "wor".into();
    assert!(foot(&snapshot, &state).starts_with("filter: wor_"));
    snapshot.sampling.as_mut().expect("samples").lost = 3;
    assert!(screen(&snapshot, &state, PLAIN, (120, 24))[1].contains("71 % usable, 3 lost, cost"));
}

#[test]
fn of_several_processes_it_is_said_which_is_shown_and_how_to_see_others() {
    let mut snapshot = snapshot(6);
    snapshot.processes.insert(0, process(999, "sh", 0, false));
    let mut state = State::default();
    let text = screen(&snapshot, &state, PLAIN, (80, 24));
    assert_eq!(
        text[0],
        "redis-server, pid 1234 (2 of 2): 6 threads, 8.0k transfers/s (RAW + WAW), 1:05"
    );
    assert_eq!(
        text[23],
        "q quit  n process  p pause  s sort: talk  r reverse  / filter  1-7 views  ? help"
    );
    state.tab = Tab::Processes;
    let text = screen(&snapshot, &state, PLAIN, (80, 24));
    let row = |pid, name, hits, mark| {
        format!("{mark} {pid:>7} {name:40} {:>7} {hits:>5} {:>8}", 4, 500).trim_end().to_string()
    };
    assert_eq!(text[2], "Processes; shown is the one that talks most, n for the next");
    assert_eq!(text[4..6], [row(999, "sh", 0, ' '), row(1234, "redis-server", 320, '>')]);
    snapshot.chosen = true;
    let text = screen(&snapshot, &state, PLAIN, (80, 24));
    assert_eq!(text[2], "Processes; n for the next, m for the one that talks most");
    let text = batch(&snapshot, &State::default(), PLAIN, 80);
    assert!(text.contains("\nProcesses"), "{text}");
}

#[test]
fn a_batch_is_plain_text() {
    let text = batch(&snapshot(6), &State::default(), PLAIN, 80);
    assert!(text.starts_with("redis-server, pid 1234: 6 threads"));
    for part in ["\nMatrix", "\nThreads", "\nHot lines", "\nWhere communication goes"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        text.lines().skip(2).all(|line| line.chars().count() <= 80 && line.is_ascii()),
        "{text}"
    );
}

#[test]
fn what_is_too_long_is_clipped() {
    assert_eq!([clipped("abcd", 4), clipped("abcde", 4)], ["abcd", "abc~"]);
}
