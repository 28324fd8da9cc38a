//! Progress of workers: one atomic counter for each in a vector.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;

#[cfg_attr(fixed, repr(align(128)))]
#[derive(Default)]
struct Progress {
    done: AtomicU64,
}

fn work(progress: &Progress, steps: u64) -> u64 {
    let mut x = 1u64;
    for _ in 0..steps {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        progress.done.fetch_add(1, Ordering::Relaxed); // @work
    }
    x
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |otherwise: u64| words.next().map_or(otherwise, |w| w.parse().unwrap());
    let (threads, steps) = (number(4) as usize, number(20_000_000));
    let all: Arc<Vec<Progress>> = Arc::new((0..threads).map(|_| Progress::default()).collect()); // @alloc
    let workers: Vec<_> = (0..threads)
        .map(|k| {
            let all = Arc::clone(&all);
            thread::spawn(move || work(&all[k], steps))
        })
        .collect();
    let sum = workers.into_iter().fold(0u64, |sum, w| sum.wrapping_add(w.join().unwrap()));
    let done: u64 = all.iter().map(|p| p.done.load(Ordering::Relaxed)).sum();
    println!("{sum} {done}");
}
