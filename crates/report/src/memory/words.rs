//! Advice and first sentences about pages, in words.
//!
//! Neighbours: `advice` finds what is said, `text/memory.rs` and the page show it.

use crate::memory::advice::{DataAdvice, DataPattern, Facts, Found, GainOf};
use crate::memory::objects::ObjectUse;
use crate::wording::{list, thread_list};
use analysis::binary_bytes;
use types::numbers::{grouped, percent, short};

/// Objects and teams that are named one by one.
const MAX_NAMED: usize = 3;
/// Share of an object's accesses from which on a node stands for all that use it.
const ONE_NODE: f64 = 0.9;
/// Share of accesses from which on a node is named.
const NAMED_NODE: f64 = 0.02;

pub(super) fn finish(facts: &Facts<'_>, number: usize, found: &Found) -> DataAdvice {
    let first = &facts.objects[found.objects[0]];
    let total: u64 = found.objects.iter().map(|&at| facts.objects[at].total).sum();
    let share = total as f64 / facts.all as f64;
    let title = title(facts, found, first);
    let (evidence, advice) = sentences(facts, found, first);
    let (gain_of, before, after) = (found.gain_of(), found.before, found.after);
    let gain = match gain_of {
        GainOf::Local => format!(
            "Predicted: {} of all accesses would be local instead of {}",
            percent(after),
            percent(before)
        ),
        GainOf::BusiestController => format!(
            "Predicted: the busiest controller would serve {} of all accesses instead of {}",
            percent(after),
            percent(before)
        ),
    };
    let text = format!("{title}: {} of the accesses. {evidence}. {advice} {gain}.", percent(share));
    DataAdvice {
        id: format!("m{}", number + 1),
        pattern: found.pattern,
        title,
        objects: found.objects.iter().map(|&at| facts.objects[at].name.clone()).collect(),
        object_row: Some(first.row).filter(|row| *row != 0),
        object_place: found.objects[0] as u32,
        share,
        evidence,
        advice,
        gain_of,
        before,
        after,
        gain,
        text,
    }
}

fn title(facts: &Facts<'_>, found: &Found, first: &ObjectUse) -> String {
    let more = found.objects.len() - 1;
    let what = match more {
        0 => first.name.clone(),
        1 => format!("{} and another object", first.name),
        n => format!("{} and {n} other objects", first.name),
    };
    let node = facts.node(first.home());
    match found.pattern {
        DataPattern::Packed => format!("Threads' own data share pages in {what}"),
        DataPattern::RemoteAfterAllocation => format!("Used from afar: {what}"),
        DataPattern::Alternating => format!("Nodes take turns with {what}"),
        DataPattern::ReadByAll => format!("All nodes read {what} from {node}"),
        DataPattern::SharersApart => format!("Threads that share {what} are on different nodes"),
        DataPattern::OneController => format!("One controller serves all of {what}"),
        DataPattern::HotObjects => format!("Hot objects lie on one node: {what}"),
    }
}

/// What was seen (without a full stop), and what to do.
fn sentences(facts: &Facts<'_>, found: &Found, object: &ObjectUse) -> (String, String) {
    match found.pattern {
        DataPattern::Packed => packed(facts, object),
        DataPattern::RemoteAfterAllocation => remote(facts, object),
        DataPattern::Alternating => alternating(facts, object),
        DataPattern::ReadByAll => read_by_all(facts, object),
        DataPattern::SharersApart => sharers(facts, found, object),
        DataPattern::OneController => one_controller(facts, object),
        DataPattern::HotObjects => hot_objects(facts, found),
    }
}

/// `T0 touched its pages first in main at a.c:7`.
fn touched(object: &ObjectUse) -> String {
    let touchers = object.touchers();
    let at = match object.touched_at.as_str() {
        "" => String::new(),
        place => format!(" {place}"),
    };
    match touchers.as_slice() {
        [] => "it is not known who touched it first".into(),
        [one] => format!("T{one} touched it first{at}"),
        several => {
            let mut several = several.to_vec();
            several.sort_unstable();
            format!("{} touched it first, most of it{at}", thread_list(&several))
        }
    }
}

fn remote(facts: &Facts<'_>, object: &ObjectUse) -> (String, String) {
    let (busiest, share) = facts.busiest_user(object);
    let lies = format!("It lies on {}: {}", facts.held(object), touched(object));
    let far = percent(1.0 - object.part(object.local));
    if share >= ONE_NODE {
        let users = thread_list(&facts.users_on(object, busiest));
        let node = facts.node(busiest);
        let evidence = format!(
            "{lies}. But {users} on {node} make {} of its {} accesses, and {far} of them go to \
             another node",
            percent(share),
            short(object.total as f64)
        );
        let advice = format!(
            "Let one of {users} touch (initialise) it first, or allocate it on the node of its users \
             (numa_alloc_onnode, mbind). Where they are known only later, move it when they start \
             (move_pages)."
        );
        return (evidence, advice);
    }
    let evidence = format!(
        "{lies}. But each page is used by one node almost alone ({} of the accesses come from a \
         page's busiest node; {}), and {far} of them go to another node",
        percent(object.part(object.most)),
        facts.by_node(&object.used, object.total)
    );
    let advice = "Let each thread touch (initialise) the part first that it will use, as with the \
                  same schedule in the initialising loop; or bind each part to its node (mbind)."
        .into();
    (evidence, advice)
}

