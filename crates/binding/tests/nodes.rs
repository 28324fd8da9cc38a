//! Pages that really move: in a virtual machine with several nodes.

use binding::{PageStatus, PagesError, bind, move_pages, where_pages_are};
use lab::{Machine, Node, inside};

const PAGE: usize = 4096;

/// Four nodes, the last with 24 MiB only, of which the kernel needs a part, and one more without
/// memory.
fn machine() -> Machine {
    let nodes = Machine::even(5, 1).node(3, Node { cpus: 1, memory_mib: 24 });
    nodes.node(4, Node { cpus: 1, memory_mib: 0 })
}

/// Pages of our own, each touched on the CPU that the calling thread runs on.
struct Pages(*mut u8, usize);

impl Pages {
    fn touched_on(cpu: usize, pages: usize) -> Self {
        bind(0, &[cpu].into_iter().collect()).unwrap();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping where the kernel likes.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, access, kind, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: our own mapping. Each page is one of its own.
        assert_eq!(unsafe { libc::madvise(at, pages * PAGE, libc::MADV_NOHUGEPAGE) }, 0);
        let own = Self(at.cast(), pages);
        for address in own.addresses() {
            // SAFETY: the address is in the mapping, which is ours alone.
            unsafe { std::ptr::write_volatile(address as *mut u64, address) };
        }
        own
    }

    fn addresses(&self) -> Vec<u64> {
        (0..self.1).map(|page| self.0 as u64 + (page * PAGE) as u64).collect()
    }

    /// How many lie on each node.
    fn by_node(&self) -> [usize; 5] {
        let mut count = [0; 5];
        for status in where_pages_are(0, &self.addresses()).unwrap() {
            count[status.node().expect("they were touched") as usize] += 1;
        }
        count
    }

    fn move_to(&self, node: impl Fn(usize) -> u32) -> Result<Vec<PageStatus>, PagesError> {
        let addresses = self.addresses().into_iter().enumerate();
        let moves: Vec<(u64, u32)> = addresses.map(|(page, at)| (at, node(page))).collect();
        move_pages(0, &moves, false)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for address in self.addresses().into_iter().filter(|_| !std::thread::panicking()) {
            // SAFETY: as when it was written. What is on a page moves with it.
            assert_eq!(unsafe { std::ptr::read_volatile(address as *const u64) }, address);
        }
        // SAFETY: nothing refers to the mapping any more.
        unsafe { libc::munmap(self.0.cast(), self.1 * PAGE) };
    }
}

#[test]
fn pages_lie_where_they_are_touched_and_go_where_they_are_sent() {
    if !inside(machine()) {
        return;
    }
    // More than one call can take.
    let pages = Pages::touched_on(1, 5000);
    assert_eq!(pages.by_node(), [0, 5000, 0, 0, 0]);
    let status = pages.move_to(|page| [0, 1, 2][page % 3]).unwrap();
    let expected = |page: usize| PageStatus::On([0, 1, 2][page % 3]);
    let wrong: Vec<usize> = (0..5000).filter(|&page| status[page] != expected(page)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(pages.by_node(), [1667, 1667, 1666, 0, 0]);

    // A node without memory is none to put pages on.
    let nowhere = pages.move_to(|_| 4).unwrap_err();
    assert!(matches!(nowhere, PagesError::NoSuchNode), "{nowhere}");
    // A full one takes as much as fits, and says which pages stayed; others do not mind.
    let large = Pages::touched_on(0, 12_000);
    let status = large.move_to(|page| [3, 1][page % 2]).unwrap();
    let [on_0, on_1, _, on_3, _] = large.by_node();
    assert_eq!((on_1, on_0 + on_3), (6000, 6000));
    let count = |one| status.iter().filter(|status| **status == one).count();
    assert_eq!((count(PageStatus::On(1)), count(PageStatus::On(3))), (6000, on_3));
    assert_eq!(count(PageStatus::Refused(libc::ENOMEM)), on_0);
    assert!(on_0 > 0, "the small node has room for all of it");

    // Those of another process, while it runs.
    // SAFETY: the child only waits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it is killed here.
        unsafe { libc::pause() };
    }
    let private = Pages::touched_on(2, 8);
    let shared = where_pages_are(child, &pages.addresses()[..2]).unwrap();
    assert_eq!(shared, [PageStatus::On(0), PageStatus::On(1)]);
    let absent = where_pages_are(child, &private.addresses()[..1]).unwrap();
    assert_eq!(absent, [PageStatus::Absent]);
    // The kernel moves what both have only if it is told to.
    let at = pages.addresses()[0];
    let refused = move_pages(child, &[(at, 2)], false).unwrap();
    assert_eq!(refused, [PageStatus::Refused(libc::EACCES)]);
    assert_eq!(move_pages(child, &[(at, 2)], true).unwrap(), [PageStatus::On(2)]);
    assert_eq!(where_pages_are(0, &[at]).unwrap(), [PageStatus::On(2)]);
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}
