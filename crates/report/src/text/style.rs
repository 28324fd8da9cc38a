//! How text is printed: colours, width, and what may reach a terminal.

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextStyle {
    /// Use ANSI colours.
    pub colour: bool,
    /// Columns of the terminal; sentences are broken and tables cut to fit.
    pub width: usize,
    /// How many of the hottest lines to show, all with their details; `None`: the usual choice.
    pub lines: Option<usize>,
}

impl TextStyle {
    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(super) fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }

    /// Breaks a sentence at spaces; further lines start with `indent`.
    pub(super) fn wrap(self, text: &str, indent: &str) -> String {
        let mut out = String::new();
        let mut column = 0;
        for word in text.split_inclusive(' ') {
            let length = word.trim_end().chars().count();
            if column > 0 && column + length > self.width {
                out.truncate(out.trim_end().len());
                out.push('\n');
                out.push_str(indent);
                column = indent.len();
            }
            out.push_str(word);
            column += word.chars().count();
        }
        out
    }
}

/// Text of the recorded program that cannot move the cursor or colour the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_wrap_at_spaces() {
        let style = TextStyle { colour: false, width: 100, lines: None };
        let wrapped = style.wrap("word ".repeat(30).trim_end(), "  ");
        let lengths: Vec<_> = wrapped.lines().map(str::len).collect();
        assert_eq!(lengths, [99, 51]);
    }
}
