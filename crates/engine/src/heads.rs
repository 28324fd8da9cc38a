//! Emitting the head of a versioned loop: the tests of its ranges, and what follows when one fails.
//!
//! Neighbours: [`loops`](crate::loops) decides what is tested, [`probing`](crate::probing) emits one
//! test.

use crate::body::{Body, Result, SPILLS, parked_with};
use crate::loops::{HeadCheck, HeadTests};
use crate::probe::Written;
use crate::probing::{bits, key_registers};
use crate::regs::{self, RSP};
use alloc::vec::Vec;

/// A head that has been emitted and lacks its cold part.
pub(crate) struct Head {
    /// rel32s of the quick tests.
    doubts: Vec<usize>,
    exact: Vec<HeadCheck>,
    /// Offset of the loop's body with the borrowed registers not yet restored.
    passed: usize,
    /// Two registers for the tests, and those of them that are borrowed.
    registers: [usize; 2],
    spilled: [Option<usize>; 2],
}

impl Body<'_> {
    /// Tests the ranges of a versioned loop; a failure goes to the ordinary body.
    pub fn emit_head(&mut self, tests: &HeadTests) -> Result<()> {
        let pc = self.source.pc;
        let all = || tests.quick.iter().chain(&tests.exact);
        let used = all().fold(regs::bit(RSP), |set, h| set | key_registers(&h.key));
        let wanted = 1 + usize::from(all().any(|h| h.probe.written != Written::Any));
        let free = !self.liveness.live[0].regs & !used;
        let mut registers = [0; 2];
        let mut candidates = bits(free).chain(bits(!used & !free));
        for register in registers.iter_mut().take(wanted) {
            *register = candidates.next().expect("addresses do not use all registers");
            if free >> *register & 1 == 0 {
                self.spill(*register, pc);
            }
        }
        let spilled = self.spilled;
        let mut doubts = Vec::new();
        for h in &tests.quick {
            doubts.extend(self.emit_probe(registers, &h.key, &h.probe)?);
        }
        let (exact, passed) = (tests.exact.clone(), self.emitter.len());
        self.head = Some(Head { doubts, exact, passed, registers, spilled });
        self.release(pc);
        Ok(())
    }

    /// The cold part: what is tested exactly. When a test fails for good, one iteration of the ordinary
    /// body runs.
    pub fn finish_head(&mut self) -> Result<()> {
        let (Some(mut head), Some(again)) = (self.head.take(), self.again) else { return Ok(()) };
        let pc = self.source.pc;
        self.emitter.mark(pc, parked_with(head.spilled));
        self.lead_here(&head.doubts);
        let mut failures = Vec::new();
        for h in &head.exact {
            failures.extend(self.emit_probe(head.registers, &h.key, &h.probe)?);
        }
        let rel32 = self.emitter.open_branch(&[0xe9]);
        self.fixups.push((rel32, head.passed));
        self.lead_here(&failures);
        for (slot, offset) in SPILLS.into_iter().enumerate() {
            if let Some(register) = head.spilled[slot].take() {
                self.emitter.load(register, offset);
                self.emitter.mark(pc, parked_with(head.spilled));
            }
        }
        self.emitter.jump_to_ordinary(again.plain);
        Ok(())
    }
}
