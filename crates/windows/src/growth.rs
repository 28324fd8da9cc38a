//! What threads do natively, by words in memory that grow with the program's work.
//!
//! Problem: natively, nothing counts what threads execute. Light code does, but its counters take
//! room in the processor's store buffer. A loop that stores to a line that others store to as well
//! can be three times as slow in light code for that, which its steps do not tell. Approach: on
//! such lines, programs keep counters and sums, of floating-point numbers as well. Where a word
//! grows by as much for an instruction of the thread that writes it in light code as in checked
//! code, which is slowed in other ways, it grows with the work, and so tells natively how much was
//! done. A word that holds a time, or anything else that does not grow evenly, is none. A place on
//! a stack may be used for something else at any time: what would be far too much work for the time
//! is not believed, and of several words the middle one is.
//!
//! Pure. Neighbours: the recorder's `monitor/growing` chooses lines and reads them, [`Comparison`]
//! compares light time with native time.
//!
//! [`Comparison`]: crate::Comparison

use crate::constants::{
    FADES, MAX_DEVIATION, MAX_OTHERWISE, MAX_SLOWER, MILLISECOND, MIN_KNOWN, MIN_SLICES, MOST_EVEN,
    MOST_WRITES,
};
use std::collections::BTreeMap;

/// Bytes of a line.
pub const LINE_BYTES: usize = 64;
/// A line as it is in memory.
pub type Bytes = [u8; LINE_BYTES];

/// The code that threads ran in a slice of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ran {
    /// Code with checks, in windows or outside.
    Checked,
    /// Translated code without checks.
    Light,
    /// The program's own.
    Native,
    /// The same, but only one of them.
    Alone,
}

/// A line that threads write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// Where it begins.
    pub address: u64,
    /// Threads, bytes that they write, bit i = byte i, and with how many events.
    pub by: Vec<(u32, u64, u64)>,
}

impl Written {
    /// The thread that writes most of what lies in these bytes; `None`: several do, or none.
    fn writer(&self, mask: u64) -> (u64, Option<u32>) {
        let mut events: BTreeMap<u32, u64> = BTreeMap::new();
        for (thread, _, count) in self.by.iter().filter(|(_, bytes, _)| bytes & mask != 0) {
            *events.entry(*thread).or_default() += count;
        }
        let all: u64 = events.values().sum();
        let first = events.into_iter().max_by_key(|(_, count)| *count);
        // Another one may have written it before this one did.
        let alone = first.filter(|(_, count)| *count as f64 >= MOST_WRITES * all as f64);
        (all, alone.map(|(thread, _)| thread))
    }
}

/// What a word may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Number {
    Int32,
    Int64,
    Float32,
    Float64,
}

impl Number {
    const ALL: [Self; 4] = [Self::Int32, Self::Int64, Self::Float32, Self::Float64];

