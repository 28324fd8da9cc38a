//! Made-up programs with pages: who talks to whom, and who uses which page when.
#![allow(dead_code)] // Each test program, and the benchmark, uses its own part.

use placement::{
    DataAccess, DataIdentity, DataObject, DataPage, DataUse, Moment, Tasks, WorkingSet,
};
use types::{CommMatrix, ThreadId};

/// Stretches of time of every kernel.
pub const STRETCHES: u32 = 8;

/// A program.
pub struct Kernel {
    pub name: &'static str,
    pub tasks: Tasks,
    pub usage: DataUse,
}

/// A program under construction.
pub struct Maker {
    matrix: CommMatrix,
    moments: Vec<Moment>,
    usage: DataUse,
}

impl Maker {
    pub fn new(threads: usize) -> Self {
        let usage = DataUse {
            threads,
            page_bytes: 4096,
            objects: Vec::new(),
            pages: Vec::new(),
            accesses: Vec::new(),
            working: Vec::new(),
            assumed: None,
        };
        Self { matrix: CommMatrix::new(threads), moments: Vec::new(), usage }
    }

    pub fn talk(&mut self, a: usize, b: usize, events: u64) {
        if a != b {
            self.matrix.add(ThreadId(a as u32), ThreadId(b as u32), events);
            let time = (a + b) as f64;
            self.moments.push(Moment { time, pair: (a, b), events: events as f64 });
        }
    }

    /// A variable; the pages that follow belong to it.
    pub fn object(&mut self, name: &str) {
        let region = if name.is_empty() { "heap" } else { "static" };
        let identity =
            DataIdentity { region: region.into(), name: name.into(), ..DataIdentity::default() };
        self.usage.objects.push(DataObject { identity, bytes: 0 });
    }

    /// The next page of the last object: first touched by a thread, used by some, in some
    /// stretches.
    pub fn page(
        &mut self,
        touched_by: usize,
        uses: &[(usize, u64)],
        stretches: std::ops::Range<u32>,
    ) {
        let number = self.usage.pages.len() as u64;
        let object = self.usage.objects.len() as u32 - 1;
        let before = self.usage.pages.iter().filter(|page| page.object == object).count();
        self.usage.pages.push(DataPage {
            number,
            object,
            ordinal: 0,
            offset: before as u64 * 4096,
            touched_by: Some(touched_by as u32),
        });
        for stretch in stretches {
            for &(thread, count) in uses {
                let (page, thread, reaching) = (number as u32, thread as u32, count as f64);
                self.usage.accesses.push(DataAccess { page, stretch, thread, count, reaching });
            }
        }
        let mut threads: Vec<u32> = uses.iter().map(|u| u.0 as u32).collect();
        threads.sort_unstable();
        threads.dedup();
        // Larger than any cache: pages stand for more than they are.
        self.usage.working.push(WorkingSet { threads, bytes: 64 << 20 });
    }

    /// The page with this number of the only object, without a working set: quick for many pages.
    pub fn page_at(&mut self, page: usize, touched_by: u32, uses: &[(usize, u64)]) {
        let (number, offset) = (page as u64, page as u64 * 4096);
        let touched_by = Some(touched_by);
        self.usage.pages.push(DataPage { number, object: 0, ordinal: 0, offset, touched_by });
        for &(thread, count) in uses {
            let (page, thread, reaching) = (page as u32, thread as u32, count as f64);
            self.usage.accesses.push(DataAccess { page, stretch: 0, thread, count, reaching });
        }
    }

    pub fn finish(self, name: &'static str) -> Kernel {
        let tasks = Tasks::from(&self.matrix).with_moments(self.moments);
        Kernel { name, tasks, usage: self.usage }
    }
}

/// Everyone works on memory of their own, and talks to the thread half the threads away.
pub fn private(threads: usize) -> Kernel {
    let mut make = Maker::new(threads);
    make.object("blocks");
    for thread in 0..threads {
        make.talk(thread, (thread + threads / 2) % threads, 5000);
        (0..8).for_each(|_| make.page(thread, &[(thread, 4000)], 0..STRETCHES));
    }
    make.finish("private")
}

