//! What the keys do and what the numbers mean.

use super::Part;
use ratatui::text::Line;

const TEXT: &str = "\
q, Ctrl-C      quit; the target goes on
p, blank       pause: keep what is shown; again to go on
1 to 7, Tab    overview, matrix, lines, threads, levels, processes, placing
n, N, m        next process, the one before, always the one that talks most
s, r           order of threads (talk, id, cpu, name); reversed
/              filter threads, lines and code by a text; Esc clears it
arrows, j k    scroll; also PageUp, PageDown, Home
c              forget what was seen so far
?              this page; Esc goes back

events/s       how often a thread took a line of memory that another had written,
               estimated from what was seen of the last seconds; few hits mean little
hits           events that were seen: in samples, or in windows of exact recording
false          share of false sharing: different bytes of one line
usable         samples whose address could be computed
cost           how much longer the target takes because it is watched";

pub(crate) fn part<'a>() -> Part<'a> {
    Part { title: "Keys and numbers".into(), lines: TEXT.lines().map(Line::from).collect() }
}
