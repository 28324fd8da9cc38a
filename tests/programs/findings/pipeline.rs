//! Nothing is wrong here: a producer sends large batches through a channel, and a consumer takes
//! them.

use std::sync::mpsc;
use std::thread;

const BATCH: u64 = 4096;

fn digest(batch: &[u64]) -> u64 {
    batch.iter().fold(0, |sum, &item| {
        (0..40).fold(sum ^ item, |x: u64, k| x.wrapping_mul(31).wrapping_add(k))
    })
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |otherwise: u64| words.next().map_or(otherwise, |w| w.parse().unwrap());
    let (_, batches) = (number(2), number(3000));
    let (sender, receiver) = mpsc::sync_channel(8);
    let producer = thread::spawn(move || {
        for batch in 0..batches {
            let items: Vec<u64> = (0..BATCH).map(|k| (batch * BATCH + k) * 7).collect();
            sender.send(items).unwrap();
        }
    });
    let sum = receiver.iter().fold(0u64, |sum, batch| sum.wrapping_add(digest(&batch)));
    producer.join().unwrap();
    println!("{sum}");
}
