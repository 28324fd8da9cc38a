//! Something that serves one line after the other: a memory controller, or a link.
//!
//! Threads ask for lines in about the order of their simulated times, but not quite: one that has
//! waited for a miss asks later than another one that comes after it. A server that only knew when
//! it is free again would make that one wait for what is yet to come. So it also keeps how busy it
//! is in each of many short stretches of time, and what comes late finds the first that has room.
//! Neighbour: `interconnect.rs` asks.

use crate::counts::scaled;

/// Length of a stretch, ns: about a transfer.
const STRETCH_NS: f64 = 64.0;
/// Stretches that are known, up to the last one in which anything was served.
const STRETCHES: usize = 1024;

/// Serves lines.
#[derive(Clone, Debug)]
pub struct Server {
    /// Bytes per ns.
    bandwidth: f64,
    /// When it is free, for whatever comes after all others.
    free_at: f64,
    /// When the last of all came.
    latest: f64,
    /// How long it is busy in each stretch, ns; stretch n is at n modulo [`STRETCHES`].
    busy: Box<[f32]>,
    /// The stretch after the last one that is known.
    end: u64,
    /// What it has done.
    pub done: Done,
}

/// What a server has done.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Done {
    /// Bytes served.
    pub bytes: u64,
    /// How long it was busy, ns.
    pub busy_ns: f64,
    /// Time that lines have waited for it, ns.
    pub waited_ns: f64,
}

impl Done {
    /// Adds what was done later.
    pub fn add(&mut self, later: &Done) {
        self.bytes += later.bytes;
        self.busy_ns += later.busy_ns;
        self.waited_ns += later.waited_ns;
    }

    /// Multiplies what was done by a factor.
    pub fn scale(&mut self, factor: f64) {
        self.bytes = scaled(self.bytes, factor);
        self.busy_ns *= factor;
        self.waited_ns *= factor;
    }
}

impl Server {
    /// An idle one that serves so many bytes in a nanosecond.
    pub fn new(bandwidth: f64) -> Self {
        let (free_at, latest, end, done) = Default::default();
        let busy = vec![0.0; STRETCHES].into_boxed_slice();
        Self { bandwidth, free_at, latest, busy, end, done }
    }

    /// Serves `bytes` that come at `now`; returns how long they wait for others.
    pub fn serve(&mut self, now: f64, bytes: u64) -> f64 {
        let takes = bytes as f64 / self.bandwidth;
        let wait = if now >= self.latest {
            let begins = now.max(self.free_at);
            (self.latest, self.free_at) = (now, begins + takes);
            self.occupy(begins, takes);
            begins - now
        } else {
            self.occupy(now, takes)
        };
        self.done.add(&Done { bytes, busy_ns: takes, waited_ns: wait });
        wait
    }

    /// Is busy for `takes` ns in the first stretches from `from` on that have room; returns how
    /// long after `from` that begins.
    fn occupy(&mut self, from: f64, takes: f64) -> f64 {
        let first = (from / STRETCH_NS) as u64;
        self.know(first);
        let (mut stretch, mut left, mut begins) = (first, takes, None);
        while left > 0.0 {
            self.know(stretch);
            // What is too long ago has room.
            if stretch + (STRETCHES as u64) < self.end {
                break;
            }
            let busy = &mut self.busy[stretch as usize % STRETCHES];
            let room = STRETCH_NS - f64::from(*busy);
            if room > 0.0 {
                let at = stretch as f64 * STRETCH_NS + f64::from(*busy);
                begins.get_or_insert(at);
                *busy += left.min(room) as f32;
                left -= left.min(room);
            }
            stretch += 1;
        }
        begins.map_or(0.0, |at| (at - from).max(0.0))
    }

    /// Begins all stretches up to this one.
    fn know(&mut self, stretch: u64) {
        if stretch < self.end {
            return;
        }
        let new = (stretch + 1 - self.end).min(STRETCHES as u64);
        for late in 0..new {
            self.busy[(stretch - late) as usize % STRETCHES] = 0.0;
        }
        self.end = stretch + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte takes a nanosecond.
    fn server() -> Server {
        Server::new(1.0)
    }

    #[test]
    fn what_comes_in_order_waits_for_what_is_served() {
        let mut server = server();
        assert_eq!([0.0, 1.0, 50.0].map(|now| server.serve(now, 10)), [0.0, 9.0, 0.0]);
        assert_eq!(server.done, Done { bytes: 30, busy_ns: 30.0, waited_ns: 9.0 });
    }

    #[test]
    fn what_comes_late_does_not_wait_for_what_is_yet_to_come() {
        let mut server = server();
        assert_eq!(server.serve(1e6, 10), 0.0, "far ahead");
        assert_eq!(server.serve(100.0, 10), 0.0, "too long ago to be known");
        assert_eq!(server.serve(1e6 - 500.0, 10), 0.0);
        assert_eq!(server.serve(1e6 + 3.0, 10), 7.0);
    }

    #[test]
    fn no_more_is_served_than_there_is_time() {
        let mut server = server();
        server.serve(1e5, 1);
        // Twice as much as fits into 10 µs, of which half comes after the rest of it.
        let mut last = 0.0_f64;
        for turn in 0..2 {
            for k in 0..1000 {
                let now = 5e4 + f64::from(k) * 10.0 + f64::from(turn);
                last = last.max(now + server.serve(now, 10));
            }
        }
        assert!((6.95e4..7.1e4).contains(&last), "{last}");
    }

    #[test]
    fn a_server_that_is_hardly_busy_makes_nothing_wait_in_any_order() {
        let mut server = server();
        let mut random = 1_u64;
        for k in 0..10_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let now = (k * 200 + random % 400) as f64 + 1e4;
            server.serve(now, 10);
        }
        assert!(server.done.waited_ns / 1e4 < 2.0, "{:?}", server.done);
    }
}
