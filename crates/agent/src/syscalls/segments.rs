//! System V shared memory, which has calls of its own to come and go.
//!
//! The call that detaches a segment does not say how long it is, so that is kept from when it was
//! attached.

use super::Outcome;
use super::memory::{forget, take_away, usable};
use crate::dispatch::runtime;
use crate::lone;
use crate::proc::program_mappings;
use crate::shared::mappings::Piece;
use crate::shared::objects::Object;
use crate::sys;

const PAGE: u64 = 4096;
const SHM_REMAP: u64 = 0o40000;

/// Bytes of a segment, as the kernel maps them; 0 = it does not say.
fn bytes_of(id: u64) -> u64 {
    const IPC_STAT: u64 = 2;
    /// Words of the kernel's `struct shmid64_ds`, and the one that holds the size.
    const WORDS: usize = 14;
    const SIZE: usize = 6;
    let mut description = [0u64; WORDS];
    let to = description.as_mut_ptr() as u64;
    // SAFETY: the kernel writes a description.
    match unsafe { sys::call(sys::SHMCTL, [id, IPC_STAT, to, 0, 0, 0]) } {
        0 => description[SIZE].next_multiple_of(PAGE),
        _ => 0,
    }
}

/// Bytes of the mapping that starts there.
fn bytes_at(start: u64) -> u64 {
    program_mappings().into_iter().find(|m| m.0 == start).map_or(0, |m| m.1 - m.0)
}

pub fn attach(a: [u64; 6]) -> Outcome {
    let [id, address, flags, ..] = a;
    lone::is_not_alone();
    let bytes = bytes_of(id);
    let result = match flags & SHM_REMAP {
        // SAFETY: the program's own call.
        0 => unsafe { sys::program_call(sys::SHMAT, a) },
        _ => take_away((address, address.saturating_add(bytes)), sys::SHMAT, a).0,
    };
    if result > 0 {
        let start = result as u64;
        let bytes = if bytes == 0 { bytes_at(start) } else { bytes };
        usable(start, start + bytes);
        let mut runtime = runtime();
        runtime.segments.push((start, bytes));
        if let Some(object) = Object::segment(id) {
            runtime.shared.add(Piece::new((start, bytes), object, 0));
        }
    }
    Outcome::Done(result)
}

pub fn detach(a: [u64; 6]) -> Outcome {
    let known = runtime().segments.iter().find(|s| s.0 == a[0]).copied();
    // One that has been moved is not known.
    let bytes = known.map_or_else(|| bytes_at(a[0]), |s| s.1);
    if known.is_some() {
        return Outcome::Done(take_away((a[0], a[0] + bytes), sys::SHMDT, a).0);
    }
    // SAFETY: the program's own call.
    let result = unsafe { sys::program_call(sys::SHMDT, a) };
    if result == 0 {
        forget(a[0], a[0] + bytes);
    }
    Outcome::Done(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_whole_pages() {
        const SHMGET: u64 = 29;
        const IPC_RMID: u64 = 0;
        for (bytes, mapped) in [(1, PAGE), (PAGE, PAGE), (PAGE + 1, 2 * PAGE)] {
            // SAFETY: a new segment, which is removed again.
            unsafe {
                let id = sys::call(SHMGET, [0, bytes, 0o600, 0, 0, 0]);
                // There may be none on this machine.
                if let Ok(id) = u64::try_from(id) {
                    assert_eq!(bytes_of(id), mapped);
                    assert_eq!(sys::call(sys::SHMCTL, [id, IPC_RMID, 0, 0, 0, 0]), 0);
                }
            }
        }
        assert_eq!(bytes_of(u32::MAX.into()), 0);
    }

    #[test]
    fn a_mapping_has_bytes_where_it_starts() {
        let start = sys::anonymous(5 * PAGE).unwrap();
        // SAFETY: memory of this test, whose other pages tell it apart from its neighbours.
        let protect = |at, bytes| unsafe {
            assert_eq!(sys::call(sys::MPROTECT, [at, bytes, sys::PROT_NONE, 0, 0, 0]), 0);
        };
        protect(start, PAGE);
        protect(start + 4 * PAGE, PAGE);
        assert_eq!(bytes_at(start + PAGE), 3 * PAGE);
        assert_eq!([start, start + 2 * PAGE, 0].map(bytes_at), [0; 3]);
    }
}
