//! Synthetic descriptions of machines: what they leave out, and hwloc fills in.

/// The levels of data caches, in order, whose size a description leaves out, so that hwloc takes
/// one of its own.
pub(crate) fn levels_without_size(text: &str) -> Vec<u8> {
    let mut levels: Vec<u8> = words(text).into_iter().filter_map(level_without_size).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// The words of a description; attributes in parentheses belong to the word before them, blanks
/// or not.
fn words(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let ends_word = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c.is_whitespace()
    };
    text.split(ends_word).collect()
}

/// How many PUs a description has: the product of the counts of its levels.
pub(crate) fn pus(text: &str) -> usize {
    let count = |word: &str| {
        let (_, rest) = word.split_once(':')?;
        rest.split('(').next()?.parse::<usize>().ok()
    };
    let levels = words(text).into_iter().filter(|word| !word.starts_with('['));
    levels.filter_map(count).fold(1, usize::saturating_mul)
}

fn level_without_size(word: &str) -> Option<u8> {
    let (head, attributes) = word.split_once(':')?;
    let name = head.to_ascii_lowercase();
    let level = name.strip_prefix('l')?.trim_end_matches(['d', 'u']).strip_suffix("cache");
    let level = level.unwrap_or_else(|| name[1..].trim_end_matches(['d', 'u']));
    let level = level.parse().ok()?;
    (!attributes.contains("size=")).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pus_are_counted() {
        for (text, count) in [
            ("pack:2 l3:1(size=8MiB) core:4 pu:2", 16),
            ("pack:2 [numa] core:3", 6),
            ("pu:100000", 100_000),
            ("pack:99999999999 core:99999999999 pu:2", usize::MAX),
        ] {
            assert_eq!(pus(text), count, "{text}");
        }
    }

    #[test]
    fn sizes_that_are_left_out_are_found() {
        for (text, levels) in [
            ("pack:2 l3:1 core:2 l2:1(size=1MiB) l1d:1 pu:1", &[1, 3][..]),
            ("L2Cache:1 L1d:2 l1i:1 pu:1", &[1, 2]),
            ("pack:2 core:2 pu:1", &[]),
            ("numa:2(memory=1GiB indexes=2*1) l2:1( size=1MiB ) l1:1(size=32KiB) pu:1", &[]),
        ] {
            assert_eq!(levels_without_size(text), levels, "{text}");
        }
    }
}