/// Rows in blocks; neighbours share the pages at the borders. Ids are not in the order of rows.
pub fn stencil(threads: usize) -> Kernel {
    let mut make = Maker::new(threads);
    make.object("grid");
    let id = |row: usize| row * 5 % threads.max(1);
    let id = |row: usize| if threads.is_multiple_of(5) { row } else { id(row) };
    for row in 0..threads {
        (0..6).for_each(|_| make.page(id(row), &[(id(row), 3000)], 0..STRETCHES));
        if row + 1 < threads {
            make.page(id(row), &[(id(row), 1500), (id(row + 1), 1500)], 0..STRETCHES);
            make.talk(id(row), id(row + 1), 20_000);
        }
    }
    make.finish("stencil")
}

/// The master initialises what the others use in blocks.
pub fn by_master(threads: usize) -> Kernel {
    let mut make = Maker::new(threads);
    make.object("table");
    for thread in 0..threads {
        make.talk(0, thread, 3000);
        (0..8).for_each(|_| make.page(0, &[(0, 10), (thread, 4000)], 0..STRETCHES));
    }
    make.finish("by master")
}

/// Everyone uses everything, which the master has initialised.
pub fn all_to_all(threads: usize) -> Kernel {
    let mut make = Maker::new(threads);
    make.object("shared");
    let all: Vec<(usize, u64)> = (0..threads).map(|thread| (thread, 300)).collect();
    (0..4 * threads).for_each(|_| make.page(0, &all, 0..STRETCHES));
    for a in 0..threads {
        (0..a).for_each(|b| make.talk(a, b, 300));
    }
    make.finish("all to all")
}

/// C = A · B: rows of A and C are private, B is read by all.
pub fn product(threads: usize) -> Kernel {
    let mut make = Maker::new(threads);
    let all: Vec<(usize, u64)> = (0..threads).map(|thread| (thread, 800)).collect();
    for name in ["a", "c"] {
        make.object(name);
        for thread in 0..threads {
            (0..4).for_each(|_| make.page(0, &[(thread, 3000)], 0..STRETCHES));
        }
    }
    make.object("b");
    (0..threads).for_each(|_| make.page(0, &all, 0..STRETCHES));
    (1..threads).for_each(|thread| make.talk(0, thread, 500));
    make.finish("product")
}

/// The later the thread, the more it does; neighbours talk.
pub fn imbalanced(threads: usize) -> Kernel {
    let mut make = Maker::new(threads);
    make.object("parts");
    for thread in 0..threads {
        let count = 200 * (1 + thread as u64 * thread as u64 / 4);
        (0..4).for_each(|_| make.page(thread, &[(thread, count)], 0..STRETCHES));
        make.talk(thread, (thread + 1) % threads, 2000 + count);
    }
    make.finish("imbalanced")
}

/// Half of the threads work first, the others later, on halves of one array.
pub fn phases(threads: usize) -> Kernel {
    let mut make = Maker::new(threads);
    make.object("halves");
    let half = STRETCHES / 2;
    for thread in 0..threads {
        let when = if thread < threads / 2 { 0..half } else { half..STRETCHES };
        let partner = if thread % 2 == 0 { thread + 1 } else { thread - 1 };
        make.talk(thread, partner.min(threads - 1), 4000);
        (0..6).for_each(|_| make.page(0, &[(thread, 5000)], when.clone()));
    }
    make.finish("phases")
}

/// Memory that no plan can name, beside a variable.
pub fn unnamed(threads: usize) -> Kernel {
    let mut make = Maker::new(threads);
    make.object("");
    (0..threads).for_each(|thread| make.page(0, &[(thread, 3000)], 0..STRETCHES));
    make.object("known");
    (0..threads).for_each(|thread| make.page(0, &[(thread, 3000)], 0..STRETCHES));
    (1..threads).for_each(|thread| make.talk(thread - 1, thread, 900));
    make.finish("unnamed")
}

/// All of them.
pub fn all(threads: usize) -> Vec<Kernel> {
    let kernels = [private, stencil, by_master, all_to_all, product, imbalanced, phases, unnamed];
    kernels.iter().map(|kernel| kernel(threads)).collect()
}
