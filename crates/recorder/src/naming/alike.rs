//! The order of places that look the same: several calls on one line that allocate.
//!
//! Another build of a program tells them apart by nothing but the order in which they come first.
//! So their rows stand in that order, which is that of their groups. Neighbours: `objects` makes
//! the rows, `placement` has the same order in plans.

use profile::ObjectRow;
use std::collections::{BTreeMap, HashMap};

/// Region, name and callers.
type Words<'a> = (&'a str, &'a str, &'a str);

/// Brings rows with the same words into the order of their groups; `groups` has the group of each
/// row that is of one. Returns the new number of each row.
pub fn in_order(rows: &mut Vec<ObjectRow>, groups: &mut HashMap<u32, u32>) -> Vec<u32> {
    let mut alike: BTreeMap<Words<'_>, Vec<(u32, u32)>> = BTreeMap::new();
    for (number, row) in (0..).zip(rows.iter()) {
        if let Some(group) = groups.get(&number) {
            let words = (row.region.as_str(), row.name.as_str(), row.callers.as_str());
            alike.entry(words).or_default().push((*group, number));
        }
    }
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    for mut of_words in alike.into_values() {
        let places: Vec<u32> = of_words.iter().map(|(_, number)| *number).collect();
        of_words.sort_unstable();
        for ((_, number), place) in of_words.iter().zip(places) {
            order[*number as usize] = place;
        }
    }
    let mut placed: Vec<(u32, ObjectRow)> =
        order.iter().copied().zip(std::mem::take(rows)).collect();
    placed.sort_unstable_by_key(|(place, _)| *place);
    *rows = placed.into_iter().map(|(_, row)| row).collect();
    *groups = groups.iter().map(|(row, group)| (order[*row as usize], *group)).collect();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_look_the_same_stand_in_the_order_of_their_groups() {
        let row = |name: &str, bytes| ObjectRow {
            region: "heap".into(),
            name: name.into(),
            bytes,
            ..ObjectRow::default()
        };
        let mut rows = vec![row("", 0), row("a", 1), row("b", 2), row("a", 3), row("a", 4)];
        let mut groups = HashMap::from([(1, 9), (2, 4), (3, 5), (4, 7)]);
        let order = in_order(&mut rows, &mut groups);
        assert_eq!(order, [0, 4, 2, 1, 3]);
        assert_eq!(rows.iter().map(|row| row.bytes).collect::<Vec<_>>(), [0, 3, 2, 4, 1]);
        assert_eq!(groups, HashMap::from([(4, 9), (2, 4), (1, 5), (3, 7)]));
    }
}
