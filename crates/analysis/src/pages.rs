//! Page usage: who accesses which page how often, and how well pages lie for it.
//!
//! Equations 4.1 to 4.10 of Diener's thesis as pure functions. Rows are pages, columns the NUMA
//! nodes (or threads) that access them; all rows are equally long. Where nodes have equally many
//! accesses, the node that has the page counts as the one with the most, else the lowest number.
//! Neighbour: `balance` has the formula of 4.3 and 4.5.

use crate::balance::imbalance;

/// Accesses to one page by each node.
pub type PageAccesses = Vec<u64>;

/// The node with the most accesses; `current` where it is among several, else the lowest. `None`
/// for no nodes.
pub fn busiest_node(accesses: &[u64], current: Option<usize>) -> Option<usize> {
    let most = *accesses.iter().max()?;
    let lowest = accesses.iter().position(|&count| count == most)?;
    let tied = current.filter(|&node| accesses.get(node) == Some(&most));
    Some(tied.unwrap_or(lowest))
}

/// E_Page (4.1): the share of a page's accesses by the node that has the most, from 1/N to 1.
/// `None` for a page without accesses.
pub fn page_exclusivity(accesses: &[u64]) -> Option<f64> {
    let all = sum(accesses);
    let most = *accesses.iter().max()? as f64;
    (all > 0.0).then(|| most / all)
}

/// E_App (4.2): the exclusivity of all pages, each as heavy as its accesses. `None` without any.
pub fn app_exclusivity(pages: &[PageAccesses]) -> Option<f64> {
    weighted(pages, |page| page_exclusivity(page).unwrap_or(0.0))
}

/// B_Pages (4.3) in percent: 0 when all `nodes` hold equally many pages, (N − 1)·100 when one holds
/// them all. `page_nodes` is the node of each page.
pub fn page_balance(page_nodes: &[usize], nodes: usize) -> f64 {
    let mut held = vec![0.0; nodes];
    page_nodes.iter().for_each(|&node| held[node] += 1.0);
    imbalance(&held)
}

/// NodeAcc (4.4): accesses that each of `nodes` serves, those to the pages that it holds. (As
/// printed, 4.4 counts by the node that accesses, which does not depend on where pages lie.)
pub fn served(pages: &[PageAccesses], page_nodes: &[usize], nodes: usize) -> Vec<f64> {
    let mut served = vec![0.0; nodes];
    pages.iter().zip(page_nodes).for_each(|(page, &node)| served[node] += sum(page));
    served
}

/// B_Acc (4.5) in percent, of what [`served`] gives.
pub fn access_balance(served: &[f64]) -> f64 {
    imbalance(served)
}

/// Mem_Usage (4.6), bytes.
pub fn memory_usage(pages: u64, page_bytes: u64) -> u64 {
    pages.saturating_mul(page_bytes)
}

/// Whether the memory used exceeds all caches together (4.6); below, mapping pages gains little.
pub fn exceeds_caches(memory_usage: u64, cache_bytes: &[u64]) -> bool {
    u128::from(memory_usage) > cache_bytes.iter().map(|&bytes| u128::from(bytes)).sum::<u128>()
}

/// Migrations (4.7): how often the busiest node of a page changes from one slice to the next.
/// `slices` holds the page's accesses in each; slices without any leave it where it is.
pub fn migrations(slices: &[PageAccesses]) -> usize {
    migrations_from(None, slices)
}

/// [`migrations`] of a page that lies on a node before the first slice, as where it was touched
/// first (the thesis' 4.4.2).
pub fn migrations_from(mut current: Option<usize>, slices: &[PageAccesses]) -> usize {
    let mut moved = 0;
    for accesses in slices.iter().filter(|accesses| sum(accesses) > 0.0) {
        let next = busiest_node(accesses, current);
        moved += usize::from(current.is_some() && next != current);
        current = next;
    }
    moved
}

/// Page_Dyn (4.8): migrations of all pages per second; `None` without time.
pub fn page_dynamicity(migrations: usize, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| migrations as f64 / seconds)
}

/// Loc_Page (4.9): whether the page lies on the node that accesses it most.
pub fn page_is_local(accesses: &[u64], node: usize) -> bool {
    busiest_node(accesses, Some(node)) == Some(node)
}

/// Loc_App (4.10): the share of accesses that go to local pages, 0 to 1; `None` without accesses.
pub fn app_locality(pages: &[PageAccesses], page_nodes: &[usize]) -> Option<f64> {
    let mut nodes = page_nodes.iter();
    let mut local = |page: &[u64]| nodes.next().is_some_and(|&node| page_is_local(page, node));
    weighted(pages, |page| f64::from(u8::from(local(page))))
}

/// The mean of a value of pages, each as heavy as its accesses.
fn weighted(pages: &[PageAccesses], mut value: impl FnMut(&[u64]) -> f64) -> Option<f64> {
    let all: f64 = pages.iter().map(|page| sum(page)).sum();
    let weighted: f64 = pages.iter().map(|page| value(page) * sum(page)).sum();
    (all > 0.0).then(|| weighted / all)
}

