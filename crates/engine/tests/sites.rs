//! Indirect branches that come to know their targets: programs that call through pointers do the
//! same natively and in the cache, whatever is known, while code is flushed or may change.
#![cfg(target_arch = "x86_64")]

mod support;

use engine::Mode;
use engine::options::disable;
use std::sync::{Mutex, PoisonError};
use support::{Cpu, Machine, calls};

const TIMES: u8 = 40;

/// The harness keeps its state in statics.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Calls `functions` functions in turn; sites are sure after `samples` samples. Returns how many
/// guards were made.
fn guards(mut machine: Machine, samples: usize, functions: u8) -> u64 {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    machine.options.site_samples = samples;
    let program = calls::program(machine.code, machine.end(), TIMES, functions);
    let mut cpu = Cpu { flags: 0x202, ..Cpu::default() };
    cpu.general.iter_mut().enumerate().for_each(|(k, r)| *r = 0x1111_1111 * k as u64);
    let native = machine.native(&program, cpu);
    let outcome = machine.translated(&program, cpu);
    assert_eq!(outcome.cpu, native, "{samples} samples, {functions} functions");
    machine.guards.get()
}

#[test]
fn few_targets_are_known_and_many_are_not() {
    for mode in [Mode::Translate, Mode::Matrix, Mode::Detail, Mode::Undirected, Mode::Trace] {
        let of = |samples, functions| guards(Machine::new(mode, 0), samples, functions);
        assert_eq!(of(4, 1), 2, "the call and the function's return, {mode:?}");
        assert_eq!(of(4, 2), 3, "a return more; the call has two, {mode:?}");
        assert_eq!(of(4, 4), 4, "the call has none, three returns and a jump have, {mode:?}");
        assert_eq!(of(1, 4), 5, "the first target is as good as any, {mode:?}");
        assert_eq!(guards(Machine::new(mode, disable::SITES), 1, 4), 0);
    }
}

#[test]
fn nothing_is_known_where_flags_may_live() {
    let mut machine = Machine::new(Mode::Matrix, 0);
    machine.changing = true;
    assert_eq!(guards(machine, 1, 4), 0, "code that may change");
}

#[test]
fn what_is_known_does_not_outlive_its_code() {
    for samples in [1, 2] {
        for every in 1..12 {
            let mut machine = Machine::new(Mode::Detail, 0);
            machine.flush_every = every;
            let known = guards(machine, samples, 4);
            let soon = every < 4 || samples > 1;
            assert!(soon || known > 0, "flushed after {every} dispatches");
        }
    }
}
