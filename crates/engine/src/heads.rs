//! Emitting the head of a versioned loop: the tests of its ranges, and what follows when one fails.
//!
//! Neighbours: [`loops`](crate::loops) decides what is tested, [`probing`](crate::probing) emits one
//! test.

use crate::body::{Body, Result, SPILLS, parked_with};
use crate::loops::{HeadCheck, HeadTests};
use crate::probing::{bits, key_registers};
use crate::regs::{self, RSP};
use alloc::vec::Vec;

/// A head that has been emitted and lacks its cold part.
pub(crate) struct Head {
    /// rel32s of the tests after which the ordinary body runs.
    failures: Vec<usize>,
    /// rel32s of the tests after which the bytes are asked about.
    doubts: Vec<usize>,
    bytes: Vec<HeadCheck>,
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
        let all = || tests.words.iter().chain(&tests.bytes);
        let used = all().fold(regs::bit(RSP), |set, h| set | key_registers(&h.key));
        let wanted = if tests.bytes.is_empty() { 1 } else { 2 };
        let free = !self.liveness.live[0].regs & !used;
        let mut registers = [0; 2];
        let mut candidates = bits(free).chain(bits(!used & !free));
        for register in registers.iter_mut().take(wanted) {
            *register = candidates.next().expect("addresses do not use all registers");
            if free >> *register & 1 == 0 {
                self.spill(*register, pc, false);
            }
        }
        let spilled = self.spilled;
        let (mut failures, mut doubts) = (Vec::new(), Vec::new());
        for h in &tests.words {
            let rel32s = self.emit_probe(registers, &h.key, &h.probe)?;
            let doubtful = h.probe.exclusive && !tests.bytes.is_empty();
            if doubtful { &mut doubts } else { &mut failures }.extend(rel32s);
        }
        let (bytes, passed) = (tests.bytes.clone(), self.emitter.len());
        self.head = Some(Head { failures, doubts, bytes, passed, registers, spilled });
        self.release(pc);
        Ok(())
    }

    /// The cold part: blocks that are this thread's, but not written whole, may have been written
    /// where it matters. When a test fails for good, one iteration of the ordinary body runs.
    pub fn finish_head(&mut self) -> Result<()> {
        let (Some(mut head), Some(again)) = (self.head.take(), self.again) else { return Ok(()) };
        let pc = self.source.pc;
        self.emitter.mark(pc, parked_with(head.spilled));
        if !head.doubts.is_empty() {
            self.lead_here(&head.doubts);
            for h in &head.bytes {
                head.failures.extend(self.emit_probe(head.registers, &h.key, &h.probe)?);
            }
            let rel32 = self.emitter.open_branch(&[0xe9]);
            self.fixups.push((rel32, head.passed as i64));
        }
        self.lead_here(&head.failures);
        for (slot, offset) in SPILLS.into_iter().enumerate() {
            if let Some(register) = head.spilled[slot].take() {
                self.emitter.load(register, offset);
                self.emitter.mark(pc, parked_with(head.spilled));
            }
        }
        self.emitter.jump(again.plain);
        Ok(())
    }
}
