//! Queries of an index that is shared by `Arc`: each query takes a reference of its own.

use std::sync::Arc;
use std::thread;

struct Index {
    words: Vec<u32>,
}

fn look_up(index: &Index, key: u32) -> u64 {
    let at = key as usize % index.words.len();
    u64::from(index.words[at])
}

#[inline(never)]
fn query(index: &Arc<Index>, key: u32) -> u64 {
    #[cfg(fixed)]
    return look_up(index, key);
    #[cfg(not(fixed))]
    {
        let index = Arc::clone(index); // @query
        look_up(&index, key) // @query
    } // @query
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |otherwise: u32| words.next().map_or(otherwise, |w| w.parse().unwrap());
    let (threads, queries) = (number(4), number(6_000_000));
    let index = Arc::new(Index { words: (0..5000).collect() }); // @alloc
    let workers: Vec<_> = (0..threads)
        .map(|k| {
            let index = Arc::clone(&index);
            thread::spawn(move || {
                let mut key = k + 1;
                let mut sum = 0;
                for _ in 0..queries {
                    key = key.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    sum += query(&index, key >> 8);
                }
                sum
            })
        })
        .collect();
    let sum: u64 = workers.into_iter().map(|w| w.join().unwrap()).sum();
    println!("{sum}");
}
