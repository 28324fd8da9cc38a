//! Polls: where translated code looks whether its thread shall go on in another engine's code.
//!
//! A host may have two engines for the same program, one with checks and one without, and let
//! threads change between them. It says by one byte for each engine whether threads shall leave its
//! code. Each cycle of a program has a direct branch backwards, which is polled where it is taken,
//! or indirect branches only, which are polled where they arrive: in [pads](crate::connect::pads)
//! and [guards](crate::connect::sites). So every thread that runs code comes to a poll soon, and no
//! thread needs to be stopped or sent a signal. One that shall leave goes to the dispatcher, as if
//! the exit led nowhere yet.
//!
//! Neighbours: [`cold`](crate::body::cold) closes exits, [`engine`](crate::engine) is asked for
//! code.

use crate::body::{Body, Exit};
use crate::cache::recovery::Parked;
use crate::control;
use crate::regs::RCX;

/// An exit's poll: the rel32 that leaves.
pub(crate) struct Poll {
    pub rel32: usize,
    /// The number of the exit among those of its block.
    pub exit: usize,
    /// %rcx is parked there.
    pub in_rcx: bool,
}

impl Body<'_> {
    /// Whether the exit goes backwards in code that is polled.
    pub(crate) fn is_polled(&self, exit: &Exit) -> bool {
        let from = self.source.instructions.get(exit.position);
        self.options.poll != 0 && from.is_some_and(|from| exit.target <= from.ip())
    }

    /// Emits the poll of the `k`th exit, behind which the program goes on at `target`.
    pub(crate) fn emit_poll(&mut self, exit: usize, target: u64, flags_are_live: bool) {
        let address = self.options.poll;
        let rel32 = if flags_are_live {
            self.emitter.store(RCX, control::SAVED_RCX);
            self.emitter.mark(target, Parked { rcx: true, ..Parked::NOTHING });
            let rel32 = self.emitter.poll_in_rcx(address);
            self.emitter.load(RCX, control::SAVED_RCX);
            self.emitter.mark(target, Parked::NOTHING);
            rel32
        } else {
            self.emitter.poll(address)
        };
        self.polls.push(Poll { rel32, exit, in_rcx: flags_are_live });
    }

    /// Leads the polls of an exit to its stub, which comes next.
    pub(crate) fn lead_polls(&mut self, exit: usize, target: u64) {
        for poll in core::mem::take(&mut self.polls) {
            if poll.exit != exit {
                self.polls.push(poll);
                continue;
            }
            self.fixups.push((poll.rel32, self.emitter.len()));
            if poll.in_rcx {
                self.emitter.mark(target, Parked { rcx: true, ..Parked::NOTHING });
                self.emitter.load(RCX, control::SAVED_RCX);
                self.emitter.mark(target, Parked::NOTHING);
            }
        }
    }
}
