//! Emitting the head of a versioned loop: the tests of its ranges, and what follows when one fails.
//!
//! Neighbours: [`loops`](crate::plan::loops) decides what is tested,
//! [`probing`](crate::body::probing) emits one test.

use crate::body::probing::bits;
use crate::body::{Body, Result, SPILLS, parked_with};
use crate::plan::loops::{HeadCheck, HeadTests};
use crate::plan::probe::Written;
use crate::plan::track::key_registers;
use crate::regs::{self, RSP};
use alloc::vec::Vec;

/// A head that has been emitted and lacks its cold part.
pub(crate) struct Head {
    doubts: Vec<Doubt>,
    /// rel32s of tests that fail for good.
    failures: Vec<usize>,
    /// Two registers for the tests, and those of them that are borrowed.
    registers: [usize; 2],
    spilled: [Option<usize>; 2],
}

/// A question whose quick tests may fail.
struct Doubt {
    /// Their rel32s.
    rel32s: Vec<usize>,
    exact: Vec<HeadCheck>,
    /// Offset after them.
    passed: usize,
}

impl Body<'_> {
    /// Tests the ranges of a versioned loop; a failure goes to the ordinary body.
    pub fn emit_head(&mut self, tests: &HeadTests) -> Result<()> {
        let pc = self.source.pc;
        let all = || tests.quick().chain(tests.exact());
        let keys = all().map(|h| &h.key).chain(tests.streams.iter().map(|stream| &stream.key));
        let used = keys.fold(regs::bit(RSP), |set, key| set | key_registers(key));
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
        let mut head =
            Head { doubts: Vec::new(), failures: Vec::new(), registers, spilled: self.spilled };
        for question in &tests.questions {
            let rel32s = self.emit_tests(registers, &question.quick)?;
            if question.quick == question.exact {
                head.failures.extend(rel32s);
            } else {
                let (exact, passed) = (question.exact.clone(), self.emitter.len());
                head.doubts.push(Doubt { rel32s, exact, passed });
            }
        }
        let register = registers[0];
        for stream in &tests.streams {
            head.failures.push(self.emit_page_test(register, stream)?);
        }
        for stream in &tests.streams {
            self.count_stream(register, stream)?;
        }
        self.streams = tests.streams.clone();
        self.head = Some(head);
        self.release(pc);
        Ok(())
    }

    /// Returns the rel32s that are taken when one of the tests fails.
    fn emit_tests(&mut self, registers: [usize; 2], tests: &[HeadCheck]) -> Result<Vec<usize>> {
        let mut failures = Vec::new();
        for h in tests {
            failures.extend(self.emit_probe(registers, &h.key, &h.probe)?);
        }
        Ok(failures)
    }

    /// The cold part: what is tested exactly, question by question, each of which goes on with the
    /// next one in the hot part. When a test fails for good, one iteration of the ordinary body
    /// runs.
    pub fn finish_head(&mut self) -> Result<()> {
        let (Some(mut head), Some(again)) = (self.head.take(), self.again) else { return Ok(()) };
        let pc = self.source.pc;
        self.emitter.mark(pc, parked_with(head.spilled));
        for doubt in &head.doubts {
            self.lead_here(&doubt.rel32s);
            head.failures.extend(self.emit_tests(head.registers, &doubt.exact)?);
            let rel32 = self.emitter.open_branch(&[0xe9]);
            self.fixups.push((rel32, doubt.passed));
        }
        self.lead_here(&head.failures);
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
