//! What shared memory is of, and the places of its extents in the shadow.

use super::{at, counters, is_used};
use crate::session;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering};
use wire::shared::{EXTENT_SHIFT, KEYS_OFFSET, extents};

/// What is mapped: the same in all processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Device, or one of the two below.
    device: u64,
    /// Inode, or number.
    number: u64,
    /// When the file came to be: another file may get the inode of one that was deleted.
    born: u64,
}

/// In place of a device: memory without a name, and a segment of System V.
const ANONYMOUS: u64 = !0;
const SEGMENT: u64 = !1;

/// Extents that are looked at for one that is free.
const TRIES: usize = 1024;

impl Object {
    /// Memory that nothing else will ever be.
    fn anonymous() -> Self {
        let number = counters().anonymous.fetch_add(1, Ordering::Relaxed);
        Object { device: ANONYMOUS, number, born: 0 }
    }

    /// Segment of System V.
    pub fn segment(id: u64) -> Option<Self> {
        is_used().then_some(Object { device: SEGMENT, number: id & 0xffff_ffff, born: 0 })
    }

    /// What mmap maps with these flags and this descriptor; `None` for devices, which may be
    /// anything.
    pub fn mapped(flags: u64, fd: u64) -> Option<Self> {
        if !is_used() {
            return None;
        }
        if flags & sys::MAP_ANONYMOUS != 0 {
            return Some(Self::anonymous());
        }
        let stat = sys::stat_of(fd)?;
        if stat.is_zero_device() {
            return Some(Self::anonymous());
        }
        let [device, number] = stat.identity();
        stat.is_regular().then(|| Object { device, number, born: sys::birth_of(fd) })
    }

    /// Whether only mappings of it, and no name, lead to it.
    pub fn is_anonymous(self) -> bool {
        self.device == ANONYMOUS
    }

    /// Number of the extent that holds this offset; `None` when there are too many.
    pub fn extent(self, offset: u64) -> Option<u32> {
        let words = [self.device, self.number, self.born, offset >> EXTENT_SHIFT];
        let key = words.into_iter().fold(0x7468_7265_6164, |all, word| mix(all ^ mix(word))).max(1);
        let count = extents(session::first().block_shift.load(Ordering::Relaxed));
        for k in 0..TRIES.min(count) {
            let place = (key as usize).wrapping_add(k) % count;
            // SAFETY: within the shadow's table.
            let entry = unsafe { AtomicU64::from_ptr((at(KEYS_OFFSET) as *mut u64).add(place)) };
            let found = match entry.load(Ordering::Relaxed) {
                0 => entry.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed),
                found => Err(found),
            };
            if found == Ok(0) || found == Err(key) {
                return Some(place as u32);
            }
        }
        counters().extents_refused.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014: each bit of
/// the result depends on each bit of the word.
fn mix(word: u64) -> u64 {
    let mut x = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::recording;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::vec::Vec;
    use wire::session::mode;
    use wire::shared::{EXTENT_BYTES, MAX_EXTENTS};

    #[test]
    fn files_are_the_same_object_by_whatever_descriptor() {
        let _held = recording(mode::MATRIX);
        let name = std::format!("threadtalk-objects-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "file").unwrap();
        let object = |path: &std::path::Path| {
            let file = File::open(path).unwrap();
            Object::mapped(sys::MAP_SHARED, file.as_raw_fd() as u64)
        };
        let own = object(&path);
        assert!(own.is_some_and(|own| !own.is_anonymous()));
        assert_eq!(object(&path), own);
        assert_ne!(object(&std::env::current_exe().unwrap()), own);
        std::fs::remove_file(&path).unwrap();
        // Devices may be anything, but for one.
        assert_eq!(object("/dev/null".as_ref()), None);
        assert!(object("/dev/zero".as_ref()).is_some_and(Object::is_anonymous));
        assert_eq!(Object::mapped(sys::MAP_SHARED, 0xffff_ffff), None);
    }

    #[test]
    fn memory_without_a_name_is_new_each_time() {
        let _held = recording(mode::MATRIX);
        let new = || Object::mapped(sys::MAP_SHARED | sys::MAP_ANONYMOUS, !0).unwrap();
        let (first, second) = (new(), new());
        assert!(first.is_anonymous() && first != second);
    }

    #[test]
    fn nothing_is_shared_where_there_is_no_shadow() {
        let _held = recording(mode::TRANSLATE);
        assert_eq!(Object::segment(1), None);
        assert_eq!(Object::mapped(sys::MAP_ANONYMOUS, 0), None);
    }

    #[test]
    fn processes_that_look_at_once_find_the_same_extents() {
        let _held = recording(mode::MATRIX);
        let objects = [0x1000, 0x1001].map(|id| Object::segment(id).unwrap());
        let find = || -> Vec<u32> {
            let each = (0..500).flat_map(|k| objects.map(|o| o.extent(k * EXTENT_BYTES + k)));
            each.map(Option::unwrap).collect()
        };
        let mut found = std::thread::scope(|scope| {
            [(); 4].map(|()| scope.spawn(find)).map(|thread| thread.join().unwrap())
        });
        assert!(found.iter().all(|one| *one == found[0]));
        // All of an extent's bytes are in it, and others in none of them.
        assert_eq!(objects[1].extent(EXTENT_BYTES - 1), Some(found[0][1]));
        found[0].sort_unstable();
        found[0].dedup();
        assert_eq!(found[0].len(), 1000);
    }

    #[test]
    fn where_the_table_is_full_memory_stays_each_process_own() {
        let _held = recording(mode::MATRIX);
        // SAFETY: within the shadow.
        let keys = unsafe {
            core::slice::from_raw_parts(at(KEYS_OFFSET) as *const AtomicU64, MAX_EXTENTS)
        };
        let before: Vec<u64> = keys.iter().map(|key| key.swap(2, Ordering::Relaxed)).collect();
        let refused = || counters().extents_refused.load(Ordering::Relaxed);
        let (earlier, object) = (refused(), Object::segment(0x2000).unwrap());
        let found = [object.extent(0), object.extent(EXTENT_BYTES)];
        for (key, value) in keys.iter().zip(before) {
            key.store(value, Ordering::Relaxed);
        }
        assert_eq!((found, refused() - earlier), ([None, None], 2));
        assert!(object.extent(0).is_some());
    }
}
