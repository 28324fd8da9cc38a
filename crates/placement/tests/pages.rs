//! Data mapping: the examples of Diener's thesis (tables 4.3 and 7.2), and what must hold for any
//! pages.

use placement::{
    KmafAction, KmafLimits, KmafPage, KmafPolicy, Page, PagePolicyKind, PageUse, map_pages,
};

/// Table 4.3: four pages, all touched first by thread 0.
fn example() -> PageUse {
    let rows = [[1, 0, 1000, 0], [1, 1000, 0, 0], [1000, 0, 0, 0], [1000, 0, 0, 50]];
    let page = |(number, row): (usize, &[u64; 4])| Page {
        number: number as u64,
        first_touch: 0,
        accesses: row.to_vec(),
    };
    let pages: Vec<Page> = rows.iter().enumerate().map(page).collect();
    // Thread n runs on node n.
    PageUse::by_thread(4, &[0, 1, 2, 3], &pages).unwrap()
}

fn total(page: &Page) -> u64 {
    page.accesses.iter().sum()
}

/// Loc_App (4.10): the share of accesses to pages on the node that accesses them most, percent.
fn locality(usage: &PageUse, nodes: &[usize]) -> String {
    let local = |(page, &node): (&Page, &usize)| {
        let most = *page.accesses.iter().max().unwrap();
        if page.accesses[node] == most { total(page) } else { 0 }
    };
    let all: u64 = usage.pages().iter().map(total).sum();
    let local: u64 = usage.pages().iter().zip(nodes).map(local).sum();
    format!("{:.2}", local as f64 / all as f64 * 100.0)
}

/// B_Acc (4.5) of the accesses that each node serves, percent.
fn imbalance(usage: &PageUse, nodes: &[usize]) -> String {
    let mut served = vec![0.0; usage.nodes()];
    usage.pages().iter().zip(nodes).for_each(|(page, &node)| served[node] += total(page) as f64);
    let mean = served.iter().sum::<f64>() / served.len() as f64;
    let most = served.iter().copied().fold(0.0, f64::max);
    format!("{:.2}", (most / mean - 1.0) * 100.0)
}

#[test]
fn table_4_3_by_every_policy() {
    let usage = example();
    let mixed = |min_exclusivity| PagePolicyKind::Mixed { min_exclusivity };
    let cases = [
        (PagePolicyKind::FirstTouch, [0, 0, 0, 0], "50.59", "300.00"),
        (PagePolicyKind::RoundRobin, [0, 1, 2, 3], "24.70", "3.65"),
        (PagePolicyKind::Interleave, [0, 1, 2, 3], "24.70", "3.65"),
        (PagePolicyKind::Locality, [2, 1, 0, 0], "100.00", "102.37"),
        // Of nodes without accesses the lowest: three pages on node 1.
        (PagePolicyKind::Remote, [1, 2, 1, 1], "0.00", "201.18"),
        // Page 3 has the most accesses and fills node 0, on which page 2 no longer fits.
        (PagePolicyKind::Balanced, [2, 1, 3, 0], "75.32", "3.65"),
        // Exclusivities are 99.9, 99.9, 100 and 95.24 %: only page 3 is below.
        (mixed(0.96), [2, 1, 0, 3], "74.09", "3.65"),
        (mixed(0.90), [2, 1, 0, 0], "100.00", "102.37"),
        (mixed(1.0), [0, 1, 2, 3], "24.70", "3.65"),
        (mixed(0.0), [2, 1, 0, 0], "100.00", "102.37"),
    ];
    for (kind, nodes, local, unequal) in cases {
        let found = map_pages(&usage, kind);
        assert_eq!(found, nodes, "{kind}");
        assert_eq!((&*locality(&usage, &found), &*imbalance(&usage, &found)), (local, unequal));
    }
}

/// Table 7.2: 3 nodes, page 2, limits 70 % and 60 %; one access from node 0, four from 1, nine
/// from 0.
#[test]
fn table_7_2_moves_the_page_three_times() {
    let limits = KmafLimits { min_locality: 0.7, max_balance: 0.6, ..KmafLimits::of(3) };
    let mut page = KmafPage::new(2, 3);
    assert_eq!(page.node(), None);
    use KmafAction::{Allocate, Migrate, Stay};
    use KmafPolicy::{Balance, FirstTouch, Locality, None as Nothing};
    let steps = [
        (0, "100", FirstTouch, Allocate(0)),
        (1, "50", Balance, Stay),
        (1, "67", Nothing, Stay),
        (1, "75", Locality, Stay),
        (1, "80", Locality, Migrate(1)),
        (0, "67", Nothing, Stay),
        (0, "57", Balance, Migrate(2)),
        (0, "50", Balance, Stay),
        (0, "56", Balance, Stay),
        (0, "60", Nothing, Stay),
        (0, "64", Nothing, Stay),
        (0, "67", Nothing, Stay),
        (0, "69", Nothing, Stay),
        (0, "71", Locality, Migrate(0)),
    ];
    for (step, (node, exclusivity, policy, action)) in ('a'..).zip(steps) {
        assert_eq!(page.access(node, limits), (policy, action), "step {step}");
        assert_eq!(format!("{:.0}", page.exclusivity() * 100.0), exclusivity, "step {step}");
    }
    assert_eq!(page.node(), Some(0));
}

