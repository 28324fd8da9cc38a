//! Windows: what the exact engine counts in short parts of the time, for programs that we start.
//! Also tells the work that they do between windows, in instructions.

use crate::sense::Sense;
use online::{Events, Observation, Work};
use recorder::live::Reader;
use std::time::Duration;

/// See the head of this file.
pub struct Windows<'a> {
    reader: Reader<'a>,
    over: &'a dyn Fn() -> bool,
    /// The recording cannot be read any more.
    broken: bool,
}

impl<'a> Windows<'a> {
    /// Of the program that `reader` reads; waits are cut short when it is `over`.
    pub fn new(reader: Reader<'a>, over: &'a dyn Fn() -> bool) -> Self {
        Self { reader, over, broken: false }
    }
}

impl Sense for Windows<'_> {
    fn words(&self) -> String {
        "windows of exact recording".into()
    }

    fn follow(&mut self, _: &[u32]) {}

    fn look(&mut self, seen: &mut Observation) {
        let Ok(reading) = self.reader.read() else {
            self.broken = true;
            return;
        };
        let events = reading.events.into_iter();
        seen.events.extend(events.map(|(from, to, count)| Events { from, to, count }));
        seen.counted_ns = reading.counted_ns;
        if reading.between_ns > 0 {
            let (amount, ns) = (reading.instructions as f64, reading.between_ns);
            seen.work.push(Work { process: 0, amount, ns });
        }
    }

    fn wait(&mut self, most: Duration) {
        if self.broken || self.reader.wait(most, self.over).is_err() {
            self.broken = true;
            std::thread::sleep(most);
        }
    }
}
