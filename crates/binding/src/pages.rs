//! Pages of processes: where they lie, and moving them (`move_pages(2)`).
//!
//! The kernel answers for each page. A call that succeeds may still have moved only a part, and one
//! that fails because a node is full has moved what fitted. So every page has a status of its own,
//! and [`move_pages`] asks again where each page really is.

use std::io;

/// Most pages in one call: the kernel holds the process's memory map while it works.
const MAX_PAGES_PER_CALL: usize = 4096;

/// `MPOL_MF_MOVE` and `MPOL_MF_MOVE_ALL` of `linux/mempolicy.h`.
const MOVE: i32 = 1 << 1;
const MOVE_ALL: i32 = 1 << 2;

/// Where a page is, as the kernel says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageStatus {
    /// On this node (kernel's number).
    On(u32),
    /// Not in memory: never touched, swapped out, or not mapped.
    Absent,
    /// The kernel refused with this error (`EACCES`: shared with a process of others, `EBUSY`: in
    /// use just now, `ENOMEM`: the node is full, …).
    Refused(i32),
}

impl PageStatus {
    fn from_kernel(status: i32) -> Self {
        match status {
            0.. => Self::On(status.unsigned_abs()),
            _ if [libc::ENOENT, libc::EFAULT].contains(&-status) => Self::Absent,
            _ => Self::Refused(-status),
        }
    }

    /// The node, if it is known.
    pub fn node(self) -> Option<u32> {
        match self {
            Self::On(node) => Some(node),
            _ => None,
        }
    }
}

/// Why no page of a process can be asked for or moved.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PagesError {
    #[error("process {pid} does not exist (any more)")]
    NoSuchProcess { pid: i32 },
    #[error(
        "not permitted to ask for or move pages of process {pid}: it belongs to another user; run \
         as that user or with CAP_SYS_NICE"
    )]
    NotPermitted { pid: i32 },
    #[error("this kernel has no NUMA support, so pages cannot be asked for or moved")]
    Unsupported,
    #[error("pages cannot go to one of these nodes: it is not online, or the cpuset forbids it")]
    NoSuchNode,
    #[error("cannot ask for or move pages of process {pid}: {error}")]
    Other { pid: i32, error: io::Error },
}

/// Where the pages of process `pid` (0: this one) at these addresses lie, in the same order.
///
/// # Errors
/// Fails when the process is gone or belongs to others, or the kernel cannot tell.
pub fn where_pages_are(pid: i32, addresses: &[u64]) -> Result<Vec<PageStatus>, PagesError> {
    let mut all = Vec::with_capacity(addresses.len());
    for part in addresses.chunks(MAX_PAGES_PER_CALL) {
        all.extend(call(pid, part, None)?.into_iter().map(PageStatus::from_kernel));
    }
    Ok(all)
}

/// Moves the page at each address to the node beside it, and returns where it is then, or why it
/// stayed. Pages that other processes map as well are moved only if `shared` (`CAP_SYS_NICE`).
///
/// # Errors
/// Fails when the process is gone or belongs to others, or a node cannot be used. What was moved
/// before stays moved.
pub fn move_pages(
    pid: i32,
    moves: &[(u64, u32)],
    shared: bool,
) -> Result<Vec<PageStatus>, PagesError> {
    let mut all = Vec::with_capacity(moves.len());
    for part in moves.chunks(MAX_PAGES_PER_CALL) {
        let addresses: Vec<u64> = part.iter().map(|(address, _)| *address).collect();
        let tried = try_moves(pid, part, shared)?;
        let now = call(pid, &addresses, None)?;
        // A refusal says why a page stayed; without one, what counts is where it is.
        let status = tried.into_iter().zip(now).zip(part);
        all.extend(status.map(|((tried, now), (_, wanted))| match tried {
            ..0 if now >= 0 && now != *wanted as i32 => PageStatus::from_kernel(tried),
            _ => PageStatus::from_kernel(now),
        }));
    }
    Ok(all)
}

