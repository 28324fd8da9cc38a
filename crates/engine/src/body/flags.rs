//! Parking the arithmetic flags while checks change them.
//!
//! Checks change flags; where the program still needs them they are parked in the control block
//! first. Problem: compilers put loads between a comparison and its branch, and parking and
//! restoring for each of them costs more than the checks. Approach: parked flags stay parked until
//! an instruction reads or changes them or leaves the block; in between, all checks share one
//! parking, and so does the block's counting.

use crate::body::Body;
use crate::cache::recovery::Parked;
use crate::control;
use crate::decode::uses::ALL_FLAGS;
use crate::regs::{self, RAX};
use iced_x86::{FlowControl, Instruction, Mnemonic, RflagsBits};

const LAHF: u8 = 0x9f;
const SAHF: u8 = 0x9e;
const SETO_AL: [u8; 3] = [0x0f, 0x90, 0xc0];
/// Overflows if AL is 1.
const ADD_AL_127: [u8; 2] = [0x04, 0x7f];

impl Body<'_> {
    /// Parks the flags, if they are needed from instruction `k` on and not parked yet; keeps all
    /// registers that are needed.
    pub fn park_flags(&mut self, k: usize) {
        let flags = self.liveness.live[k].flags;
        if flags == 0 || self.flags_parked {
            return;
        }
        let (pc, free) = (self.pc_of(k), self.rax_is_free(k));
        if !free {
            self.emitter.store(RAX, control::FLAGS_RAX);
            self.emitter.mark(pc, Parked { flags_rax: true, ..self.parked() });
        }
        self.emitter.bytes(&[LAHF]);
        if flags & RflagsBits::OF != 0 {
            self.emitter.bytes(&SETO_AL);
        }
        self.emitter.store(RAX, control::FLAGS);
        if !free {
            self.emitter.load(RAX, control::FLAGS_RAX);
        }
        self.flags_parked = true;
        self.emitter.mark(pc, self.parked());
    }

    /// Stores all flags, through %rax.
    pub fn save_flags(&mut self) {
        self.emitter.bytes(&[LAHF]);
        self.emitter.bytes(&SETO_AL);
        self.emitter.store(RAX, control::FLAGS);
    }

    /// The inverse of [`Self::save_flags`].
    pub fn load_flags(&mut self) {
        self.emitter.load(RAX, control::FLAGS);
        self.emitter.bytes(&ADD_AL_127);
        self.emitter.bytes(&[SAHF]);
    }

    /// The inverse of [`Self::park_flags`], before instruction `k` or after the last one.
    pub fn unpark_flags(&mut self, k: usize) {
        if !self.flags_parked {
            return;
        }
        let (pc, free, flags) = (self.pc_of(k), self.rax_is_free(k), self.liveness.live[k].flags);
        if flags != 0 {
            let while_loading = Parked { flags_rax: !free, ..self.parked() };
            if !free {
                self.emitter.store(RAX, control::FLAGS_RAX);
                self.emitter.mark(pc, while_loading);
            }
            self.emitter.load(RAX, control::FLAGS);
            if flags & RflagsBits::OF != 0 {
                self.emitter.bytes(&ADD_AL_127);
            }
            self.emitter.bytes(&[SAHF]);
            if !free {
                self.emitter.mark(pc, Parked { flags: false, ..while_loading });
                self.emitter.load(RAX, control::FLAGS_RAX);
            }
        }
        self.flags_parked = false;
        self.emitter.mark(pc, self.parked());
    }

    /// Restores parked flags if instruction `k` needs or changes them, or leaves the block.
    pub fn settle_flags(&mut self, k: usize, i: &Instruction) {
        let used = i.rflags_read() | i.rflags_modified() | self.liveness.uses[k].flags_read;
        let leaves = i.flow_control() != FlowControl::Next || i.mnemonic() == Mnemonic::Syscall;
        let repeats = self.plan.repeats[k].is_some();
        let dead = self.liveness.live[k].flags == 0;
        if used & ALL_FLAGS != 0 || leaves || repeats || dead || !self.options.park {
            self.unpark_flags(k);
        }
    }

    /// Whether no instruction needs what %rax holds before instruction `k`: it is dead, or
    /// borrowed.
    fn rax_is_free(&self, k: usize) -> bool {
        let live = self.liveness.live[k].regs & regs::bit(RAX) != 0;
        !live || self.spilled.contains(&Some(RAX))
    }

    fn pc_of(&self, k: usize) -> u64 {
        self.source.instructions.get(k).map_or(self.source.end, Instruction::ip)
    }
}