fn packed(facts: &Facts<'_>, object: &ObjectUse) -> (String, String) {
    let users = thread_list(&object.users());
    let evidence = format!(
        "On {} of its {} pages, threads on several nodes use lines of their own: none of them \
         shares what it uses, only the pages. It lies on {}: {}. {} of its accesses go to another \
         node",
        grouped(object.packed_pages),
        grouped(object.pages.len() as u64),
        facts.held(object),
        touched(object),
        percent(1.0 - object.part(object.local))
    );
    let advice = match object.several_blocks || object.region != "static" {
        true => format!(
            "Let each of {users} allocate what it uses from memory of its own, on its node: an arena \
             or pool for each thread (numa_alloc_local, thread-local arenas). Copies and migration \
             would not help: nothing is shared."
        ),
        false => format!(
            "Give each of {users} whole pages: put what a thread uses side by side, aligned to 4096 \
             bytes, and let the thread touch it first."
        ),
    };
    (evidence, advice)
}

fn alternating(facts: &Facts<'_>, object: &ObjectUse) -> (String, String) {
    let users = thread_list(&object.users());
    let evidence = format!(
        "{users} use it one after the other: at each time one node makes nearly all accesses to a \
         page ({}; over the whole run {}), and which one changes {:.1} times for each page. It \
         lies on {}: {}",
        percent(object.part(object.most_by_stretch)),
        percent(object.part(object.most)),
        object.moves as f64 / object.pages.len().max(1) as f64,
        facts.held(object),
        touched(object)
    );
    let advice = format!(
        "Place {users} on one node, with the object; or hand it over with its pages: move it to the \
         node of the thread that takes it over (move_pages, or a copy), if that uses it for long."
    );
    (evidence, advice)
}

fn read_by_all(facts: &Facts<'_>, object: &ObjectUse) -> (String, String) {
    let nodes = facts.place.nodes() as u64;
    let evidence = format!(
        "{} read it on {} nodes at the same time; {} of its accesses are reads, and hardly any \
         write comes from another thread than the one that touched it first. It lies on {}: {}. {} \
         of its accesses go to another node",
        thread_list(&object.users()),
        facts.using_nodes(object),
        percent(object.part_of_counts(object.reads)),
        facts.held(object),
        touched(object),
        percent(1.0 - object.part(object.local))
    );
    let advice = format!(
        "Keep a copy on each node, made by a thread there once it has been initialised: {} nodes × \
         {} = {}.",
        nodes,
        binary_bytes(object.bytes()),
        binary_bytes(object.bytes() * nodes)
    );
    (evidence, advice)
}

fn sharers(facts: &Facts<'_>, found: &Found, object: &ObjectUse) -> (String, String) {
    let teams = facts.teams.map_or(&[][..], |teams| &teams.list);
    let named: Vec<String> = teams.iter().take(MAX_NAMED).map(|team| facts.team(team)).collect();
    let more = match teams.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    let others = match found.objects.len() {
        1 => String::new(),
        n => format!(" The same holds for {} other objects.", n - 1),
    };
    let evidence = format!(
        "Each of its pages is shared by the threads of one team only: {}{more}. But members of a \
         team are on different nodes, and {} of its accesses go to another node.{others}",
        named.join("; "),
        percent(1.0 - object.part(object.local))
    );
    let by = match facts.processes.iter().any(Option::is_some) {
        true => "bind each process to a node (numactl --cpunodebind, or a plan)",
        false => "bind its threads there (a plan by 'threadtalk place', or affinity)",
    };
    let advice = format!("Bring each team together on one node: {by}, before it touches its data.");
    (evidence.trim_end_matches('.').into(), advice)
}

