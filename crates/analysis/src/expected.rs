//! How often a line would change hands, and how long threads would wait for it, if all of its
//! threads ran natively at once.
//!
//! Problem: the number of transfers that a recording counts depends on how its threads happened to
//! overlap. How often each thread comes to the line does not. Approach: thread i comes to the line
//! V_i times in its run, with p_i ns between two visits. A visit needs a transfer if another thread
//! has written since the last one: with visits at random that is so for 1 − exp(−W_i / V_i) of
//! them, where W_i are the visits at which others write. A thread that comes more often than a line
//! can leave it makes several visits each time it has the line: 1 + h / p_i, where the line stays
//! for h ns. The line serves one transfer at a time, so all of them take at least as long as their
//! latencies together, and threads wait in turn: there is at most one transfer for each latency.
//! The model is our own; the capacity of one line is what Cheetah (Liu and Liu, CGO 2016) measures
//! by sampled latencies. Pure. Neighbour: `report` says what it means for a finding.

/// A thread that uses a line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Visitor {
    /// Instructions of its run.
    pub instructions: f64,
    /// How often it comes to the line in its run.
    pub visits: f64,
    /// Whether it writes when it comes.
    pub writes: bool,
}

/// What a machine costs, in one of the ways that are possible.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Price {
    /// Latency of a transfer, ns.
    pub latency_ns: f64,
    /// Time of an instruction without waiting for lines, ns.
    pub instruction_ns: f64,
    /// How long a line stays with a thread that keeps coming to it, ns.
    pub hold_ns: f64,
    /// Part of a transfer's latency in which the thread can do nothing else, 0 to 1.
    pub stalled: f64,
}

/// What is expected of one line over the whole run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Expectation {
    /// Transfers.
    pub transfers: f64,
    /// Time that all threads together wait for it, ns.
    pub waited_ns: f64,
}

/// What to expect of a line that these threads use.
pub fn expectation(visitors: &[Visitor], price: &Price) -> Expectation {
    let usable = |visitor: &&Visitor| visitor.visits > 0.0;
    let visitors: Vec<&Visitor> = visitors.iter().filter(usable).collect();
    let written: f64 = visitors.iter().filter(|v| v.writes).map(|v| v.visits).sum();
    let transfers: Vec<f64> = visitors
        .iter()
        .map(|visitor| {
            let by_others = written - if visitor.writes { visitor.visits } else { 0.0 };
            let needed = 1.0 - (-by_others.max(0.0) / visitor.visits).exp();
            let apart_ns = visitor.instructions * price.instruction_ns / visitor.visits;
            visitor.visits * needed / (1.0 + price.hold_ns / apart_ns.max(f64::MIN_POSITIVE))
        })
        .collect();
    let all: f64 = transfers.iter().sum();
    let own = |(visitor, n): (&&Visitor, &f64)| {
        visitor.instructions * price.instruction_ns + n * price.latency_ns
    };
    let unhindered = visitors.iter().zip(&transfers).map(own).fold(0.0, f64::max);
    // Where the line cannot serve them in that time, the rest is waiting in turn.
    let queue = (all * price.latency_ns - unhindered).max(0.0);
    let most = transfers.iter().copied().fold(0.0, f64::max);
    let in_turn: f64 =
        if most > 0.0 { transfers.iter().map(|n| queue * n / most).sum() } else { 0.0 };
    let waited_ns = all * price.latency_ns * price.stalled + in_turn;
    Expectation { transfers: all, waited_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price =
        Price { latency_ns: 100.0, instruction_ns: 0.25, hold_ns: 50.0, stalled: 1.0 };

    fn visitor(visits: f64, writes: bool) -> Visitor {
        Visitor { instructions: 4e9, visits, writes }
    }

    #[test]
    fn a_thread_alone_and_readers_alone_transfer_nothing() {
        let none = Expectation::default();
        assert_eq!(expectation(&[], &PRICE), none);
        assert_eq!(expectation(&[visitor(1e6, true)], &PRICE), none);
        assert_eq!(expectation(&[visitor(1e6, false), visitor(1e6, false)], &PRICE), none);
        assert_eq!(expectation(&[visitor(0.0, true), visitor(0.0, true)], &PRICE), none);
    }

    #[test]
    fn rare_visits_of_two_writers_mostly_move_the_line() {
        // 1,000 µs apart: 1 − 1/e of the visits of each.
        let two = expectation(&[visitor(1e3, true), visitor(1e3, true)], &PRICE);
        let expected = 2e3 * (1.0 - (-1.0f64).exp());
        assert!((two.transfers / expected - 1.0).abs() < 1e-3, "{two:?}");
        assert!((two.waited_ns / (two.transfers * 100.0) - 1.0).abs() < 1e-9, "nobody queues");
        let four = expectation(&[visitor(1e3, true); 4], &PRICE);
        assert!(four.transfers > 2.9 * two.transfers, "others come more often: {four:?}");
    }

    #[test]
    fn one_writer_moves_it_to_each_reader() {
        let reads = [visitor(100.0, true), visitor(1e6, false), visitor(1e6, false)];
        let found = expectation(&reads, &PRICE);
        // Each reader takes it about once after each write; the writer has nothing to take.
        assert!((150.0..201.0).contains(&found.transfers), "{found:?}");
    }

    #[test]
    fn a_line_serves_one_transfer_for_each_latency() {
        let hot = expectation(&[visitor(1e9, true); 8], &PRICE);
        let taken = hot.transfers * PRICE.latency_ns;
        let of_thread = 4e9 * PRICE.instruction_ns + hot.waited_ns / 8.0;
        assert!(taken <= 1.01 * of_thread, "{taken} ns of {of_thread} ns");
        // Visits 1 ns apart are made some 50 at a time.
        assert!(hot.transfers < 8e9 / 50.0, "{hot:?}");
        // Twice the threads wait more than twice as long.
        let fewer = expectation(&[visitor(1e9, true); 4], &PRICE);
        assert!(hot.waited_ns > 2.5 * fewer.waited_ns, "{hot:?} {fewer:?}");
    }
}
