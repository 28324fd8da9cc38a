//! How long a thread takes: instructions at a rate, and stalls that overlap.
//!
//! An interval model, as in Sniper (Carlson, Heirman, Eeckhout, SC'11): between misses a core
//! executes at its rate. Behind a miss it goes on until its window of instructions is full. Misses
//! in one window overlap, as far as their addresses could be known (`Prefetcher::regular`); of a
//! miss whose address could not, the next such one waits for it. Stores wait for nobody, but take
//! part in the limit of misses in flight. Neighbours: `system.rs` tells it what happens.

use crate::family::CoreFigures;

/// The code and the memory of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The instruction; 0 when unknown.
    pub site: u32,
    /// Number of the page.
    pub page: u32,
}

/// Time in which nothing was executed, and the access that came last of those it was waited for.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stall {
    /// The access.
    pub place: Place,
    /// The time, ns.
    pub ns: f64,
}

/// The time of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Simulated time, ns.
    pub now: f64,
    /// Of it, time in which nothing was executed because of misses, ns.
    pub stalled: f64,
    /// When the last of the misses in flight arrives, and which access it belongs to.
    until: f64,
    last: Place,
    /// Misses in flight; 0: none.
    flying: u32,
    /// Instructions since the first of them.
    since: f64,
    /// Whether one of them has an address that could not be known.
    dependent: bool,
}

/// An access that the innermost cache does not serve at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Miss {
    /// Whether its address could be known from those before it.
    pub regular: bool,
    /// Whether it is a store's.
    pub stores: bool,
    /// What is accessed.
    pub place: Place,
}

/// What a thread executes instructions with.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// ns per instruction while nothing stalls.
    pub ns: f64,
    /// The window, instructions.
    pub window: f64,
    /// Misses in flight at most.
    pub outstanding: u32,
}

impl Pace {
    /// Of a core's thread, alone or beside others.
    pub fn new(figures: &CoreFigures, ghz: f64, beside_others: bool) -> Self {
        let share = if beside_others { figures.smt_share } else { 1.0 };
        Self {
            ns: 1.0 / (figures.instructions_per_cycle * ghz * share),
            window: f64::from(figures.window),
            outstanding: figures.outstanding,
        }
    }
}

impl Clock {
    /// Executes instructions; says how long that stalled.
    pub fn execute(&mut self, instructions: f64, pace: &Pace) -> Stall {
        if self.flying > 0 && self.since + instructions >= pace.window {
            let fits = (pace.window - self.since).max(0.0);
            self.now += fits * pace.ns;
            let stall = self.wait();
            self.now += (instructions - fits) * pace.ns;
            return stall;
        }
        self.since += instructions;
        self.now += instructions * pace.ns;
        Stall::default()
    }

    /// A miss that takes `ns`; says how long those before it stalled.
    pub fn miss(&mut self, ns: f64, miss: Miss, pace: &Pace) -> Stall {
        let depends = !miss.regular && !miss.stores;
        let mut stall = Stall::default();
        if self.flying >= pace.outstanding || depends && self.dependent {
            stall = self.wait();
        }
        if self.flying == 0 {
            (self.since, self.until) = (0.0, self.now);
        }
        self.flying += 1;
        self.dependent |= depends;
        if self.now + ns >= self.until {
            (self.until, self.last) = (self.now + ns, miss.place);
        }
        stall
    }

    /// Waits until nothing is in flight; says how long that stalled.
    pub fn wait(&mut self) -> Stall {
        let mut stall = Stall { place: self.last, ns: 0.0 };
        if self.flying > 0 {
            stall.ns = (self.until - self.now).max(0.0);
            self.stalled += stall.ns;
            self.now = self.now.max(self.until);
        }
        (self.flying, self.dependent) = (0, false);
        stall
    }

    /// Time passes in which the thread does nothing: it waits for another one, or for a PU.
    pub fn idle_until(&mut self, time: f64) {
        self.now = self.now.max(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn miss(regular: bool, stores: bool) -> Miss {
        Miss { regular, stores, place: Place::default() }
    }

    const PACE: Pace = Pace { ns: 1.0, window: 100.0, outstanding: 4 };

    #[test]
    fn instructions_take_their_time() {
        let mut clock = Clock::default();
        clock.execute(10.0, &PACE);
        assert_eq!((clock.now, clock.stalled), (10.0, 0.0));
    }

    #[test]
    fn a_short_miss_is_hidden_and_a_long_one_stalls_the_window() {
        let mut clock = Clock::default();
        clock.miss(50.0, miss(true, false), &PACE);
        clock.execute(200.0, &PACE);
        assert_eq!((clock.now, clock.stalled), (200.0, 0.0));
        clock.miss(500.0, miss(true, false), &PACE);
        clock.execute(200.0, &PACE);
        // 100 instructions behind the miss, 400 ns of waiting, 100 more.
        assert_eq!((clock.now, clock.stalled), (800.0, 400.0));
    }

    #[test]
    fn misses_overlap_unless_one_needs_the_other() {
        let mut regular = Clock::default();
        let mut chased = Clock::default();
        for _ in 0..4 {
            regular.miss(100.0, miss(true, false), &PACE);
            chased.miss(100.0, miss(false, false), &PACE);
        }
        regular.wait();
        chased.wait();
        assert_eq!((regular.now, chased.now), (100.0, 400.0));
    }

    #[test]
    fn no_more_are_in_flight_than_may_be() {
        let mut clock = Clock::default();
        for _ in 0..8 {
            clock.miss(100.0, miss(true, true), &PACE);
        }
        clock.wait();
        assert_eq!(clock.now, 200.0);
    }

    /// The window is full while two misses are in flight: the one that takes longer stalls it.
    #[test]
    fn a_stall_is_that_of_the_miss_that_comes_last() {
        let mut clock = Clock::default();
        let of = |site| Miss { place: Place { site, page: 7 }, ..miss(true, false) };
        for (ns, site) in [(300.0, 1), (500.0, 2), (100.0, 3)] {
            assert_eq!(clock.miss(ns, of(site), &PACE).ns, 0.0);
        }
        let stall = clock.execute(100.0, &PACE);
        assert_eq!(stall, Stall { place: Place { site: 2, page: 7 }, ns: 400.0 });
        assert_eq!(clock.stalled, 400.0);
    }
}
