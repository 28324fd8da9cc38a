//! Memory that threads share: sharing besides communication (COMPROF, sections III and VI).
//!
//! Two threads share a line when both touch it at some time, whether or not anything passes from
//! one to the other. Lines that no thread writes to are apart: every cache can keep a copy of them.
//! From the profile's table of touched lines. Neighbour: `kinds.rs`.

use profile::Profile;
use types::CommMatrix;

/// Bytes of a line in the table.
const LINE_BYTES: u64 = 64;

/// Bytes that both threads of each pair touch, from the lower id to the higher: those that no
/// thread writes to, or the others.
pub fn matrix(profile: &Profile, read_only: bool) -> CommMatrix {
    let mut matrix = CommMatrix::new(profile.threads.len());
    for page in profile.pages.touched.chunk_by(|a, b| a.page == b.page) {
        let written = page.iter().fold(0, |lines, row| lines | row.written);
        let wanted = if read_only { !written } else { written };
        for (at, a) in page.iter().enumerate() {
            for b in &page[at + 1..] {
                let lines = u64::from((a.lines & b.lines & wanted).count_ones());
                if lines > 0 {
                    matrix.add(a.thread.min(b.thread), a.thread.max(b.thread), lines * LINE_BYTES);
                }
            }
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{TouchedRow, sample};
    use types::ThreadId;

    #[test]
    fn lines_of_both_count_by_whether_anyone_writes() {
        let row = |page, thread, lines, written| TouchedRow {
            page,
            thread: ThreadId(thread),
            lines,
            written,
        };
        let mut profile = sample::profile(sample::threads(3), Vec::new());
        profile.pages.touched = vec![
            row(0, 0, 0b1111, 0),
            row(0, 1, 0b0111, 0b1),
            row(0, 2, 0b0010, 0),
            row(2, 2, 1, 1),
        ];
        let cells = |read_only| matrix(&profile, read_only).iter().collect::<Vec<_>>();
        let (t0, t1, t2) = (ThreadId(0), ThreadId(1), ThreadId(2));
        assert_eq!(cells(false), [(t0, t1, 64)]);
        assert_eq!(cells(true), [(t0, t1, 128), (t0, t2, 64), (t1, t2, 64)]);
    }
}
