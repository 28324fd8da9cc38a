//! What the next record of a trace will probably say: the instruction that came next the last time,
//! and an address as far on as it was then.
//!
//! Neighbours: `trace.rs` writes only what differs.

use crate::stream::Access;
use rustc_hash::FxHashMap;

/// What is known of one instruction of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guess {
    /// The instruction.
    pub site: u32,
    /// Where it was last.
    pub address: u64,
    /// How far that was from the time before.
    pub step: u64,
    /// Bytes of its last access.
    pub bytes: u64,
    /// Which guess of the thread came next.
    next: u32,
}

#[derive(Debug)]
struct OfThread {
    /// The first one is that of site 0.
    guesses: Vec<Guess>,
    numbers: FxHashMap<u32, u32>,
    last: Option<u32>,
}

/// What follows from the records so far.
#[derive(Debug, Default)]
pub struct Guesses {
    /// The thread of the last record.
    pub thread: u32,
    threads: Vec<OfThread>,
}

impl Guesses {
    /// The number of the guess for the next record of a thread.
    pub fn expected(&mut self, thread: u32) -> u32 {
        while self.threads.len() <= thread as usize {
            let numbers = std::iter::once((0, 0)).collect();
            self.threads.push(OfThread { guesses: vec![Guess::default()], numbers, last: None });
        }
        let of = &self.threads[thread as usize];
        of.last.map_or(0, |last| of.guesses[last as usize].next)
    }

    /// A guess by its number.
    pub fn get(&self, thread: u32, number: u32) -> Guess {
        self.threads[thread as usize].guesses[number as usize]
    }

    /// The number of the guess for an instruction, of a thread that a record was expected of.
    pub fn number(&mut self, thread: u32, site: u32) -> u32 {
        let of = &mut self.threads[thread as usize];
        let guesses = &mut of.guesses;
        *of.numbers.entry(site).or_insert_with(|| {
            guesses.push(Guess { site, ..Guess::default() });
            guesses.len() as u32 - 1
        })
    }

    /// The record, and the number of its instruction's guess.
    pub fn note(&mut self, access: &Access, number: u32) {
        self.thread = access.thread;
        let of = &mut self.threads[access.thread as usize];
        if let Some(last) = of.last.replace(number) {
            of.guesses[last as usize].next = number;
        }
        let guess = &mut of.guesses[number as usize];
        guess.step = access.address.wrapping_sub(guess.address);
        (guess.address, guess.bytes) = (access.address, access.bytes);
    }
}
