//! Comments: no line of them is longer than rustfmt lets code be.
//!
//! `cargo xtask wrap` mends what the check finds. A paragraph is filled anew from its first line
//! that is too long; code, tables and headings in it stay as they are.

use crate::tree::{has_extension, read};
use std::path::{Path, PathBuf};

/// Maximum width of a line, in characters: `max_width` of rustfmt.toml.
const WIDTH: usize = 100;

/// What is looked at, by file extension.
const EXTENSIONS: &[&str] = &["rs", "c", "h", "cpp"];

/// One sentence for each file with lines of comments that are too long.
pub fn complaints(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| has_extension(file, EXTENSIONS)) {
        let text = read(root, file)?;
        if let Some(line) = text.lines().zip(wrapped(&text).lines()).position(|(a, b)| a != b) {
            let (name, line) = (file.display(), line + 1);
            complaints.push(format!(
                "{name}:{line}: a comment is wider than {WIDTH} characters; run: cargo xtask wrap"
            ));
        }
    }
    Ok(complaints)
}

/// Fills anew what is too long.
pub fn wrap(root: &Path, files: &[PathBuf]) -> anyhow::Result<()> {
    for file in files.iter().filter(|file| has_extension(file, EXTENSIONS)) {
        let text = read(root, file)?;
        let wrapped = wrapped(&text);
        if wrapped != text {
            std::fs::write(root.join(file), wrapped)?;
        }
    }
    Ok(())
}

/// The text with all paragraphs of comments filled anew that are too wide.
fn wrapped(text: &str) -> String {
    let lines: Vec<Line<'_>> = text.lines().map(Line::of).collect();
    let (mut out, mut at, mut fenced) = (String::new(), 0, false);
    while at < lines.len() {
        let line = &lines[at];
        if line.is_fence() {
            fenced = !fenced;
        }
        fenced &= !line.head.is_empty();
        at += 1;
        if fenced || !line.is_prose() || line.all.chars().count() <= WIDTH {
            out.push_str(line.all);
            out.push('\n');
            continue;
        }
        let mut words: Vec<&str> = line.text.split(' ').filter(|word| !word.is_empty()).collect();
        while lines.get(at).is_some_and(|next| next.continues(line)) {
            words.extend(lines[at].text.split_whitespace());
            at += 1;
        }
        fill(&mut out, line, &words);
    }
    out
}

/// Appends the words as lines of the paragraph that begins with `first`.
fn fill(out: &mut String, first: &Line<'_>, words: &[&str]) {
    let start = first.text.len() - first.text.trim_start().len();
    let hanging = start + if first.is_item() { words[0].len() + 1 } else { 0 };
    let (mut row, mut is_empty) = (format!("{}{}", first.head, " ".repeat(start)), true);
    for (k, word) in words.iter().enumerate() {
        // A word that would look like the beginning of something else stays behind its neighbour.
        let special = Line::begins_something(word);
        let next = words.get(k + 1).filter(|next| Line::begins_something(next));
        let length = word.chars().count() + next.map_or(0, |next| 1 + next.chars().count());
        if !is_empty && !special && row.chars().count() + 1 + length > WIDTH {
            out.push_str(row.trim_end());
            out.push('\n');
            (row, is_empty) = (format!("{}{}", first.head, " ".repeat(hanging)), true);
        }
        if !is_empty {
            row.push(' ');
        }
        row.push_str(word);
        is_empty = false;
    }
    out.push_str(&row);
    out.push('\n');
}

/// A line: a comment if its head is not empty.
struct Line<'a> {
    all: &'a str,
    /// Indentation, the comment's mark, and the space behind it.
    head: &'a str,
    /// What stands behind the head.
    text: &'a str,
}

impl<'a> Line<'a> {
    fn of(all: &'a str) -> Self {
        let mark = all.trim_start();
        let mark_bytes = ["///", "//!", "//"]
            .iter()
            .find(|known| mark.starts_with(**known))
            .map_or(0, |known| known.len());
        let behind = &mark[mark_bytes..];
        if mark_bytes == 0 || !(behind.is_empty() || behind.starts_with(' ')) {
            return Self { all, head: "", text: all };
        }
        let space = usize::from(!behind.is_empty());
        let (head, text) = all.split_at(all.len() - behind.len() + space);
        Self { all, head, text }
    }

    fn is_fence(&self) -> bool {
        self.text.trim_start().starts_with("```")
    }

    /// Text that may be filled: no code, table or heading.
    fn is_prose(&self) -> bool {
        let text = self.text.trim_start();
        let is_table = text.starts_with('|') || text.contains("   ");
        !self.head.is_empty()
            && !text.is_empty()
            && !self.is_code()
            && !is_table
            && !text.starts_with("# ")
            && !self.is_fence()
    }

    fn is_code(&self) -> bool {
        self.text.starts_with("    ")
    }

    fn is_item(&self) -> bool {
        self.text.trim_start().split(' ').next().is_some_and(Self::begins_something)
    }

    /// Whether a line that starts with this word is a list item or a heading.
    fn begins_something(word: &str) -> bool {
        let number = word.strip_suffix('.').unwrap_or_default();
        matches!(word, "*" | "-" | "+" | "#" | "|")
            || !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Whether this line is in the same paragraph as `first`, an earlier one.
    fn continues(&self, first: &Line<'_>) -> bool {
        self.head.trim_end() == first.head.trim_end() && self.is_prose() && !self.is_item()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(words: usize) -> String {
        vec!["word"; words].join(" ")
    }

    #[test]
    fn a_paragraph_is_filled_from_its_first_long_line() {
        let text =
            format!("    /// Short.\n    /// {}\n    /// end.\n    ///\n    /// Next.\n", long(20));
        let filled = format!(
            "    /// Short.\n    /// {}\n    /// word word end.\n    ///\n    /// Next.\n",
            long(18)
        );
        assert_eq!(wrapped(&text), filled);
    }

    #[test]
    fn items_hang_and_do_not_flow_into_each_other() {
        let text = format!("//! * {}\n//! * b\n", long(20));
        assert_eq!(wrapped(&text), format!("//! * {}\n//!   word\n//! * b\n", long(19)));
    }

    #[test]
    fn code_tables_and_what_fits_stay() {
        let wide = long(30);
        for line in ["    ", "| ", "# ", "a   b "] {
            let text = format!("// {line}{wide}\n");
            assert_eq!(wrapped(&text), text);
        }
        let text = format!(
            "/// ```\n/// {wide}\n/// ```\n/// Short,\n/// shorter.\nlet a = \"{wide}\";\n"
        );
        assert_eq!(wrapped(&text), text);
    }

    #[test]
    fn no_line_begins_with_what_would_be_a_list() {
        let text = format!("// {} a - b c d e f\n", long(18));
        assert!(wrapped(&text).lines().all(|line| !line.starts_with("// -")), "{}", wrapped(&text));
    }
}
