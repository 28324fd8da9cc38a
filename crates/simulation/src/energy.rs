//! What a run costs in energy: events times the family's table (`data/families.json`).
//!
//! A level of caches is looked up by every access that reaches it; the innermost one gives a word,
//! the others a line. Neighbours: `run.rs` asks at the end.

use crate::counts::{Counts, Energy, Load};
use crate::machine::Machine;

const WORD_BYTES: f64 = 8.0;

/// Of a run with these totals on `cores` cores.
pub fn of_run(
    machine: &Machine,
    total: &Counts,
    written: u64,
    links: &[Load],
    cores: usize,
) -> Energy {
    let table = machine.energies;
    let pj = 1e-12;
    let mut caches = 0.0;
    let mut reaching = total.touched;
    for level in 1..=machine.cache_levels() {
        let sizes = machine.caches.iter().filter(|cache| cache.level == level);
        let Some(bytes) = sizes.map(|cache| cache.bytes).max() else { continue };
        let grown = (bytes as f64 / table.cache_word_at_bytes).powf(table.cache_exponent);
        let words = if level == 1 { 1.0 } else { machine.line_bytes as f64 / WORD_BYTES };
        // What comes from another cache is read there, at the outermost level both have.
        let lookups =
            reaching + if level == machine.cache_levels() { total.transferred() } else { 0 };
        caches += lookups as f64 * words * table.cache_word_pj * grown * pj;
        reaching = total.misses(level);
    }
    let lines = machine.line_bytes as f64 / 64.0;
    let carried: u64 = links.iter().map(|link| link.bytes).sum();
    Energy {
        instructions: total.instructions * table.instruction_pj * pj,
        caches,
        memory: (total.from_memory() + written + total.ahead_memory) as f64
            * lines
            * table.memory_line_pj
            * pj,
        links: carried as f64 / machine.line_bytes as f64 * lines * table.hop_line_pj * pj,
        rest: cores as f64 * table.core_static_watts * total.time_ns * 1e-9,
    }
}
