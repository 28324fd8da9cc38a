//! What is looked at in a Markdown document: prose, code in backticks, links, headings.

/// The document's lines without blocks of code and code in backticks, with their numbers.
pub fn prose(text: &str) -> Vec<(usize, String)> {
    let without_code = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join(" . ");
    lines(text).map(|(number, line)| (number, without_code(line))).collect()
}

/// Code in backticks, with the number of its line.
pub fn code(text: &str) -> Vec<(usize, &str)> {
    lines(text)
        .flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |c| (number, c)))
        .collect()
}

/// The targets of links and pictures, with the number of their line.
pub fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in lines(text) {
        for rest in line.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                found.push((number, target));
            }
        }
    }
    found
}

/// The anchors of the headings, as GitHub makes them.
pub fn anchors(text: &str) -> Vec<String> {
    let slug = |heading: &str| -> String {
        heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    lines(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| slug(line.trim_start_matches('#')))
        .collect()
}

/// The lines outside of blocks of code, fenced or indented, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut fenced, mut indented, mut blank) = (false, false, true);
    text.lines().enumerate().filter_map(move |(at, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        // An indented block begins after an empty line and ends with a line at the margin.
        let deep = line.starts_with("    ");
        indented = deep && (blank || indented) || indented && line.trim().is_empty();
        blank = line.trim().is_empty();
        (!fenced && !indented).then_some((at + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# The `first` part\n\nSee [this](a.md#x), `b.rs`.\n\n    $ talk [no](c.md)\n\nEnd\n    goes on\n```\n`d.rs`\n```\n";

    #[test]
    fn prose_has_no_code() {
        let prose = prose(TEXT);
        assert!(prose.contains(&(8, "    goes on".into())), "{prose:?}");
        assert!(!prose.iter().any(|(_, line)| line.contains("talk") || line.contains("rs")));
    }

    #[test]
    fn code_links_and_anchors_are_found_outside_of_blocks() {
        assert_eq!(code(TEXT), [(1, "first"), (3, "b.rs")]);
        assert_eq!(links(TEXT), [(3, "a.md#x")]);
        assert_eq!(anchors(TEXT), ["the-first-part"]);
    }
}
