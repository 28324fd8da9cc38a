//! How often a line changes hands if all of its threads run natively at once: the most, and about.
//!
//! Problem: the number of transfers that a recording counts depends on how its threads happened to
//! overlap. How often each thread comes to the line does not. Approach: thread i comes to the line
//! V_i times in its run, and takes it no more often. Nobody takes a line that no other thread has
//! written since: there are at most as many takes as writes by the others. That is the most. But
//! threads also find the line still there. With p_i ns between two visits, a line that N threads
//! want goes round: a thread that comes more often than that makes 1 + N h / p_i visits each time
//! it has the line, where h ns are what it can go on for while it waits, so it takes the line at
//! most A_i = V_i / (1 + N h / p_i) times. And a line serves one transfer at a time: as long as two
//! of the threads run, there is about one for each latency. h is a guess: where two threads added
//! to neighbouring words, 40 million times each, there were twenty times as many transfers as that
//! tells. Where threads wait for each other otherwise there are fewer, which this cannot know. The
//! model is our own; that the latency of one line's accesses bounds what mending it gives is
//! Cheetah's idea (Liu and Liu, CGO 2016, section 3). Pure. Neighbour: `report` compares it with
//! what was counted.

/// A thread that uses a line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Visitor {
    /// Instructions of its run.
    pub instructions: f64,
    /// How often it comes to the line in its run.
    pub visits: f64,
    /// In how many of them it writes.
    pub writes: f64,
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
pub fn most_transfers(visitors: &[Visitor]) -> f64 {
    let visits: Vec<f64> = visitors.iter().map(|visitor| visitor.visits).collect();
    needed(visitors.iter().collect(), &visits).iter().sum()
}

/// Takes of each thread that find the line written by another, if they take it so often.
fn needed(visitors: Vec<&Visitor>, takes: &[f64]) -> Vec<f64> {
    let written_by = |(visitor, takes): (&&Visitor, &f64)| {
        if visitor.visits > 0.0 { takes * (visitor.writes / visitor.visits).min(1.0) } else { 0.0 }
    };
    let written: Vec<f64> = visitors.iter().zip(takes).map(written_by).collect();
    let all: f64 = written.iter().sum();
    takes.iter().zip(written).map(|(takes, own)| takes.min((all - own).max(0.0))).collect()
}

/// About how many transfers of a line there are over the whole run, if these threads use it.
pub fn likely_transfers(visitors: &[Visitor], pace: &Pace) -> f64 {
    let usable = |visitor: &&Visitor| visitor.visits > 0.0 && visitor.instructions > 0.0;
    let visitors: Vec<&Visitor> = visitors.iter().filter(usable).collect();
    let time_ns = |visitor: &Visitor| visitor.instructions * pace.instruction_ns;
    let takes = |visitor: &&Visitor| {
        let round_ns = visitors.len() as f64 * pace.hold_ns;
        visitor.visits / (1.0 + round_ns * visitor.visits / time_ns(visitor))
    };
    let takes: Vec<f64> = visitors.iter().map(takes).collect();
    let needed = needed(visitors.clone(), &takes);
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
        Visitor { instructions: 4e9, visits, writes: if writes { visits } else { 0.0 } }
    }

    #[test]
    fn a_thread_alone_and_readers_alone_transfer_nothing() {
        assert_eq!(likely_transfers(&[], &PACE), 0.0);
        assert_eq!(likely_transfers(&[visitor(1e6, true)], &PACE), 0.0);
        assert_eq!(likely_transfers(&[visitor(1e6, false), visitor(1e6, false)], &PACE), 0.0);
        assert_eq!(likely_transfers(&[visitor(0.0, true), visitor(0.0, true)], &PACE), 0.0);
    }

    #[test]
    fn there_are_no_more_than_the_visits_of_a_thread_on_its_own() {
        let two = likely_transfers(&[visitor(1e3, true), visitor(1e3, true)], &PACE);
        assert!((1.99e3..=2e3).contains(&two), "{two}");
        // Who comes often finds it gone only as often as the other has come.
        let uneven = likely_transfers(&[visitor(1e3, true), visitor(1e5, true)], &PACE);
        assert!(uneven <= 2e3, "{uneven}");
        // Each reader takes it about once after each write; the writer has nothing to take.
        let reads = [visitor(100.0, true), visitor(1e6, false), visitor(1e6, false)];
        let read = likely_transfers(&reads, &PACE);
        assert!((199.0..=200.0).contains(&read), "{read}");
    }

    #[test]
    fn the_most_is_a_transfer_for_each_visit() {
        let two = [visitor(4e7, true), visitor(4e7, true)];
        assert_eq!(most_transfers(&two), 8e7);
        assert!(likely_transfers(&two, &PACE) < 0.5 * most_transfers(&two));
        assert_eq!(most_transfers(&[visitor(1e3, true), visitor(1e5, true)]), 2e3);
        assert_eq!(most_transfers(&[visitor(1e3, true), visitor(1e5, false)]), 1e3);
        assert_eq!(most_transfers(&[visitor(1e3, true)]), 0.0);
        assert_eq!(most_transfers(&[visitor(1e3, false), visitor(1e3, false)]), 0.0);
        let hardly = Visitor { writes: 10.0, ..visitor(1e6, true) };
        assert_eq!(most_transfers(&[hardly; 3]), 60.0, "each of three misses 20 writes");
    }

    #[test]
    fn a_line_serves_one_transfer_for_each_latency() {
        for threads in [2, 4, 8, 64] {
            for hold_ns in [0.0, 50.0, 100.0] {
                let pace = Pace { hold_ns, ..PACE };
                let hot = likely_transfers(&vec![visitor(1e9, true); threads], &pace);
                // What each of them has computed and waited for, all at once.
                let lasts = 1e9 + hot / threads as f64 * 100.0;
                assert!(hot * 100.0 <= 1.001 * lasts, "{threads} threads, {hold_ns}: {hot}");
            }
        }
        // A short thread ends before the other has written often.
        let short = Visitor { instructions: 4e6, visits: 1e8, writes: 1e8 };
        let brief = likely_transfers(&[short, visitor(1e9, true)], &PACE);
        assert!(brief * 100.0 <= 1.001 * (1e6 + brief / 2.0 * 100.0), "{brief}");
    }
}
