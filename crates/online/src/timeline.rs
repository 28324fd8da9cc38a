//! What the decider did, in sentences.

use crate::decision::{Note, Proof, Why};

fn percent(part: f64) -> String {
    match part * 100.0 {
        whole if whole >= 10.0 => format!("{whole:.0} %"),
        whole => format!("{whole:.1} %"),
    }
}

fn several(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn interval(ratio: f64, low: f64, high: f64) -> String {
    format!("{ratio:.2}x the work (95 % interval {low:.2} to {high:.2})")
}

fn named(placement: Option<&str>) -> String {
    placement.map_or("no placement".into(), |name| format!("the placement '{name}'"))
}

/// A note as a sentence without its full stop.
pub fn sentence(note: &Note) -> String {
    match note {
        Note::Placed { moved, tasks, saving, gain, proof } => format!(
            "placed {} of {}: communication costs {} less, estimated gain {}; {}",
            moved,
            several(*tasks, "thread"),
            percent(*saving),
            percent(*gain),
            known(*proof)
        ),
        Note::Begun { tasks, left: 0 } => {
            format!("placed {} as recorded", several(*tasks, "thread"))
        }
        Note::Begun { tasks, left } => {
            format!("placed {} as recorded; {left} left alone", several(*tasks, "thread"))
        }
        Note::Tried { placement } => format!("tries {}", named(placement.as_deref())),
        Note::Chosen { placement, ratio } => {
            let name = named(placement.as_deref());
            format!("stays with {name}: {ratio:.2}x the work done without")
        }
        Note::Left { why } => format!("left alone: {}", reason(why)),
        Note::Kept { ratio, low, high } => {
            format!("kept: the placement does {}", interval(*ratio, *low, *high))
        }
        Note::Undone { ratio, low, high, until_s } => format!(
            "undone: the placement does {}; not tried again before {until_s:.1} s",
            interval(*ratio, *low, *high)
        ),
        Note::Idle { process, before, after, until_s } => format!(
            "undone for process {process}: with the placement, its threads wait {} of their time \
             while processors are idle, {} before; not tried again before {until_s:.1} s",
            percent(*after),
            percent(*before)
        ),
        Note::Paused => "the placement is taken back for a moment, to compare".into(),
        Note::Resumed => "the placement is applied again".into(),
        Note::Changed => "communication has changed".into(),
        Note::GivenBack { tasks } => {
            format!(
                "communication has changed: {} released until it is known how",
                several(*tasks, "thread")
            )
        }
        Note::Pages { local, interleaved, waiting } => format!(
            "moved {} to the nodes that use them, {} in turns over all nodes; {} wait",
            several(*local, "page"),
            interleaved,
            waiting
        ),
        Note::Refused { task } => {
            format!("thread {task} cannot be bound; it is left alone for a while")
        }
        Note::TooMany { tasks } => {
            format!(
                "{} beyond the {} that are looked at",
                several(*tasks, "thread"),
                crate::MAX_TASKS
            )
        }
    }
}

/// How a placement is known to help.
fn known(proof: Proof) -> &'static str {
    match proof {
        Proof::Measured => "its effect is measured",
        Proof::Earlier => "one like it has just helped",
        Proof::None => "unproven: nothing measures it",
    }
}

/// Why tasks are left where they are, likewise.
pub fn reason(why: &Why) -> String {
    match why {
        Why::Alone => "fewer than two threads compute".into(),
        Why::Pinned { computing } => format!(
            "of {} that compute, fewer than two may be bound: the others are pinned, or could not be bound",
            several(*computing, "thread")
        ),
        Why::Later => "it is tried once it is known how much work is done without it".into(),
        Why::NoSense => "nothing here tells which threads communicate".into(),
        Why::NoWork => "nothing tells how much work is done; add --metric".into(),
        Why::TooLittle { events, needed } => {
            let (events, needed) = (events.floor(), needed.ceil());
            format!("too little communication was seen ({events:.0} of {needed:.0} events)")
        }
        Why::Chance { saving, error } if *saving <= 0.0005 => {
            format!("no placement seems to save anything (standard error {})", percent(*error))
        }
        Why::Chance { saving, error } => format!(
            "what a placement seems to save ({}, standard error {}) may be chance",
            percent(*saving),
            percent(*error)
        ),
        Why::AsGood { saving } => {
            format!("no placement is enough better than this one ({})", percent(*saving))
        }
        Why::Quiet { gain } => {
            format!("communication takes too little time: the estimated gain is {}", percent(*gain))
        }
        Why::NotWorth { gain_s, cost_s } => format!(
            "moving would cost {cost_s:.3} s and gain {gain_s:.3} s, if the threads live on as long \
             as they have lived"
        ),
        Why::Tried { until_s } => {
            format!("no gain could be shown when it was tried; not again before {until_s:.1} s")
        }
        Why::Unproven { saving } => format!(
            "whether it helps cannot be measured, and it would save only {} of what communication costs",
            percent(*saving)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_sentences() {
        let placed =
            Note::Placed { moved: 2, tasks: 4, saving: 0.97, gain: 0.031, proof: Proof::Measured };
        assert_eq!(
            sentence(&placed),
            "placed 2 of 4 threads: communication costs 97 % less, estimated gain 3.1 %; its effect is \
             measured"
        );
        let why = Why::Chance { saving: 0.04, error: 0.05 };
        assert_eq!(
            sentence(&Note::Left { why }),
            "left alone: what a placement seems to save (4.0 %, standard error 5.0 %) may be chance"
        );
    }
}
