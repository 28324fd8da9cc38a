//! Lines that a core fetches before they are asked for.
//!
//! Two kinds, as Diener's table 5.1 has them: *stride*, for an instruction whose last three lines
//! were equally far apart, one step ahead into the innermost cache; and *stream*, for misses on
//! neighbouring lines of a page, some lines ahead into the second cache. Neither crosses a page.
//! Neighbours: `system.rs` asks and fetches.

use crate::family::PrefetchFigures;

/// Instructions whose strides are remembered; more share their places.
const SITES: usize = 256;
/// Streams that are followed at a time.
const STREAMS: usize = 16;
/// log2 of a page.
const PAGE_SHIFT: u32 = 12;

#[derive(Clone, Copy, Debug, Default)]
struct Stride {
    site: u32,
    line: u64,
    step: i64,
    /// How often in a row the step was the same.
    sure: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The last line of it that was asked for.
    line: u64,
    /// Direction; 0: not known yet.
    step: i64,
    /// The farthest line that was fetched.
    fetched: u64,
    /// When it was followed last, by count.
    used: u64,
}

/// The prefetchers of one core.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    figures: PrefetchFigures,
    lines_per_page: u64,
    strides: Vec<Stride>,
    streams: [Stream; STREAMS],
    count: u64,
    /// Lines to fetch into the innermost cache, and into the second one.
    wanted: (Option<u64>, Vec<u64>),
}

impl Prefetcher {
    /// One that has seen nothing.
    pub fn new(figures: PrefetchFigures, line_bytes: u64) -> Self {
        Self {
            figures,
            lines_per_page: (1 << PAGE_SHIFT) / line_bytes.min(1 << PAGE_SHIFT),
            strides: vec![Stride::default(); SITES],
            streams: [Stream::default(); STREAMS],
            count: 0,
            wanted: (None, Vec::new()),
        }
    }

    fn same_page(&self, a: u64, b: u64) -> bool {
        a / self.lines_per_page == b / self.lines_per_page
    }

    /// An instruction asks for a line. Returns whether its addresses are regular, which is that the
    /// line could be known before.
    pub fn regular(&mut self, site: u32, line: u64) -> bool {
        self.wanted.0 = None;
        let at = site as usize % SITES;
        let known = &mut self.strides[at];
        if known.site != site {
            *known = Stride { site, line, step: 0, sure: 0 };
            return false;
        }
        let step = line.wrapping_sub(known.line) as i64;
        if step == 0 {
            return known.sure > 0;
        }
        known.sure = if step == known.step { known.sure.saturating_add(1) } else { 0 };
        (known.line, known.step) = (line, step);
        let sure = known.sure > 0;
        let next = line.wrapping_add_signed(step);
        if sure && self.figures.stride && self.same_page(line, next) {
            self.wanted.0 = Some(next);
        }
        sure
    }

    /// The innermost cache did not have a line, or had it because it was fetched ahead.
    pub fn missed(&mut self, line: u64) {
        self.wanted.1.clear();
        if self.figures.stream_lines == 0 {
            return;
        }
        self.count += 1;
        let near = |stream: &Stream| {
            stream.used > 0 && stream.line.abs_diff(line) <= 2 && stream.line != line
        };
        let Some(at) = self.streams.iter().position(near) else {
            if self.streams.iter().any(|stream| stream.used > 0 && stream.line == line) {
                return;
            }
            let oldest = (0..STREAMS).min_by_key(|&at| self.streams[at].used).unwrap_or(0);
            self.streams[oldest] = Stream { line, step: 0, fetched: line, used: self.count };
            return;
        };
        let stream = self.streams[at];
        let step = if line > stream.line { 1 } else { -1 };
        let mut fetched = if step == stream.step { stream.fetched } else { line };
        let ahead = |fetched: u64| (fetched.wrapping_sub(line) as i64) * step;
        if ahead(fetched) < 0 {
            fetched = line;
        }
        if step == stream.step {
            while ahead(fetched) < i64::from(self.figures.stream_lines) {
                let next = fetched.wrapping_add_signed(step);
                if !self.same_page(line, next) {
                    break;
                }
                self.wanted.1.push(next);
                fetched = next;
            }
        }
        self.streams[at] = Stream { line, step, fetched, used: self.count };
    }

    /// What the last calls have asked for: into the innermost cache, and into the second.
    pub fn take_wanted(&mut self, into: &mut Vec<(u64, usize)>) {
        into.extend(self.wanted.0.take().map(|line| (line, 0)));
        into.extend(self.wanted.1.drain(..).map(|line| (line, 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> PrefetchFigures {
        PrefetchFigures { stride: true, stream_lines: 4 }
    }

    fn wanted(prefetcher: &mut Prefetcher) -> Vec<(u64, usize)> {
        let mut found = Vec::new();
        prefetcher.take_wanted(&mut found);
        found
    }

    #[test]
    fn the_third_equal_step_is_taken_ahead() {
        let mut prefetcher = Prefetcher::new(all(), 64);
        assert!(!prefetcher.regular(7, 0));
        assert!(!prefetcher.regular(7, 3));
        assert!(prefetcher.regular(7, 6));
        assert_eq!(wanted(&mut prefetcher), [(9, 0)]);
        assert!(!prefetcher.regular(7, 40));
        assert!(wanted(&mut prefetcher).is_empty());
    }

    #[test]
    fn a_stream_is_fetched_ahead_within_its_page() {
        let mut prefetcher = Prefetcher::new(all(), 64);
        for line in [0, 1] {
            prefetcher.missed(line);
            assert!(wanted(&mut prefetcher).is_empty());
        }
        prefetcher.missed(2);
        assert_eq!(wanted(&mut prefetcher), [(3, 1), (4, 1), (5, 1), (6, 1)]);
        prefetcher.missed(3);
        assert_eq!(wanted(&mut prefetcher), [(7, 1)]);
        for line in 4..62 {
            prefetcher.missed(line);
            wanted(&mut prefetcher);
        }
        prefetcher.missed(62);
        assert!(wanted(&mut prefetcher).is_empty(), "63 was fetched before, 64 is another page");
    }

    #[test]
    fn streams_go_downwards_too() {
        let mut prefetcher = Prefetcher::new(all(), 64);
        for line in [30, 29, 28] {
            wanted(&mut prefetcher);
            prefetcher.missed(line);
        }
        assert_eq!(wanted(&mut prefetcher), [(27, 1), (26, 1), (25, 1), (24, 1)]);
    }
}
