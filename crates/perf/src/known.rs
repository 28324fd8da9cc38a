//! What earlier probing has found, so that later probing need not try it again.
//!
//! Problem: trying events and measuring what a sample costs takes tens of milliseconds of a
//! processor, each time. Approach: what has responded once will again, as long as the machine is
//! the same (the caller that keeps this must make sure of that). What has not may only have been in
//! use, or two processors too busy: it is believed after some failures in a row. What a sample
//! costs, and an armed debug register, is the median of the first few measurements.
//!
//! Neighbour: `probe` tries what is not known here.

use crate::armed::Armed;
use crate::cost::Cost;
use crate::event::Event;
use crate::probe::{Answer, Source};
use statistics::median;

/// This many failures in a row are believed, and this many measurements are enough.
const ENOUGH: usize = 3;
/// Begins the text; changes with its form.
const HEAD: &str = "threadtalk probed 3";

/// What was found, in the order of probing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Known {
    tried: Vec<Tried>,
    costs: Vec<Measured>,
    armed: Vec<Armed>,
}

/// An event that was tried.
#[derive(Clone, PartialEq, Debug)]
struct Tried {
    key: String,
    answer: Answer,
    /// How many times in a row it was this one.
    times: usize,
}

/// A measurement of what samples of an event cost.
#[derive(Clone, PartialEq, Debug)]
struct Measured {
    key: String,
    cost: Cost,
}

impl Known {
    /// The answer of an event, from `ask` where it is not known well enough; what has worked must
    /// still `open`.
    pub(crate) fn answer(
        &mut self,
        source: Source,
        event: &Event,
        opens: impl FnOnce() -> bool,
        ask: impl FnOnce() -> Answer,
    ) -> Answer {
        let key = key(source, event);
        let Some(known) = self.tried.iter_mut().find(|tried| tried.key == key) else {
            let answer = ask();
            self.tried.push(Tried { key, answer: answer.clone(), times: 1 });
            return answer;
        };
        let believed = match known.answer.works() {
            true => opens(),
            false => known.times >= ENOUGH,
        };
        if !believed {
            let answer = ask();
            let same = known.answer.works() == answer.works();
            known.times = if same { known.times + 1 } else { 1 };
            known.answer = answer;
        }
        known.answer.clone()
    }

    /// What a sample of an event costs, from `measure` while that has not been done often enough.
    pub(crate) fn cost<E>(
        &mut self,
        source: Source,
        event: &Event,
        measure: impl FnOnce() -> Result<Cost, E>,
    ) -> Result<Cost, E> {
        let key = key(source, event);
        let mut all: Vec<Cost> =
            self.costs.iter().filter(|known| known.key == key).map(|known| known.cost).collect();
        if all.len() < ENOUGH {
            match measure() {
                Ok(cost) => {
                    self.costs.push(Measured { key, cost });
                    all.push(cost);
                }
                Err(error) if all.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(middle(&all))
    }

    /// What an armed debug register costs, from `measure` while that has not been done often
    /// enough.
    pub(crate) fn armed(&mut self, measure: impl FnOnce() -> Option<Armed>) -> Option<Armed> {
        if self.armed.len() < ENOUGH {
            self.armed.extend(measure());
        }
        let of = |number: fn(&Armed) -> f64| median_of(self.armed.iter().map(number));
        let known =
            || Armed { stores: of(|armed| armed.stores), trap_ns: of(|armed| armed.trap_ns) };
        (!self.armed.is_empty()).then(known)
    }

    /// As text, to be kept.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for Tried { key, answer, times } in &self.tried {
            let line = match answer {
                Answer::Works(how) => format!("works\t{key}\t{times}\t{}", plain(how)),
                Answer::Fails { why, remedy } => {
                    let remedy = remedy.as_deref().map_or(String::new(), plain);
                    format!("fails\t{key}\t{times}\t{}\t{remedy}", plain(why))
                }
            };
            text += &format!("{line}\n");
        }
        for Measured { key, cost: Cost { sample_ns, spread_ns, samples, switch_ns } } in &self.costs
        {
            text += &format!("costs\t{key}\t{sample_ns}\t{spread_ns}\t{samples}\t{switch_ns}\n");
        }
        for Armed { stores, trap_ns } in &self.armed {
            text += &format!("armed\t{stores}\t{trap_ns}\n");
        }
        text
    }

    /// What [`Known::to_text`] has written; `None`: it is something else.
    pub fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return None;
        }
        let mut known = Self::default();
        for line in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |text: &str| text.parse().ok().filter(|n: &f64| n.is_finite());
            match fields[..] {
                ["works", key, times, how] => {
                    let answer = Answer::Works(how.into());
                    known.tried.push(Tried { key: key.into(), answer, times: times.parse().ok()? });
                }
                ["fails", key, times, why, remedy] => {
                    let remedy = (!remedy.is_empty()).then(|| remedy.into());
                    let answer = Answer::Fails { why: why.into(), remedy };
                    known.tried.push(Tried { key: key.into(), answer, times: times.parse().ok()? });
                }
                ["costs", key, sample_ns, spread_ns, samples, switch_ns] => {
                    let cost = Cost {
                        sample_ns: number(sample_ns)?,
                        spread_ns: number(spread_ns)?,
                        samples: samples.parse().ok()?,
                        switch_ns: number(switch_ns)?,
                    };
                    known.costs.push(Measured { key: key.into(), cost });
                }
                ["armed", stores, trap_ns] => {
                    let (stores, trap_ns) = (number(stores)?, number(trap_ns)?);
                    known.armed.push(Armed { stores, trap_ns });
                }
                _ => return None,
            }
        }
        Some(known)
    }
}

