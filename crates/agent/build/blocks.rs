//! What the slow paths share with Rust of what the program allocates; see `shared.rs`.

use crate::header::{Header, InC, Structure, constants, in_c, structure};
use crate::layouts::{
    self, AllocatedBlock, Blocks, Call, Chain, Cover, Mapping, Rule, Told, how, rule,
};
use engine::decode::sieve;
use std::mem::offset_of;
use wire::{objects, session};

in_c! {
    AllocatedBlock: "struct block",
    Blocks: "struct blocks",
    Call: "struct call",
    Chain: "struct chain",
    Rule: "struct rule",
    Told: "struct told",
}

/// What is known of allocated blocks.
pub fn blocks(h: &mut Header) {
    constants!(
        h,
        FOLDED_BITS = layouts::FOLDED_BITS,
        LARGE_SHIFT = objects::LARGE_SHIFT,
        INDEX_BITS = layouts::INDEX_BITS,
        RETURN_BITS = layouts::RETURN_BITS,
        RECORDS_AT_ONCE = layouts::RECORDS_AT_ONCE,
        MAX_CALLS = layouts::MAX_CALLS,
        FRAMES = objects::FRAMES,
        MAX_GROUPS = objects::MAX_GROUPS as u32,
        OTHERS = objects::OTHERS,
        BY_MAPPED = objects::by::MAPPED,
        LIFE_SHIFT = objects::LIFE_SHIFT,
        UNTIMED = objects::UNTIMED,
        NO_NUMBER = layouts::NO_NUMBER,
        MAX_ZONES = objects::MAX_ZONES as u32,
        FIRST_ZONE = objects::FIRST_ZONE,
        ZONE_SIZES = layouts::ZONE_SIZES,
        VARIOUS = layouts::VARIOUS,
        STRETCH_SHIFT = layouts::STRETCH_SHIFT,
    );
    large_starts(h);
    structure!(
        h,
        "block" = AllocatedBlock {
            start,
            bytes,
            ordinal,
            group,
            next,
            version,
            thread,
            described,
            born,
            number
        }
    );
    structure!(h, "place" = Cover { covering, starting });
    structure!(h, "mapping" = Mapping { start, bytes, ordinal, group, thread });
    structure!(
        h,
        "blocks" = Blocks {
            lines,
            pages,
            stretches,
            records,
            index,
            returns,
            rules,
            mapped_pages,
            mapped_cells,
            mapped_stretches,
            starts,
            code_gone,
            used,
            most,
            epoch,
            unmappings
        }
    );
}

/// How large blocks are told by their beginning.
fn large_starts(h: &mut Header) {
    constants!(h, STARTS_SHIFT = sieve::STARTS_SHIFT, STARTS_BITS = sieve::STARTS_BITS);
}

/// What sessions hold of what is allocated.
pub fn groups(h: &mut Header) {
    constants!(
        h,
        PAGE_COUNTED = offset_of!(session::ThreadPage, allocating.counted),
        MAX_COUNTED = objects::MAX_COUNTED,
    );
    structure!(
        h,
        "counted" = objects::Counted { group, freed, lived, bytes, left, together, next }
    );
    structure!(h, "zone" = objects::Zone { start, bytes });
    structure!(
        h,
        "group" = objects::Group {
            blocks,
            bytes,
            freed,
            lived,
            unused,
            padding,
            frames,
            by,
            digits,
            files,
            modules
        }
    );
    structure!(h, "described" = objects::Block { start, bytes, ordinal, group, thread, lived });
}

/// What is known of calls that allocate.
pub fn allocations(h: &mut Header) {
    constants!(
        h,
        TAKES_BYTES = how::BYTES_FIRST,
        TAKES_PRODUCT = how::PRODUCT,
        TAKES_BYTES_SECOND = how::BYTES_SECOND,
        TAKES_BYTES_THIRD = how::BYTES_THIRD,
        REALLOCATES = how::MOVES,
        REALLOCATES_PRODUCT = how::MOVES_PRODUCT,
        FREES = how::FREES,
        RETURNED = how::RETURNED,
        RBP_SHIFT = rule::RBP_SHIFT,
        BY_RBP = rule::BY_RBP,
        LEADS_ON = rule::LEADS_ON,
        ALIGNED = rule::ALIGNED,
    );
    structure!(h, "rule" = Rule { address, word });
    constants!(h, CHAIN_BITS = layouts::CHAIN_BITS, MAX_TOLD = layouts::MAX_TOLD);
    structure!(h, "told" = Told { above, is_stack, value });
    structure!(
        h,
        "chain" = Chain {
            back,
            told,
            count,
            digits,
            by,
            group,
            by_frame_pointer,
            frame_pointer,
            code_gone
        }
    );
    structure!(
        h,
        "call" = Call {
            stack,
            frames,
            frame_pointer,
            new_group,
            bytes,
            old,
            record,
            ordinal,
            born,
            version,
            group,
            how,
            by
        }
    );
}
