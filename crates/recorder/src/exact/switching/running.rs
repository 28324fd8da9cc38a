//! Runs the stretches of a step, one after the other.
//!
//! Neighbours: `stretches` and `solo` say what they are, `progress` when each ends, `switching`
//! what comes next.

use super::light::{MIN_LIGHT_NS, SETTLING_NS};
use super::stretches::{ANEW, BETWEEN, MIN_STRETCH_NS, Stretch, Tracking, tracked_parts};
use super::{Asking, Code, Part, Solo, Switching, WHOLE_SLICE_NS, solo};
use windows::{Assumed, Lengths, Phase, Step};

impl Switching<'_> {
    /// Begins a stretch of this part; returns what the stretch is.
    pub(super) fn run(&mut self, stretch: Stretch, part: Part) -> Part {
        (self.ends_ns, self.code) = (stretch.until_ns, stretch.code);
        let native = stretch.code == Code::Native;
        self.asking = if native { Asking::begin(self.last.0) } else { Asking::NEVER };
        self.anew = stretch.tracking == Tracking::BeginsStretch;
        self.solos.now = stretch.solo;
        let phase = match part.phase {
            Phase::Off | Phase::Late if stretch.tracking == Tracking::CountsLate => Phase::Late,
            Phase::Late => Phase::Off,
            other => other,
        };
        let part = Part { phase, checked: stretch.code == Code::Checked, ..part };
        self.look_at_end(part);
        part
    }

    /// Whether time goes by work in this part. Natively, work is not known, and a duty is one of
    /// wall-clock time; only with one, threads may not run natively.
    pub(super) fn goes_by_work(&self, part: Part) -> bool {
        let between = matches!(part.phase, Phase::Off | Phase::Late) && self.code != Code::Native;
        between && self.native && self.fixed_ns.is_none() && self.solos.now == Solo::No
    }

    /// Turns when the present stretch ends, or is to be looked at before.
    fn look_at_end(&mut self, part: Part) {
        let exact = if self.goes_by_work(part) { self.lengths().warm_up } else { u64::MAX };
        self.until_ns = self.progress.look(self.ends_ns, exact);
    }

    /// The present stretch goes on.
    pub(super) fn go_on(&mut self, part: Part) {
        self.anew = false;
        self.look_at_end(part);
        self.switched.parts.push(part);
    }

    /// The parts of a step, the first one last.
    pub(super) fn parts_of(&mut self, step: &Step, now_ns: u64, stretch: [u64; 2]) -> Vec<Stretch> {
        let checked = |until| Stretch::new(until, Code::Checked);
        match step.phase {
            Phase::Whole => vec![checked(step.until.max(now_ns + WHOLE_SLICE_NS))],
            Phase::Off | Phase::Late => {
                let light = step.light.min(step.until);
                let mut parts = tracked_parts(light.max(now_ns), step.until, stretch);
                if light > now_ns && self.always_checked {
                    parts.push(checked(light));
                } else if light > now_ns {
                    self.add_light(light, now_ns, &mut parts);
                }
                parts
            }
            Phase::Counting => {
                let half = now_ns + (step.until - now_ns) / 2;
                vec![checked(step.until), checked(half)]
            }
            Phase::WarmUp => vec![checked(step.until)],
        }
    }

    /// The time without checks, up to `until`: at first light, so that it is known what threads do,
    /// then native.
    fn add_light(&mut self, until: u64, now_ns: u64, parts: &mut Vec<Stretch>) {
        let length = until - now_ns;
        let for_solo = self.native_for_solo(now_ns);
        let (light, is_native) = match self.fixed_ns {
            Some(_) => (length / 2, true),
            None if self.scheduler.is_alone() => (length.min(MIN_LIGHT_NS), true),
            None => self.lit.split(length, self.budget, self.needs_native, for_solo),
        };
        let native = self.native && is_native;
        let lit = if native { now_ns + light } else { until };
        let alone_natively = self.is_alone_natively();
        if alone_natively {
            self.solos.begin_native();
        }
        let (off, budget) = (&self.spent.off, self.budget);
        if native {
            parts.extend(match alone_natively {
                true => self.solos.within([lit, until], Code::Native, off, budget),
                false => vec![Stretch::new(until, Code::Native)],
            });
        }
        parts.extend(match self.fixed_ns {
            Some(each) => solo::repeated(now_ns + each / 16, lit, 1, [each / 16; 2], Code::Light),
            None if alone_natively => vec![Stretch::new(lit, Code::Light)],
            None => {
                let settled = now_ns + SETTLING_NS;
                let parts = self.solos.within([now_ns, lit], Code::Light, off, budget);
                // Solo time divides it anyway.
                let divide = parts.len() == 1 && settled < lit;
                parts
                    .into_iter()
                    .chain(divide.then(|| Stretch::new(settled, Code::Light)))
                    .collect()
            }
        });
    }

    /// Whether solo time is native: only where words tell what threads do.
    fn is_alone_natively(&self) -> bool {
        self.native && self.lit.words_tell()
    }

    /// Native time that solo time wants now, ns.
    fn native_for_solo(&self, now_ns: u64) -> u64 {
        match self.is_alone_natively() {
            true => self.solos.native_ns(now_ns, self.budget),
            false => 0,
        }
    }

    /// The same with the light time that comes before; 0: none.
    pub(super) fn time_for_solo(&self, now_ns: u64) -> u64 {
        match self.native_for_solo(now_ns) {
            0 => 0,
            native => MIN_LIGHT_NS + native,
        }
    }

    /// How long both halves of a stretch are in which the program does as much as in a window, ns,
    /// by work or, with a duty, by the clock.
    pub(super) fn stretch(&self, lengths: Lengths) -> [u64; 2] {
        if let Some(each) = self.fixed_ns {
            return [each / 4; 2];
        }
        let windows = [lengths.warm_up, lengths.counting];
        [0, 1].map(|half| {
            let kind = if self.native { BETWEEN } else { ANEW + half };
            let slower = self.rates[kind].over(&self.rates[half]);
            let slower = slower.unwrap_or(Assumed::default().on).max(1.0);
            ((windows[half] as f64 / slower) as u64).max(MIN_STRETCH_NS)
        })
    }
}
