//! How often a line can change hands at most, if all of its threads run natively at once.
//!
//! Problem: the number of transfers that a recording counts depends on how its threads happened to
//! overlap. How often each thread comes to the line does not. Approach: thread i comes to the line
//! V_i times in its run, with p_i ns between two visits. A line that N threads want goes round: a
//! thread that comes more often than that makes 1 + N h / p_i visits each time it has the line,
//! where h ns are what it can go on for while it waits, so it takes the line at most
//! A_i = V_i / (1 + N h / p_i) times. Nobody takes a line that no other thread has written since:
//! there are at most as many takes as those of the others that write. And a line serves one
//! transfer at a time: as long as two of the threads run, there is at most one for each latency.
//! Where threads wait for each other otherwise there are fewer transfers, which this cannot know.
//! The model is our own; that the latency of one line's accesses bounds what mending it gives is
//! Cheetah's idea (Liu and Liu, CGO 2016, section 3). Pure. Neighbour: `report` compares it with
//! what was counted.

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

/// What a machine allows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Latency of a transfer, ns.
    pub latency_ns: f64,
    /// Time of an instruction without waiting for lines, ns.
    pub instruction_ns: f64,
    /// How long a thread can go on while it waits for the line, ns for each transfer.
    pub hold_ns: f64,
}

/// Most transfers of a line over the whole run, if these threads use it.
pub fn most_transfers(visitors: &[Visitor], pace: &Pace) -> f64 {
    let usable = |visitor: &&Visitor| visitor.visits > 0.0 && visitor.instructions > 0.0;
    let visitors: Vec<&Visitor> = visitors.iter().filter(usable).collect();
    let time_ns = |visitor: &Visitor| visitor.instructions * pace.instruction_ns;
    let takes = |visitor: &&Visitor| {
        let round_ns = visitors.len() as f64 * pace.hold_ns;
        visitor.visits / (1.0 + round_ns * visitor.visits / time_ns(visitor))
    };
    let takes: Vec<f64> = visitors.iter().map(takes).collect();
    let written: f64 = visitors.iter().zip(&takes).filter(|(v, _)| v.writes).map(|(_, n)| n).sum();
    let needed = |(visitor, n): (&&Visitor, &f64)| {
        let by_others = written - if visitor.writes { *n } else { 0.0 };
        n.min(by_others.max(0.0))
    };
    let needed: Vec<f64> = visitors.iter().zip(&takes).map(needed).collect();
    let all: f64 = needed.iter().sum();
    // While only one of them runs there are none. With the part `served` of them, thread i takes
    // time_i + served · n_i · latency, and the last but one must not end before all are served.
    let served = |(visitor, n): (&&Visitor, &f64)| {
        let beyond = (all - n) * pace.latency_ns;
        if beyond > 0.0 { (time_ns(visitor) / beyond).min(1.0) } else { 1.0 }
    };
    all * second_largest(visitors.iter().zip(&needed).map(served).collect())
}

/// 0 where there are fewer than two.
fn second_largest(mut values: Vec<f64>) -> f64 {
    values.sort_by(|a, b| b.total_cmp(a));
    values.get(1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { latency_ns: 100.0, instruction_ns: 0.25, hold_ns: 50.0 };

    /// One second alone.
    fn visitor(visits: f64, writes: bool) -> Visitor {
        Visitor { instructions: 4e9, visits, writes }
    }

    #[test]
    fn a_thread_alone_and_readers_alone_transfer_nothing() {
        assert_eq!(most_transfers(&[], &PACE), 0.0);
        assert_eq!(most_transfers(&[visitor(1e6, true)], &PACE), 0.0);
        assert_eq!(most_transfers(&[visitor(1e6, false), visitor(1e6, false)], &PACE), 0.0);
        assert_eq!(most_transfers(&[visitor(0.0, true), visitor(0.0, true)], &PACE), 0.0);
    }

    #[test]
    fn there_are_no_more_than_the_visits_of_a_thread_on_its_own() {
        let two = most_transfers(&[visitor(1e3, true), visitor(1e3, true)], &PACE);
        assert!((1.99e3..=2e3).contains(&two), "{two}");
        // Who comes often finds it gone only as often as the other has come.
        let uneven = most_transfers(&[visitor(1e3, true), visitor(1e5, true)], &PACE);
        assert!(uneven <= 2e3, "{uneven}");
        // Each reader takes it about once after each write; the writer has nothing to take.
        let reads = [visitor(100.0, true), visitor(1e6, false), visitor(1e6, false)];
        let read = most_transfers(&reads, &PACE);
        assert!((199.0..=200.0).contains(&read), "{read}");
    }

    #[test]
    fn a_line_serves_one_transfer_for_each_latency() {
        for threads in [2, 4, 8, 64] {
            for hold_ns in [0.0, 50.0, 100.0] {
                let pace = Pace { hold_ns, ..PACE };
                let hot = most_transfers(&vec![visitor(1e9, true); threads], &pace);
                // What each of them has computed and waited for, all at once.
                let lasts = 1e9 + hot / threads as f64 * 100.0;
                assert!(hot * 100.0 <= 1.001 * lasts, "{threads} threads, {hold_ns}: {hot}");
            }
        }
        // A short thread ends before the other has written often.
        let short = Visitor { instructions: 4e6, visits: 1e8, writes: true };
        let brief = most_transfers(&[short, visitor(1e9, true)], &PACE);
        assert!(brief * 100.0 <= 1.001 * (1e6 + brief / 2.0 * 100.0), "{brief}");
    }
}
