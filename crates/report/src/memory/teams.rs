//! Teams: threads that use the same pages, and whether they are on one node.
//!
//! Two threads belong together when a good part of what one of them accesses lies on pages that
//! both use and that few others do. Teams that fit on a node can be brought together there, which
//! helps where no place of the data does. Neighbours: `grid` has the accesses, `advice` says what
//! follows.

use crate::memory::grid::Grid;
use crate::memory::objects::PAGE_USER;
use profile::Profile;
use std::collections::BTreeMap;

/// Part of a thread's accesses on pages that it shares with another from which on both are a team.
const TOGETHER: f64 = 0.05;

/// Users of a page up to which all pairs are looked at.
const ALL_PAIRS: usize = 8;

/// The teams of a program.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Teams {
    /// Members, ordered by id.
    pub list: Vec<Vec<u32>>,
    /// By thread.
    pub of_thread: Vec<Option<usize>>,
    /// By page: its team, if all that use it are of one, and the accesses of these.
    pub of_page: Vec<Option<(usize, u64)>>,
}

impl Teams {
    /// Teams of at least two threads that fit on a node with `room` for threads, if one of them is
    /// on several nodes now and there are others beside it.
    pub(crate) fn of(profile: &Profile, grid: &Grid<'_>, room: usize) -> Option<Self> {
        let threads = profile.threads.len();
        let mut shared: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut totals = vec![0_u64; threads];
        let mut nodes: Vec<BTreeMap<u32, u64>> = vec![BTreeMap::new(); threads];
        let mut users_of: Vec<Vec<(u32, u64)>> = vec![Vec::new(); grid.facts.len()];
        for of_page in grid.cells.chunk_by(|a, b| a.page == b.page) {
            let page = of_page[0].page as usize;
            let mut users: BTreeMap<u32, u64> = BTreeMap::new();
            for cell in of_page {
                *users.entry(cell.thread).or_default() += cell.weight;
                totals[cell.thread as usize] += cell.weight;
                *nodes[cell.thread as usize].entry(cell.node).or_default() += cell.weight;
            }
            let least = PAGE_USER * grid.facts[page].total as f64;
            users.retain(|_, weight| *weight as f64 >= least);
            let users: Vec<(u32, u64)> = users.into_iter().collect();
            if users.len() <= room {
                // Of many, neighbours are enough to join them all.
                let reach = if users.len() <= ALL_PAIRS { users.len() } else { 1 };
                for (k, &(a, of_a)) in users.iter().enumerate() {
                    for &(b, of_b) in users[k + 1..].iter().take(reach) {
                        *shared.entry((a, b)).or_default() += of_a.min(of_b);
                    }
                }
            }
            users_of[page] = users;
        }
        let strong = |&(a, b): &(u32, u32), weight: u64| {
            let least = totals[a as usize].min(totals[b as usize]) as f64 * TOGETHER;
            weight > 0 && weight as f64 >= least
        };
        let pairs = shared.iter().filter(|(pair, weight)| strong(pair, **weight));
        let list = joined(threads, pairs.map(|(pair, _)| *pair));
        let node_of = |thread: u32| {
            let nodes = &nodes[thread as usize];
            nodes.iter().max_by_key(|(_, weight)| **weight).map(|(node, _)| *node)
        };
        let apart = |team: &Vec<u32>| team.iter().any(|t| node_of(*t) != node_of(team[0]));
        let working = totals.iter().filter(|total| **total > 0).count();
        let fits = |team: &Vec<u32>| team.len() <= room && team.len() < working;
        if list.is_empty() || !list.iter().all(fits) || !list.iter().any(apart) {
            return None;
        }
        let mut of_thread = vec![None; threads];
        for (number, team) in list.iter().enumerate() {
            team.iter().for_each(|&thread| of_thread[thread as usize] = Some(number));
        }
        let team_of = |users: &Vec<(u32, u64)>| {
            let team = of_thread[users.first()?.0 as usize]?;
            let all =
                users.len() > 1 && users.iter().all(|(t, _)| of_thread[*t as usize] == Some(team));
            all.then(|| (team, users.iter().map(|(_, weight)| weight).sum()))
        };
        let of_page = users_of.iter().map(team_of).collect();
        Some(Self { list, of_thread, of_page })
    }
}

/// Threads that pairs join, directly or through others; only teams of two and more.
fn joined(threads: usize, pairs: impl Iterator<Item = (u32, u32)>) -> Vec<Vec<u32>> {
    let mut above: Vec<u32> = (0..threads as u32).collect();
    for (a, b) in pairs {
        let (a, b) = (top(&mut above, a), top(&mut above, b));
        above[a.max(b) as usize] = a.min(b);
    }
    let mut teams: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for thread in 0..threads as u32 {
        teams.entry(top(&mut above, thread)).or_default().push(thread);
    }
    let mut list: Vec<Vec<u32>> = teams.into_values().filter(|team| team.len() > 1).collect();
    list.sort_by_key(|team| team[0]);
    list
}

/// The first thread of a thread's team.
fn top(above: &mut [u32], mut thread: u32) -> u32 {
    while above[thread as usize] != thread {
        let next = above[above[thread as usize] as usize];
        above[thread as usize] = next;
        thread = next;
    }
    thread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_join_to_teams() {
        let list = joined(6, [(1, 2), (4, 5), (2, 3)].into_iter());
        assert_eq!(list, [vec![1, 2, 3], vec![4, 5]]);
    }
}
