//! Which events of a thread follow each other, as `types::streams` defines it.

use crate::replayed::LINE_BYTES;
use std::collections::BTreeMap;
use types::{CommKind, ThreadId, streams};

/// The last RAW or WAW event of each thread in pages that share a place.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    last: BTreeMap<(ThreadId, u64), Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    line: u64,
    kind: CommKind,
}

impl Streams {
    /// Whether an event of the thread on the line at this address follows; notes it.
    pub(crate) fn follows(&mut self, thread: ThreadId, line: u64, kind: CommKind) -> bool {
        if !matches!(kind, CommKind::Raw | CommKind::Waw) {
            return false;
        }
        let place = (line >> streams::PAGE_SHIFT) % streams::PAGES as u64;
        let Some(last) = self.last.insert((thread, place), Last { line, kind }) else {
            return false;
        };
        match line.abs_diff(last.line) / LINE_BYTES {
            0 => last.kind == CommKind::Raw && kind == CommKind::Waw,
            lines => lines <= streams::LINES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::CommKind::{Invalidation, Raw, Waw};

    /// Which events of one thread follow: lines, counted in lines.
    fn followed(events: &[(u64, CommKind)]) -> Vec<bool> {
        let mut streams = Streams::default();
        let follows =
            |&(line, kind): &(u64, _)| streams.follows(ThreadId(1), line * LINE_BYTES, kind);
        events.iter().map(follows).collect()
    }

    #[test]
    fn lines_near_the_one_before_follow_it() {
        let events = [(100, Raw), (101, Raw), (103, Waw), (102, Waw), (105, Raw), (105, Raw)];
        assert_eq!(followed(&events), [false, true, true, true, false, false]);
    }

    #[test]
    fn a_line_that_was_read_is_there_for_a_write_but_one_that_comes_back_is_not() {
        let events = [(100, Raw), (100, Waw), (100, Raw), (100, Invalidation), (100, Waw)];
        assert_eq!(followed(&events), [false, true, false, false, true]);
        assert_eq!(followed(&[(100, Waw), (100, Waw)]), [false, false]);
    }

    #[test]
    fn streams_in_several_pages_go_on_beside_each_other() {
        let lines_of_page = 1 << (streams::PAGE_SHIFT - 6);
        let of_page = |page: u64, line| (page * lines_of_page + line, Raw);
        let two = [of_page(7, 0), of_page(9, 30), of_page(7, 1), of_page(9, 29)];
        assert_eq!(followed(&two), [false, false, true, true]);
        let same_place = [of_page(7, 0), of_page(7 + streams::PAGES as u64, 0), of_page(7, 1)];
        assert_eq!(followed(&same_place), [false; 3]);
    }

    #[test]
    fn threads_have_streams_of_their_own() {
        let mut streams = Streams::default();
        assert!(!streams.follows(ThreadId(1), 6400, Raw));
        assert!(!streams.follows(ThreadId(2), 6464, Raw));
        assert!(streams.follows(ThreadId(1), 6464, Raw));
    }
}