fn one_controller(facts: &Facts<'_>, object: &ObjectUse) -> (String, String) {
    let node = facts.node(object.home());
    let evidence = format!(
        "{node} serves {} of all accesses (its part would be {}), {} of them to this object, which {} \
         use at the same time from {} nodes; {} of its accesses are writes. {}",
        percent(facts.loads[object.home()]),
        percent(1.0 / facts.loads.len() as f64),
        percent(object.total as f64 / facts.all as f64 / facts.loads[object.home()].max(1e-9)),
        thread_list(&object.users()),
        facts.using_nodes(object),
        percent(object.part_of_counts(object.writes)),
        capitalised(&touched(object))
    );
    let advice = format!(
        "Interleave the pages of this object over the nodes (mbind with MPOL_INTERLEAVE, \
         numa_alloc_interleaved), not those of the whole program. As many accesses stay remote, but \
         {node} no longer holds them up. Copies or migration would not help: threads write to it at \
         the same time."
    );
    (capitalised(&evidence), advice)
}

fn hot_objects(facts: &Facts<'_>, found: &Found) -> (String, String) {
    let first = &facts.objects[found.objects[0]];
    let name = |at: &usize| {
        let object = &facts.objects[*at];
        format!("{} ({})", object.name, percent(object.total as f64 / facts.all as f64))
    };
    let names: Vec<String> = found.objects.iter().take(MAX_NAMED).map(name).collect();
    let evidence = format!(
        "{} serves {} of all accesses, most of them to {}, which several nodes use at the same time",
        capitalised(&facts.node(first.home())),
        percent(facts.loads[first.home()]),
        list(&names)
    );
    let others = facts.loads_without(&found.objects);
    let put = facts.spread_over(&found.objects, &others);
    let moved = put
        .iter()
        .take(MAX_NAMED)
        .map(|(at, node)| format!("{} on {}", facts.objects[*at].name, facts.node(*node)));
    let advice = format!(
        "Spread them over the nodes: {} (numa_alloc_onnode, mbind).",
        list(&moved.collect::<Vec<_>>())
    );
    (evidence, advice)
}

impl Facts<'_> {
    /// `node 1`, by the kernel's number.
    pub(crate) fn node(&self, node: usize) -> String {
        format!("node {}", self.place.os[node])
    }

    /// `node 0 (all 64 pages)`, `node 0 (60 pages) and node 1 (4)`.
    fn held(&self, object: &ObjectUse) -> String {
        let pages = |n: u64| grouped(n);
        let holders: Vec<usize> =
            (0..object.held.len()).filter(|&node| object.held[node] > 0).collect();
        match holders.as_slice() {
            [one] => {
                let n = object.held[*one];
                let plural =
                    if n == 1 { "its only page".into() } else { format!("all {} pages", pages(n)) };
                format!("{} ({plural})", self.node(*one))
            }
            several => {
                let each = several.iter().map(|&node| {
                    format!("{} ({} pages)", self.node(node), pages(object.held[node]))
                });
                list(&each.collect::<Vec<_>>())
            }
        }
    }

    /// `node 0 50 %, node 1 50 %`.
    fn by_node(&self, counts: &[u64], all: u64) -> String {
        let part = |node: &usize| counts[*node] as f64 / all.max(1) as f64;
        let each: Vec<String> = (0..counts.len())
            .filter(|node| part(node) >= NAMED_NODE)
            .map(|node| format!("{} {}", self.node(node), percent(part(&node))))
            .collect();
        each.join(", ")
    }

    /// How many nodes make a notable part of an object's accesses.
    fn using_nodes(&self, object: &ObjectUse) -> usize {
        object.used.iter().filter(|used| object.part(**used) >= NAMED_NODE).count()
    }

    /// The node that uses an object most, and its share.
    fn busiest_user(&self, object: &ObjectUse) -> (usize, f64) {
        let nodes = 0..object.used.len();
        let busiest = nodes.max_by_key(|&node| object.used[node]).unwrap_or(0);
        (busiest, object.part(object.used[busiest]))
    }

    /// Users of an object that access memory mostly from a node.
    fn users_on(&self, object: &ObjectUse, node: usize) -> Vec<u32> {
        let mut on = std::collections::BTreeMap::<u32, (u64, u64)>::new();
        for &page in &object.pages {
            let cells = &self.grid.cells;
            let from = cells.partition_point(|cell| cell.page < page);
            for cell in cells[from..].iter().take_while(|cell| cell.page == page) {
                let of_thread = on.entry(cell.thread).or_default();
                of_thread.0 += if cell.node as usize == node { cell.weight } else { 0 };
                of_thread.1 += cell.weight;
            }
        }
        let mut users = object.users();
        users.retain(|thread| on.get(thread).is_some_and(|(here, all)| here * 2 > *all));
        users
    }

    /// `T1–T4`, or `T1–T4 (process 0)`.
    fn team(&self, team: &[u32]) -> String {
        let process = |thread: &u32| self.processes.get(*thread as usize).copied().flatten();
        let first = process(&team[0]);
        let same = team.iter().all(|thread| process(thread) == first);
        match first.filter(|_| same) {
            Some(number) => format!("{} (process {number})", thread_list(team)),
            None => thread_list(team),
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