/// What an event is known by.
fn key(source: Source, event: &Event) -> String {
    let Event { name, kind, config, config1, config2, precise, supplies, user_only, watch, cpus } =
        event;
    let (name, cpus) = (plain(name), cpus.as_ref().map_or(0, Vec::len));
    format!(
        "{source:?} {name} {kind} {config:x} {config1:x} {config2:x} {precise} {supplies:?} {user_only} {watch:?} \
         {cpus}"
    )
}

/// Text without what ends fields and lines.
fn plain(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

/// Of each number the middle one; of none, nothing.
fn middle(all: &[Cost]) -> Cost {
    let of = |number: fn(&Cost) -> f64| median_of(all.iter().map(number));
    Cost {
        sample_ns: of(|cost| cost.sample_ns),
        spread_ns: of(|cost| cost.spread_ns),
        samples: all.iter().map(|cost| cost.samples).sum(),
        switch_ns: of(|cost| cost.switch_ns),
    }
}

/// The median; of none, 0.
fn median_of(all: impl Iterator<Item = f64>) -> f64 {
    median(&mut all.collect::<Vec<_>>()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn works() -> Answer {
        Answer::Works("7 samples".into())
    }

    fn fails(why: &str) -> Answer {
        Answer::Fails { why: why.into(), remedy: Some("sysctl\tx".into()) }
    }

    fn cost(sample_ns: f64, switch_ns: f64) -> Cost {
        Cost { sample_ns, spread_ns: 1.5, samples: 10, switch_ns }
    }

    #[test]
    fn what_works_is_tried_once_and_what_fails_three_times_in_a_row() {
        let (mut known, event) = (Known::default(), Event::cycles());
        assert_eq!(known.answer(Source::Clock, &Event::cpu_clock(), || true, works), works());
        let again =
            known.answer(Source::Clock, &Event::cpu_clock(), || true, || panic!("tried again"));
        assert_eq!(again, works());
        // The same event may be tried for something else.
        assert_eq!(known.answer(Source::Cycles, &event, || true, || fails("busy")), fails("busy"));
        assert_eq!(known.answer(Source::Memory, &event, || true, || fails("busy")), fails("busy"));
        for why in ["once more", "a third time"] {
            assert_eq!(known.answer(Source::Cycles, &event, || true, || fails(why)), fails(why));
        }
        let again = known.answer(Source::Cycles, &event, || true, || panic!("tried again"));
        assert_eq!(again, fails("a third time"));
        assert_eq!(known.answer(Source::Memory, &event, || true, works), works());
        // Another process uses it now.
        let used = known.answer(Source::Memory, &event, || false, || fails("in use"));
        assert_eq!(used, fails("in use"));
    }

    #[test]
    fn a_cost_is_the_median_of_the_first_three() {
        let (mut known, event) = (Known::default(), Event::cpu_clock());
        let mut measure = |measured: Result<Cost, &'static str>| {
            known.cost(Source::Clock, &event, || measured).map(|cost| cost.sample_ns)
        };
        assert_eq!(measure(Err("nothing")), Err("nothing"));
        assert_eq!(measure(Ok(cost(9.0, 2.0))), Ok(9.0));
        assert_eq!(measure(Err("nothing")), Ok(9.0));
        measure(Ok(cost(1.0, 3.0))).unwrap();
        assert_eq!(measure(Ok(cost(4.0, 1.0))), Ok(4.0));
        assert_eq!(measure(Ok(cost(100.0, 100.0))), Ok(4.0));
        let all = known.cost::<()>(Source::Clock, &event, || panic!("measured again")).unwrap();
        assert_eq!((all.switch_ns, all.samples), (2.0, 30));
    }

    #[test]
    fn what_an_armed_register_costs_is_the_median_of_the_first_three() {
        let mut known = Known::default();
        let armed = |stores, trap_ns| Some(Armed { stores, trap_ns });
        assert_eq!(known.armed(|| None), None);
        assert_eq!(known.armed(|| armed(9.0, 50.0)), armed(9.0, 50.0));
        assert_eq!(known.armed(|| None), armed(9.0, 50.0));
        known.armed(|| armed(1.0, 70.0));
        assert_eq!(known.armed(|| armed(7.5, 90.0)), armed(7.5, 70.0));
        assert_eq!(known.armed(|| panic!("measured again")), armed(7.5, 70.0));
    }

    #[test]
    fn text_tells_it_all_and_nothing_else_is_taken_for_it() {
        let mut known = Known::default();
        known.answer(Source::Clock, &Event::cpu_clock(), || true, works);
        known.answer(Source::Cycles, &Event::cycles(), || true, || fails("two\nlines"));
        known.cost::<()>(Source::Clock, &Event::cpu_clock(), || Ok(cost(2.25, 0.0))).unwrap();
        known.armed(|| Some(Armed { stores: 7.5, trap_ns: 8.25 }));
        let text = known.to_text();
        let read = Known::of_text(&text).expect("our own text");
        assert_eq!(read.to_text(), text);
        assert_eq!((&read.costs, &read.armed), (&known.costs, &known.armed));
        assert_eq!(Known::of_text(&text.replace("2.25", "x")), None);
        assert_eq!(Known::of_text(&text.replace("8.25", "inf")), None);
        assert_eq!(Known::of_text(""), None);
        assert_eq!(Known::of_text(&text.replace("probed 3", "probed 2")), None);
    }
}
