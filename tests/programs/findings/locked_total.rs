//! A total behind a mutex to which every thread adds with every item.

use std::sync::{Arc, Mutex};
use std::thread;

struct Account {
    total: u64,
    items: u64,
}

fn value(item: u64) -> u64 {
    (item.wrapping_mul(6_364_136_223_846_793_005) >> 33) % 100
}

#[cfg(not(fixed))]
fn add_all(account: &Mutex<Account>, items: u64) {
    for item in 0..items {
        let mut account = account.lock().unwrap(); // @add
        account.total += value(item); // @add
        account.items += 1; // @add
    } // @add
}

#[cfg(fixed)]
fn add_all(account: &Mutex<Account>, items: u64) {
    let total: u64 = (0..items).map(value).sum();
    let mut account = account.lock().unwrap();
    account.total += total;
    account.items += items;
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |otherwise: u64| words.next().map_or(otherwise, |w| w.parse().unwrap());
    let (threads, items) = (number(4), number(3_000_000));
    let account = Arc::new(Mutex::new(Account { total: 0, items: 0 })); // @alloc
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let account = Arc::clone(&account);
            thread::spawn(move || add_all(&account, items))
        })
        .collect();
    workers.into_iter().for_each(|w| w.join().unwrap());
    let account = account.lock().unwrap();
    println!("{} {}", account.total, account.items);
}