    fn bytes(self) -> usize {
        match self {
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// By how much it has grown, signed; from and to words of as many bytes.
    fn growth(self, before: u64, now: u64) -> f64 {
        let grown = now.wrapping_sub(before);
        match self {
            Self::Int32 => f64::from(grown as i32),
            Self::Int64 => grown as i64 as f64,
            Self::Float32 => f64::from(f32::from_bits(now as u32) - f32::from_bits(before as u32)),
            Self::Float64 => f64::from_bits(now) - f64::from_bits(before),
        }
    }
}

/// Part of a line that may hold a number.
#[derive(Clone, PartialEq, Debug)]
struct Word {
    offset: usize,
    number: Number,
    /// The thread that writes it; `None`: several do.
    writer: Option<u32>,
    /// In light slices: how many, and with more weight of later ones, work, growth, and the square
    /// of growth over work. Work is that of the writer, or of all threads.
    light: [f64; 4],
    /// Growth and work in slices with checks.
    checked: [f64; 2],
    /// It grew the other way in some slice.
    ended: bool,
}

impl Word {
    fn new(offset: usize, number: Number, writer: Option<u32>) -> Self {
        Self { offset, number, writer, light: [0.0; 4], checked: [0.0; 2], ended: false }
    }

    fn growth(&self, before: &Bytes, now: &Bytes) -> f64 {
        let value = |line: &Bytes| {
            let (mut word, bytes) = ([0; 8], self.number.bytes());
            word[..bytes].copy_from_slice(&line[self.offset..self.offset + bytes]);
            u64::from_le_bytes(word)
        };
        self.number.growth(value(before), value(now))
    }

    /// Growth for each unit of work, where it is known and always about the same; and how far it
    /// deviates, as a part.
    fn rate(&self) -> Option<(f64, f64)> {
        let [slices, work, grown, squares] = self.light;
        if self.ended || slices < MIN_SLICES {
            return None;
        }
        let rate = grown / work;
        let variance = (squares / work - rate * rate).max(0.0);
        let [grown, work] = self.checked;
        let otherwise = grown / work / rate;
        let same = (1.0 / MAX_OTHERWISE..=MAX_OTHERWISE).contains(&otherwise);
        let deviation = variance.sqrt() / rate.abs();
        (same && deviation <= MAX_DEVIATION).then_some((rate, deviation))
    }

    fn see(&mut self, ran: Ran, grown: f64, work: f64) {
        match ran {
            Ran::Native | Ran::Alone => self.ended |= self.light[2] * grown < 0.0,
            _ if work == 0.0 => {}
            Ran::Checked => {
                self.checked[0] += grown;
                self.checked[1] += work;
            }
            Ran::Light => {
                self.ended |= self.light[2] * grown < 0.0;
                let more = [0.0, work, grown, grown * grown / work];
                let slices = self.light[0] + 1.0;
                self.light = std::array::from_fn(|k| FADES * self.light[k] + more[k]);
                self.light[0] = slices;
            }
        }
    }
}

/// A line, and its words that threads write.
#[derive(Clone, PartialEq, Debug)]
struct Line {
    address: u64,
    words: Vec<Word>,
    last: Option<Bytes>,
}

impl Line {
    fn new(written: &Written) -> Self {
        let word = |at: usize, number: Number| {
            let mask = u64::MAX >> (LINE_BYTES - number.bytes()) << at;
            let (events, writer) = written.writer(mask);
            (events > 0).then(|| Word::new(at, number, writer))
        };
        let of = |number: Number| {
            (0..LINE_BYTES).step_by(number.bytes()).filter_map(move |at| word(at, number))
        };
        let words = Number::ALL.into_iter().flat_map(of).collect();
        Self { address: written.address, words, last: None }
    }

    /// Whether both have the same words.
    fn is_like(&self, other: &Self) -> bool {
        let place = |word: &Word| (word.offset, word.number, word.writer);
        let words = |line: &Self| line.words.iter().map(place).collect::<Vec<_>>();
        self.address == other.address && words(self) == words(other)
    }
}

/// The lines of a process whose words may grow with its work.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Growth {
    lines: Vec<Line>,
    /// What each thread did in light slices, the latest ones with more weight.
    light: BTreeMap<u32, f64>,
    /// The processor time of these, ns.
    light_ns: f64,
}

/// What is said of a process's time is late by this much at the most, ns.
const LATE_NS: u64 = 10 * MILLISECOND;

impl Growth {
    /// Looks at these lines from now on.
    pub fn look_at(&mut self, lines: &[Written]) {
        let mut known = std::mem::take(&mut self.lines);
        self.lines = lines
            .iter()
            .map(|written| {
                let new = Line::new(written);
                let place = known.iter().position(|line| line.is_like(&new));
                place.map_or(new, |at| known.swap_remove(at))
            })
            .collect();
    }

    /// Addresses of its lines.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.lines.iter().map(|line| line.address)
    }

    /// A slice is over in which threads ran such code, or some of each (`None`), for `cpu_ns` of
    /// processor time, and counted this work, by thread; `lines` is what the lines hold now, in the
    /// order of [`Self::addresses`], where they could be read. Returns how much work was done: what
    /// was counted, or natively what the words tell. `None` if no word is known to grow with the
    /// work.
    pub fn see(
        &mut self,
        ran: Option<Ran>,
        cpu_ns: u64,
        work: &[(u32, u64)],
        lines: &[Option<Bytes>],
    ) -> Option<u64> {
        let of = |thread: u32| work.iter().filter(move |one| one.0 == thread).map(|one| one.1);
        let all: u64 = work.iter().map(|one| one.1).sum();
        let most = self.most(ran, cpu_ns);
        // By writer: the deviation of each word, and what it tells.
        let mut done: BTreeMap<Option<u32>, Vec<(f64, f64)>> = BTreeMap::new();
        for (line, now) in self.lines.iter_mut().zip(lines) {
            let before = std::mem::replace(&mut line.last, *now);
            let (Some(before), Some(now), Some(ran)) = (before, now, ran) else { continue };
            for word in &mut line.words {
                let grown = word.growth(&before, now);
                if let Some((rate, deviation)) = word.rate() {
                    let told = grown / rate;
                    word.ended = !(0.0..=most).contains(&told);
                    if !word.ended {
                        done.entry(word.writer).or_default().push((deviation, told));
                    }
                }
                let work = word.writer.map_or(all, |thread| of(thread).sum());
                word.see(ran, grown, work as f64);
            }
        }
        let done: BTreeMap<Option<u32>, f64> =
            done.into_iter().map(|(writer, told)| (writer, middle(told))).collect();
        match ran? {
            Ran::Checked => None,
            Ran::Light => {
                self.light.values_mut().for_each(|light| *light *= FADES);
                self.light_ns = FADES * self.light_ns + cpu_ns as f64;
                work.iter().for_each(|&(thread, work)| {
                    *self.light.entry(thread).or_default() += work as f64;
                });
                self.all(&done).map(|_| all)
            }
            Ran::Native => self.all(&done).map(|work| work as u64),
            Ran::Alone => {
                let own = done.iter().filter(|(writer, _)| writer.is_some());
                Some(own.map(|(_, work)| *work as u64).sum())
            }
        }
    }