fn sum(accesses: &[u64]) -> f64 {
    accesses.iter().map(|&count| count as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::near;

    /// Table 4.3: accesses of four threads, each on the node of its number, to four pages.
    fn table_4_3() -> Vec<PageAccesses> {
        vec![vec![1, 0, 1000, 0], vec![1, 1000, 0, 0], vec![1000, 0, 0, 0], vec![1000, 0, 0, 50]]
    }

    #[track_caller]
    fn mapped(nodes: [usize; 4], locality: &str, balance: &str) {
        let pages = table_4_3();
        let percent = |value: f64| format!("{value:.2}");
        assert_eq!(percent(app_locality(&pages, &nodes).unwrap() * 100.0), locality);
        assert_eq!(percent(access_balance(&served(&pages, &nodes, 4))), balance);
    }

    #[test]
    fn figure_4_1_exclusive_and_shared() {
        near(page_exclusivity(&[1, 25, 1, 1]).unwrap(), 25.0 / 28.0);
        near(page_exclusivity(&[40, 35, 35, 20]).unwrap(), 40.0 / 130.0);
        assert_eq!(page_exclusivity(&[0, 0]), None);
        assert_eq!(page_exclusivity(&[]), None);
    }

    #[test]
    fn figure_4_2_pages_and_accesses() {
        let pages = |counts: [usize; 4]| {
            let nodes = counts.iter().enumerate();
            let of: Vec<usize> = nodes.flat_map(|(n, &c)| std::iter::repeat_n(n, c)).collect();
            page_balance(&of, 4)
        };
        near(pages([10, 8, 9, 5]), 25.0);
        assert_eq!(format!("{:.2}", pages([1, 10, 1, 1])), "207.69");
        assert_eq!(format!("{:.2}", access_balance(&[5.0, 50.0, 5.0, 5.0])), "207.69");
        assert_eq!(format!("{:.2}", access_balance(&[100.0, 90.0, 90.0, 50.0])), "21.21");
        near(page_balance(&[1; 7], 4), 300.0);
        assert_eq!(page_balance(&[], 4), 0.0);
    }

    #[test]
    fn table_4_1_the_first_thread_does_most() {
        let total = [6_517_798, 3_527_898, 2_917_345, 3_427_447];
        assert_eq!(format!("{:.2}", page_exclusivity(&total).unwrap() * 100.0), "39.77");
    }

    #[test]
    fn table_4_3_exclusivity() {
        let pages = table_4_3();
        let of_pages: Vec<f64> = pages.iter().map(|page| page_exclusivity(page).unwrap()).collect();
        near(of_pages[0], 1000.0 / 1001.0);
        near(of_pages[1], 1000.0 / 1001.0);
        near(of_pages[2], 1.0);
        near(of_pages[3], 1000.0 / 1050.0);
        let rounded: Vec<String> = of_pages.iter().map(|e| format!("{:.3}", e * 100.0)).collect();
        assert_eq!(rounded, ["99.900", "99.900", "100.000", "95.238"]);
        near(app_exclusivity(&pages).unwrap(), 4000.0 / 4052.0);
        assert_eq!(app_exclusivity(&[]), None);
    }

    #[test]
    fn table_4_3_mapped_by_policies() {
        mapped([0, 0, 0, 0], "50.59", "300.00");
        mapped([0, 1, 2, 3], "24.70", "3.65");
        mapped([2, 1, 0, 0], "100.00", "102.37");
    }

    #[test]
    fn ties_go_to_the_current_node_else_to_the_lowest() {
        assert_eq!(busiest_node(&[5, 7, 7], None), Some(1));
        assert_eq!(busiest_node(&[5, 7, 7], Some(2)), Some(2));
        assert_eq!(busiest_node(&[5, 7, 7], Some(0)), Some(1));
        assert_eq!(busiest_node(&[], Some(0)), None);
        assert!(page_is_local(&[5, 7, 7], 2) && !page_is_local(&[5, 7, 7], 0));
    }

    #[test]
    fn pages_migrate_when_another_node_uses_them_most() {
        let slices = [vec![5, 1], vec![1, 9], vec![0, 0], vec![3, 3], vec![9, 1]];
        // To node 1 in the second slice; a tie leaves it there; back in the last.
        assert_eq!(migrations(&slices), 2);
        assert_eq!(migrations(&[]), 0);
        assert_eq!((migrations_from(Some(0), &slices), migrations_from(Some(1), &slices)), (2, 3));
        assert_eq!(page_dynamicity(6, 2.0), Some(3.0));
        assert_eq!(page_dynamicity(6, 0.0), None);
    }

    #[test]
    fn memory_is_held_against_the_caches() {
        assert_eq!(memory_usage(162, 4096), 663_552);
        assert_eq!(memory_usage(u64::MAX, 2), u64::MAX);
        assert!(exceeds_caches(101, &[50, 50]) && !exceeds_caches(100, &[50, 50]));
        assert!(!exceeds_caches(u64::MAX, &[u64::MAX, u64::MAX]));
    }
}
