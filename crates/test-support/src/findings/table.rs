//! The programs, and what should be found in each.

use super::{Expected, Program};

const FALSE_SHARING: &[&str] = &["false_sharing"];
const CONTENDED: &[&str] = &["contended"];
/// Locks and reference counts are both contended data and synchronisation.
const SYNCHRONIZATION: &[&str] = &["synchronization", "contended"];

/// All programs: first those with a flaw, then those without.
pub const PROGRAMS: &[Program] = &[
    // Elements of an array, one for each thread.
    Program {
        file: "word_count.c",
        work: 200,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in main at"],
            fields: &["chars", "words", "lines"],
            sides: &[("count", &["count"])],
        }),
        mended: true,
    },
    Program {
        file: "primes.c",
        work: 24_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["workers"],
            fields: &["tested", "found"],
            sides: &[("test", &["is_prime", "search"])],
        }),
        mended: true,
    },
    Program {
        file: "regression.c",
        work: 1500,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in main at"],
            fields: &["sx", "sy", "sxx", "syy", "sxy"],
            sides: &[("sum", &["regress"])],
        }),
        mended: true,
    },
    Program {
        file: "pi_seeds.c",
        work: 8_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["seeds"],
            fields: &["[0]", "[1]", "[2]", "[3]"],
            sides: &[("throw", &["throw_darts"])],
        }),
        mended: true,
    },
    Program {
        file: "results_vector.cpp",
        work: 60_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in main at"],
            fields: &[],
            sides: &[("add", &["integrate"])],
        }),
        mended: true,
    },
    Program {
        file: "omp_sums.c",
        work: 300,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in main at"],
            fields: &[],
            sides: &[("add", &["dot"])],
        }),
        mended: true,
    },
    Program {
        file: "partial_sums.F90",
        work: 300,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in partial_sums at"],
            fields: &[],
            sides: &[("add", &["MAIN__", "partial_sums"])],
        }),
        mended: true,
    },
    Program {
        file: "module_counts.F90",
        work: 20_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["returns"],
            fields: &[],
            sides: &[("count", &["walk"])],
        }),
        mended: true,
    },
    Program {
        file: "atomic_vector.rs",
        work: 40_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in main at", "atomic_vector::main"],
            fields: &[],
            sides: &[("work", &["work"])],
        }),
        mended: true,
    },
    Program {
        file: "worker_locks.cpp",
        work: 10_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in main at"],
            fields: &["lock", "done"],
            sides: &[("add", &["add"])],
        }),
        mended: true,
    },
    // Neighbours that have nothing to do with each other.
    Program {
        file: "packed_counters.cpp",
        work: 40_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["statistics"],
            fields: &["parsed", "routed", "sent"],
            sides: &[("parse", &["parse"]), ("route", &["route"])],
        }),
        mended: true,
    },
    Program {
        file: "lock_beside_data.c",
        work: 40_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["table"],
            fields: &["mask", "keys"],
            sides: &[("account", &["account"]), ("look_up", &["look_up"])],
        }),
        mended: true,
    },
    Program {
        file: "stop_flag.c",
        work: 60_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["state"],
            fields: &["stop", "logged"],
            sides: &[("log", &["log_all"]), ("compute", &["compute"])],
        }),
        mended: true,
    },
    Program {
        file: "connection.c",
        work: 90_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in open_connection at"],
            fields: &["received", "sent"],
            sides: &[("receive", &["receive"]), ("transmit", &["transmit"])],
        }),
        mended: true,
    },
    Program {
        file: "small_blocks.c",
        work: 40_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in new_state at"],
            fields: &["seed", "hits"],
            sides: &[("draw", &["draw"])],
        }),
        mended: true,
    },
    Program {
        file: "matrix_rows.c",
        work: 4_000_000,
        expected: Some(Expected {
            kinds: FALSE_SHARING,
            object: &["in main at"],
            fields: &[],
            sides: &[("add", &["add_to_row", "accumulate"])],
        }),
        mended: true,
    },
    Program {
        file: "ring_queue.cpp",
        work: 30_000_000,
        expected: Some(Expected {
            kinds: &["false_sharing", "contended"],
            object: &["ring"],
            fields: &["head", "tail"],
            sides: &[("push", &["push", "produce"]), ("pop", &["pop", "consume", "main"])],
        }),
        mended: true,
    },
    // What all threads really share.
    Program {
        file: "histogram.c",
        work: 120,
        expected: Some(Expected {
            kinds: CONTENDED,
            object: &["bins"],
            fields: &[],
            sides: &[("count", &["count"])],
        }),
        mended: true,
    },
    Program {
        file: "requests_total.c",
        work: 40_000_000,
        expected: Some(Expected {
            kinds: CONTENDED,
            object: &["requests_total"],
            fields: &[],
            sides: &[("serve", &["serve"])],
        }),
        mended: true,
    },
    Program {
        file: "shared_settings.cpp",
        work: 8_000_000,
        expected: Some(Expected {
            kinds: SYNCHRONIZATION,
            object: &["in main at"],
            fields: &[],
            sides: &[("serve", &["serve"])],
        }),
        mended: true,
    },
    Program {
        file: "shared_index.rs",
        work: 10_000_000,
        expected: Some(Expected {
            kinds: SYNCHRONIZATION,
            object: &["in main at", "shared_index::main"],
            fields: &[],
            sides: &[("query", &["query"])],
        }),
        mended: true,
    },
    // Locks, condition variables, barriers.
    Program {
        file: "locked_total.rs",
        work: 4_000_000,
        expected: Some(Expected {
            kinds: SYNCHRONIZATION,
            object: &["in main at", "locked_total::main"],
            fields: &[],
            sides: &[("add", &["add_all"])],
        }),
        mended: true,
    },
    Program {
        file: "read_locked.cpp",
        work: 5_000_000,
        expected: Some(Expected {
            kinds: SYNCHRONIZATION,
            object: &["lock"],
            fields: &[],
            sides: &[("find", &["find", "read"])],
        }),
        mended: true,
    },
    Program {
        file: "task_queue.cpp",
        work: 3_000_000,
        expected: Some(Expected {
            kinds: SYNCHRONIZATION,
            object: &["pool"],
            fields: &["lock", "ready"],
            sides: &[("add", &["add", "main"]), ("take", &["take", "work"])],
        }),
        mended: true,
    },
    Program {
        file: "ping_pong.c",
        work: 100_000,
        expected: Some(Expected {
            kinds: SYNCHRONIZATION,
            object: &["box"],
            fields: &["lock", "changed", "full"],
            sides: &[("put", &["put", "produce"]), ("get", &["get", "main"])],
        }),
        mended: true,
    },
    Program {
        file: "smoothing.c",
        work: 4_000,
        expected: Some(Expected {
            kinds: &["synchronization"],
            object: &["barrier"],
            fields: &[],
            sides: &[("smooth", &["smooth"])],
        }),
        mended: true,
    },
    // Nothing is wrong. Lines that a processor may fetch in pairs are no cause that can be counted.
    Program { file: "line_pairs.c", work: 150_000_000, expected: None, mended: true },
    Program { file: "padded.c", work: 80_000_000, expected: None, mended: false },
    Program { file: "mandelbrot.c", work: 1400, expected: None, mended: false },
    Program { file: "lookups.cpp", work: 1_500_000, expected: None, mended: false },
    Program { file: "own_trees.cpp", work: 500_000, expected: None, mended: false },
    Program { file: "pipeline.rs", work: 6000, expected: None, mended: false },
];
