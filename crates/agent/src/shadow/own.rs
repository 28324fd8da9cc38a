//! Which memory is the agent's, and has no shadow.

use super::{ADDRESS_SPACE, bank_bytes, banks, base_of, last_sites, space_of, stamps, written};
use crate::{grants, session, shared, tracked, windows};
use engine::options::LINE_SHIFT;

/// Whether `address` lies in memory that is the agent's.
pub fn is_own(address: u64) -> bool {
    let shadow =
        |bank| (base_of(bank)..base_of(bank) + bank_bytes(space_of(bank))).contains(&address);
    let line_bytes = (ADDRESS_SPACE >> LINE_SHIFT) * 8;
    let common = |start: u64| start != 0 && (start..start + line_bytes).contains(&address);
    session::contains(address)
        || grants::contains(address)
        || windows::contains(address)
        || banks().any(shadow)
        || common(written())
        || common(last_sites())
        || common(stamps())
        || tracked::contains(address)
        || shared::contains(address)
}
