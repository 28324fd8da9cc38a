//! Timed runs of a program, unplaced and placed. Neighbour: `compare` decides which, and when to
//! end.

use crate::progress::Steps;
use anyhow::anyhow;
use placement::Plan;
use recorder::child::{Ended, Launch};
use recorder::launch::{How, launch};
use recorder::{Ending, RecorderError, Streams, Target, signals};

/// Times of one run, seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    pub wall: f64,
    pub cpu: f64,
}

/// Why measuring ended early.
#[derive(Debug)]
pub enum Stop {
    Interrupted { signal: i32 },
    Failed(anyhow::Error),
}

impl From<RecorderError> for Stop {
    fn from(error: RecorderError) -> Self {
        Stop::Failed(error.into())
    }
}

/// Runs one program again and again.
pub struct Runner<'a> {
    pub target: &'a Target,
    pub streams: Streams,
    /// Whether the program's standard input is a file that is read anew in each run.
    pub own_input: bool,
    /// How many runs are done of those planned.
    pub runs: Steps,
}

impl Runner<'_> {
    /// One run as the user would start it.
    pub fn unplaced(&self) -> Result<Times, Stop> {
        let launch = Launch::new(self.target, Vec::new(), &[], self.streams);
        self.checked(launch.start()?.wait(|| ())?)
    }

    /// One run under a plan.
    pub fn placed(&self, plan: &Plan) -> Result<Times, Stop> {
        let report = launch(self.target, plan, &How::ALL, self.streams, &())?;
        let times = self.checked(report.ended)?;
        let data = report.data.and_then(|data| data.inactive);
        match report.inactive.or(data) {
            None => Ok(times),
            Some(reason) => Err(Stop::Failed(anyhow!("the plan could not be applied: {reason}"))),
        }
    }

    /// The recorded run exited with 0, so the timed ones must.
    fn checked(&self, ended: Ended) -> Result<Times, Stop> {
        let passed_on = match ended.ending {
            Ending::Killed(signal) if signals::was_passed_on(signal) => Some(signal),
            _ => None,
        };
        if let Some(signal) = ended.interrupted.or(passed_on) {
            return Err(Stop::Interrupted { signal });
        }
        if ended.ending != Ending::Exited(0) {
            let hint = match self.own_input {
                true => "",
                false => {
                    "; if it reads its standard input, give it a file ('< FILE'), which every \
                          run can read anew"
                }
            };
            return Err(Stop::Failed(anyhow!(
                "a timed run of the program {}, while the recorded one exited with status 0{hint}",
                ended.ending.in_words()
            )));
        }
        self.runs.did_one();
        Ok(Times { wall: ended.wall.as_secs_f64(), cpu: ended.cpu.as_secs_f64() })
    }
}