#[test]
fn threads_on_one_node_count_together_and_ties_leave_pages_where_they_are() {
    let page = |number, first_touch, accesses: [u64; 4]| Page {
        number,
        first_touch,
        accesses: accesses.to_vec(),
    };
    let pages = [page(7, 3, [4, 5, 3, 3]), page(8, 2, [1, 1, 1, 1]), page(9, 1, [0, 0, 0, 0])];
    let usage = PageUse::by_thread(2, &[0, 0, 1, 1], &pages).unwrap();
    let by_node: Vec<_> = usage.pages().iter().map(|p| (p.first_touch, &p.accesses[..])).collect();
    assert_eq!(by_node, [(1, &[9, 6][..]), (1, &[2, 2]), (0, &[0, 0])]);
    assert_eq!(map_pages(&usage, PagePolicyKind::Locality), [0, 1, 0]);
    assert_eq!(map_pages(&usage, PagePolicyKind::Interleave), [1, 0, 1]);
    assert_eq!(map_pages(&usage, PagePolicyKind::RoundRobin), [0, 1, 0]);
}

/// Pages with random accesses: nodes exist, a seed repeats itself, and Algorithm 4.1 balances.
#[test]
fn many_pages_are_mapped_within_bounds() {
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let pages: Vec<Page> = (0..2000)
        .map(|_| Page {
            number: random(1 << 40),
            first_touch: random(6) as usize,
            // Everything is used from node 0 most.
            accesses: (0..6).map(|n| random(100) + if n == 0 { 100 } else { 0 }).collect(),
        })
        .collect();
    let usage = PageUse::new(6, pages).unwrap();
    for kind in PagePolicyKind::ALL {
        let nodes = map_pages(&usage, kind);
        assert!(nodes.len() == 2000 && nodes.iter().all(|&node| node < 6), "{kind}");
        assert_eq!(nodes, map_pages(&usage, kind), "{kind}");
        let name = kind.name().parse::<PagePolicyKind>();
        assert_eq!(name, Ok(kind));
    }
    let imbalance = |kind| imbalance(&usage, &map_pages(&usage, kind)).parse::<f64>().unwrap();
    assert_eq!(imbalance(PagePolicyKind::Locality), 500.0);
    assert!(imbalance(PagePolicyKind::Balanced) < 1.0);
    let seeds = [1, 2].map(|seed| map_pages(&usage, PagePolicyKind::Random { seed }));
    assert_ne!(seeds[0], seeds[1]);
}

#[test]
fn bad_page_use_is_refused_in_a_sentence() {
    let page = |first_touch, accesses: &[u64]| Page {
        number: 16,
        first_touch,
        accesses: accesses.to_vec(),
    };
    let refused = |nodes, page| PageUse::new(nodes, vec![page]).unwrap_err().to_string();
    assert!(refused(0, page(0, &[])).starts_with("there is no NUMA node"));
    assert_eq!(
        refused(2, page(0, &[1])),
        "page 0x10 has accesses of 1 nodes, but there are 2; give one number for each"
    );
    assert!(refused(2, page(2, &[1, 1])).contains("the first touch of page 0x10 is on node 2"));
    let by_thread =
        |nodes: &[usize], page| PageUse::by_thread(2, nodes, &[page]).unwrap_err().to_string();
    assert!(by_thread(&[0, 5], page(0, &[1, 1])).contains("thread 1 is on node 5"));
    assert!(by_thread(&[0, 1], page(2, &[1, 1])).contains("touched first by thread 2"));
    assert!(by_thread(&[0, 1], page(0, &[1])).contains("of 1 threads, but there are 2"));
    let unknown = "inteleave".parse::<PagePolicyKind>().unwrap_err();
    assert_eq!(unknown.nearest, "interleave");
    assert_eq!(
        PageUse::new(3, Vec::new()).map(|u| map_pages(&u, PagePolicyKind::Balanced)),
        Ok(vec![])
    );
}