    /// What all threads did, by what those did whose words tell it, or by words that several write.
    fn all(&self, done: &BTreeMap<Option<u32>, f64>) -> Option<f64> {
        let told = done.iter().filter_map(|(writer, work)| Some(((*writer)?, work)));
        let (mut sum, mut light) = (0.0, 0.0);
        for (thread, work) in told {
            sum += work;
            light += self.light.get(&thread).copied().unwrap_or(0.0);
        }
        let all: f64 = self.light.values().sum();
        match light >= MIN_KNOWN * all && light > 0.0 {
            true => Some(sum * all / light),
            false => done.get(&None).copied(),
        }
    }

    /// The most work that threads can have done in so much processor time.
    fn most(&self, ran: Option<Ran>, cpu_ns: u64) -> f64 {
        let rate = self.light.values().sum::<f64>() / self.light_ns;
        match ran {
            Some(Ran::Native | Ran::Alone) if self.light_ns > 0.0 => {
                MAX_SLOWER * rate * (cpu_ns + LATE_NS) as f64
            }
            _ => f64::INFINITY,
        }
    }
}

/// What the middle one tells of the most even words.
fn middle(mut words: Vec<(f64, f64)>) -> f64 {
    words.sort_by(|a, b| a.0.total_cmp(&b.0));
    words.truncate(MOST_EVEN);
    words.sort_by(|a, b| a.1.total_cmp(&b.1));
    words[(words.len() - 1) / 2].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    const ADDRESS: u64 = 0x1000;
    const SLICE_NS: u64 = 4 * MILLISECOND;

    fn line(values: [u64; 2]) -> Bytes {
        let mut bytes = [0; LINE_BYTES];
        bytes[8..16].copy_from_slice(&values[0].to_le_bytes());
        bytes[16..24].copy_from_slice(&values[1].to_le_bytes());
        bytes
    }

    fn written(by: &[(u32, u64, u64)]) -> Written {
        Written { address: ADDRESS, by: by.to_vec() }
    }

    /// Checked, light and native slices in turns, in which two threads do as much as `next` says,
    /// by the kind of time; it also says what the two words of a line hold then. Returns what all
    /// did in the last native slice, in truth and as the words tell.
    fn told(
        by: &[(u32, u64, u64)],
        next: &mut dyn FnMut(Ran) -> ([u64; 2], [u64; 2]),
    ) -> (u64, Option<u64>) {
        let mut growth = Growth::default();
        growth.look_at(&[written(by)]);
        let mut last = (0, None);
        for ran in [Ran::Checked, Ran::Light, Ran::Native].repeat(6) {
            let (work, words) = next(ran);
            let counted = if ran == Ran::Native { [0; 2] } else { work };
            let told = growth.see(
                Some(ran),
                SLICE_NS,
                &[(1, counted[0]), (2, counted[1])],
                &[Some(line(words))],
            );
            last = (work.iter().sum(), told);
        }
        last
    }

    fn near((truth, told): (u64, Option<u64>)) -> bool {
        told.is_some_and(|told| (told as f64 / truth as f64 - 1.0).abs() < 0.01)
    }

    /// Each thread writes one of the words; the second one has cleared that of the first.
    const APART: [(u32, u64, u64); 3] = [(1, 0xff00, 95), (2, 0xff00, 5), (2, 0xff_0000, 50)];

    #[test]
    fn counters_tell_what_each_thread_did_natively() {
        // Chance says who has a processor. One counts down, and runs over.
        let (mut random, mut words) = (Random::new(5), [7, 1000_u64]);
        let told = told(&APART, &mut |_| {
            let work = [0; 2].map(|_| random.up_to(1_000_000));
            words[0] += work[0] / 10;
            words[1] = words[1].wrapping_sub(work[1] / 4);
            (work, words)
        });
        assert!(near(told), "{told:?}");
    }

    #[test]
    fn one_thread_stands_for_both_and_so_does_what_both_write() {
        let mut word = 0;
        let work = [300_000, 700_000];
        let one = told(&[(1, 0xff00, 1)], &mut |_| {
            word += work[0];
            (work, [word, 0])
        });
        assert!(near(one), "{one:?}");
        let both = told(&[(1, 0xff00, 50), (2, 0xff00, 40)], &mut |_| {
            word += work[0] + work[1];
            (work, [word, 0])
        });
        assert!(near(both), "{both:?}");
    }

    #[test]
    fn what_does_not_grow_evenly_tells_nothing() {
        let (mut random, work) = (Random::new(3), [100_000; 2]);
        assert_eq!(told(&APART, &mut |_| (work, [random.up_to(1 << 40), 0])).1, None);
        let mut now_and_then = [0, 0];
        let waves = told(&APART, &mut |_| {
            now_and_then[1] += 1;
            now_and_then[0] += 1_000_000 * u64::from(now_and_then[1] % 5 == 0);
            (work, [now_and_then[0], 0])
        });
        assert_eq!(waves.1, None);
        assert_eq!(told(&APART, &mut |_| (work, [5, 5])).1, None, "never changes");
    }

    #[test]
    fn sums_of_floating_point_numbers_tell_too() {
        let mut sums = [0.5_f64, 1e6];
        let work = [300_000, 700_000];
        let told = told(&APART, &mut |_| {
            sums[0] += 0.125 * work[0] as f64;
            sums[1] -= 3.0 * work[1] as f64;
            (work, sums.map(f64::to_bits))
        });
        assert!(near(told), "{told:?}");
        let bits = |number: f32| u64::from(number.to_bits());
        assert_eq!(Number::Float32.growth(bits(1.5), bits(-2.0)), -3.5);
        assert_eq!(Number::Int32.growth(0xffff_ffff, 2), 3.0);
    }

    #[test]
    fn a_word_that_holds_a_time_is_none() {
        // Code with checks takes five times as long.
        let mut time = 0;
        let told = told(&APART, &mut |ran| {
            time += match ran {
                Ran::Checked => 500_000,
                Ran::Light => 100_000,
                Ran::Native | Ran::Alone => 50_000,
            };
            ([100_000; 2], [time, time])
        });
        assert_eq!(told.1, None);
    }

    /// Words of a stack hold how often a function was called, and natively one of them an address.
    #[test]
    fn a_place_that_is_used_for_something_else_tells_nothing() {
        let (mut count, mut native) = (0, 0);
        let only = told(&[(1, 0xff00, 1)], &mut |ran| {
            count += 1000;
            native += u64::from(ran == Ran::Native);
            let word = if native == 6 { 0x7fff_0000_1000 } else { count };
            ([100_000; 2], [word, 0])
        });
        assert_eq!(only.1, None);
        assert_eq!(middle(vec![(0.1, 100.0), (0.2, 104.0), (0.01, 900.0), (0.4, 9000.0)]), 104.0);
        assert_eq!(middle(vec![(0.1, 100.0), (0.2, 900.0)]), 100.0);
    }

    #[test]
    fn lines_that_stay_are_known_further() {
        let mut growth = Growth::default();
        let see = |growth: &mut Growth, lines: &[Option<Bytes>]| {
            growth.see(Some(Ran::Light), SLICE_NS, &[(1, 1000)], lines)
        };
        growth.look_at(&[written(&APART)]);
        see(&mut growth, &[Some(line([0, 0]))]);
        let other = Written { address: 2 * ADDRESS, by: vec![(1, 1, 1)] };
        growth.look_at(&[other, written(&APART)]);
        assert_eq!(growth.addresses().collect::<Vec<_>>(), [2 * ADDRESS, ADDRESS]);
        assert!(growth.lines[0].last.is_none() && growth.lines[1].last.is_some());
        see(&mut growth, &[Some(line([0, 0])), None]);
        assert!(growth.lines[1].last.is_none(), "could not be read");
    }
}
