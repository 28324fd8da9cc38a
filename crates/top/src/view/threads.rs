//! The threads: what each gives and takes, how busy it is, where it was seen last.

use super::Part;
use super::clipped;
use crate::select;
use crate::snapshot::Snapshot;
use crate::state::State;
use ratatui::text::Line;
use types::numbers::narrow;

/// One row per thread.
pub(crate) fn part<'a>(snapshot: &Snapshot, state: &State, width: usize) -> Part<'a> {
    let threads = select::threads(snapshot, state);
    // Everything but the name takes 25 characters, and the kernel's id 8 where there is room.
    let wide = width >= 60;
    let name = width.saturating_sub(if wide { 34 } else { 25 }).min(32);
    let mut lines = vec![Line::from(if wide {
        format!(
            "{:>4} {:>7} {:name$} {:>3} {:>4} {:>5} {:>5}",
            "id", "tid", "name", "cpu", "%cpu", "gives", "takes"
        )
    } else {
        format!(
            "{:>4} {:name$} {:>3} {:>4} {:>5} {:>4}",
            "id", "name", "cpu", "%cpu", "gives", "takes"
        )
    })];
    for thread in &threads {
        let cpu = thread.cpu.map_or_else(|| "-".into(), |cpu| cpu.to_string());
        let busy = format!("{:.0}", thread.busy * 100.0);
        let (gives, takes) = (narrow(thread.gives), narrow(thread.takes));
        let id = thread.id.0;
        let called = clipped(&thread.name, name);
        lines.push(Line::from(if wide {
            format!(
                "{id:>4} {:>7} {called:name$} {cpu:>3} {busy:>4} {gives:>5} {takes:>5}",
                thread.os_tid
            )
        } else {
            format!("{id:>4} {called:name$} {cpu:>3} {busy:>4} {gives:>5} {takes:>4}")
        }));
    }
    Part { title: format!("Threads by {}; events/s", state.sort.name()), lines }
}
