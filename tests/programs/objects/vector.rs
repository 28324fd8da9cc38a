//! A vector of counters, one for each thread. Its memory is allocated by code of the standard
//! library that the compiler inlines from another unit.

struct Counter {
    hits: u64,
    misses: u64,
}

fn main() {
    let mut counters: Vec<Counter> = (0..4).map(|_| Counter { hits: 0, misses: 0 }).collect();
    std::thread::scope(|scope| {
        for counter in counters.iter_mut() {
            scope.spawn(move || {
                for k in 0..20_000_u64 {
                    let field = if k % 3 == 0 { &mut counter.hits } else { &mut counter.misses };
                    // SAFETY: a field of this thread's own.
                    unsafe { std::ptr::write_volatile(field, *field + 1) };
                }
            });
        }
    });
    println!("{}", counters.iter().map(|counter| counter.hits + counter.misses).sum::<u64>());
}