/// Moves pages, at most as many as one call takes; the kernel's status of each. When a node is
/// full, the kernel leaves all pages that come after, so each node's are then moved by themselves.
fn try_moves(pid: i32, moves: &[(u64, u32)], shared: bool) -> Result<Vec<i32>, PagesError> {
    let go = |moves: &[(u64, u32)]| {
        let (addresses, nodes): (Vec<u64>, Vec<i32>) =
            moves.iter().map(|(address, node)| (*address, *node as i32)).unzip();
        match call(pid, &addresses, Some((&nodes, shared))) {
            Err(PagesError::Other { error, .. }) if error.raw_os_error() == Some(libc::ENOMEM) => {
                Ok((vec![-libc::ENOMEM; moves.len()], true))
            }
            result => result.map(|status| (status, false)),
        }
    };
    let (mut status, is_full) = go(moves)?;
    let mut nodes: Vec<u32> = moves.iter().map(|(_, node)| *node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    if is_full && nodes.len() > 1 {
        for node in nodes {
            let places: Vec<usize> = (0..moves.len()).filter(|&at| moves[at].1 == node).collect();
            let to_node: Vec<(u64, u32)> = places.iter().map(|&at| moves[at]).collect();
            let of_node = go(&to_node)?.0;
            places.into_iter().zip(of_node).for_each(|(at, one)| status[at] = one);
        }
    }
    Ok(status)
}

/// One call; the kernel's status of each page: its node, or a negative error number.
fn call(pid: i32, addresses: &[u64], to: Option<(&[i32], bool)>) -> Result<Vec<i32>, PagesError> {
    let mut status = vec![-libc::EBUSY; addresses.len()];
    let nodes = to.map_or(std::ptr::null(), |(nodes, _)| {
        assert_eq!(nodes.len(), addresses.len());
        nodes.as_ptr()
    });
    let flags = match to {
        Some((_, true)) => MOVE_ALL,
        Some((_, false)) => MOVE,
        None => 0,
    };
    // SAFETY: all arrays are as long as said; the kernel reads two of them and writes the status.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            addresses.len(),
            addresses.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            flags,
        )
    };
    if result >= 0 {
        return Ok(status); // Above 0: so many pages were not moved; their status says why.
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::ESRCH) => PagesError::NoSuchProcess { pid },
        Some(libc::EPERM) => PagesError::NotPermitted { pid },
        Some(libc::ENOSYS) => PagesError::Unsupported,
        Some(libc::ENODEV | libc::EACCES) if to.is_some() => PagesError::NoSuchNode,
        _ => PagesError::Other { pid, error },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_pages_have_a_node_and_others_none() {
        let memory = Mapping::new(4);
        memory.touch(1);
        let addresses: Vec<u64> = (0..4).map(|page| memory.page(page)).collect();
        let Ok(found) = where_pages_are(0, &addresses) else { return };
        assert_eq!(found[0], PageStatus::Absent);
        let node = found[1].node().expect("it was touched");
        // To the node where it is already: allowed everywhere, and it is still there.
        let moved = move_pages(0, &[(addresses[1], node)], false).unwrap();
        assert_eq!(moved, [PageStatus::On(node)]);
    }

    #[test]
    fn errors_say_what_happened() {
        let Err(gone) = where_pages_are(i32::MAX - 1, &[0x1000]) else { panic!("no such process") };
        assert!(matches!(gone, PagesError::NoSuchProcess { .. } | PagesError::Unsupported));
        let memory = Mapping::new(1);
        memory.touch(0);
        let far = move_pages(0, &[(memory.page(0), 1000)], false);
        assert!(matches!(far, Err(PagesError::NoSuchNode | PagesError::Unsupported)), "{far:?}");
    }

    /// Pages of our own.
    struct Mapping(*mut u8, usize);

    impl Mapping {
        fn new(pages: usize) -> Self {
            let (private, access) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | 2);
            // SAFETY: a new mapping where the kernel likes.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), pages * 4096, access, private, -1, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            Self(at.cast(), pages)
        }

        fn page(&self, page: usize) -> u64 {
            assert!(page < self.1);
            self.0 as u64 + page as u64 * 4096
        }

        fn touch(&self, page: usize) {
            // SAFETY: the page is in the mapping, which is ours alone.
            unsafe { std::ptr::write_volatile(self.page(page) as *mut u8, 1) };
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: nothing refers to the mapping any more.
            unsafe { libc::munmap(self.0.cast(), self.1 * 4096) };
        }
    }
}
