//! What processes are told of windows: the phase, and how windows are used.
//!
//! Neighbours: `switching` shows it, `session` the first of it.

use windows::{Dial, Phase};
use wire::windows::{FIRST_WINDOW, phase, used};

/// The phase in which a run begins.
pub(super) fn first_phase(dial: Dial) -> Phase {
    match dial {
        Dial::Budget(_) | Dial::Usual => Phase::Whole,
        Dial::Duty(_) => Phase::Off,
    }
}

/// The phase that programs find when they begin.
pub fn first_word(dial: Dial) -> u32 {
    word(FIRST_WINDOW, first_phase(dial), false)
}

/// How windows are used, one of [`used`].
pub fn way(dial: Option<Dial>) -> u32 {
    match dial {
        None => used::NO,
        Some(Dial::Duty(_)) => used::SHARE,
        Some(Dial::Budget(_) | Dial::Usual) => used::BUDGET,
    }
}

/// The word of a phase in this window.
pub(super) fn word(window: u32, now: Phase, light: bool) -> u32 {
    let now = match now {
        Phase::Off if light => phase::LIGHT,
        Phase::Off => phase::OFF,
        Phase::Late => phase::LATE,
        Phase::WarmUp => phase::WARM_UP,
        Phase::Whole | Phase::Counting => phase::COUNT,
    };
    phase::word(window, now)
}
