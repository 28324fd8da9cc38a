//! The texts in a source file: string literals, and in Rust doc comments where they become help
//! texts.

/// Text pieces with the line on which each begins. `docs`: doc comments (`///`), too.
pub fn texts(source: &str, docs: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (length, text) = piece(rest, docs).unwrap_or((first.len_utf8(), None));
        if let Some(text) = text {
            found.push((line, text));
        }
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The comment, literal or identifier that `rest` begins with: its length and its text.
fn piece(rest: &str, docs: bool) -> Option<(usize, Option<String>)> {
    if rest.starts_with("//") {
        let end = rest.find('\n').unwrap_or(rest.len());
        let text = rest[..end].strip_prefix("///").filter(|_| docs).map(str::to_owned);
        return Some((end, text));
    }
    if rest.starts_with("/*") {
        return Some((rest.find("*/").map_or(rest.len(), |end| end + 2), None));
    }
    if rest.starts_with("'\"'") || rest.starts_with("'\\") {
        let end = rest[2..].find('\'').map_or(rest.len(), |end| end + 3);
        return Some((end, None));
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if let Some(inner) = raw[hashes..].strip_prefix('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let end = inner.find(&close).unwrap_or(inner.len());
            let length = (hashes + 2 + end + close.len()).min(rest.len());
            return Some((length, Some(inner[..end].to_owned())));
        }
    }
    if rest.starts_with('"') {
        let (length, text) = quoted(rest);
        return Some((length, Some(text)));
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then_some((end, None))
}

/// The literal that `rest` begins with, up to the next quote of the same kind: its length and its
/// text.
fn quoted(rest: &str) -> (usize, String) {
    let mut escaped = false;
    let quote = rest.chars().next();
    let inner = &rest[1..];
    let end = inner
        .find(|c| {
            let closes = Some(c) == quote && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        })
        .unwrap_or(inner.len());
    ((end + 2).min(rest.len()), inner[..end].replace("\\n", " ").replace("\\t", " "))
}

/// Text pieces of TypeScript with the line on which each begins. Of a template literal, what stands
/// between the expressions; their own literals follow. A regular expression with a quote in it
/// would confuse this.
pub fn script_texts(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '\'' | '"' => {
                let (length, text) = quoted(rest);
                found.push((line, text));
                length
            }
            '`' => {
                let (length, text, expressions) = template(rest);
                found.push((line, text));
                let inside = expressions.iter().flat_map(|expression| script_texts(expression));
                found.extend(inside.map(|(below, text)| (line + below - 1, text)));
                length
            }
            _ => first.len_utf8(),
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The template literal that `rest` begins with: its length, its text, and its expressions.
fn template(rest: &str) -> (usize, String, Vec<&str>) {
    let (mut text, mut expressions, mut start) = (String::new(), Vec::new(), 0);
    let (mut depth, mut escaped) = (0_usize, false);
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '{' if depth > 0 || rest[..at].ends_with('$') => {
                depth += 1;
                if depth == 1 {
                    start = at + 1;
                }
            }
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    expressions.push(&rest[start..at]);
                    text.push(' ');
                }
            }
            '`' if depth == 0 && !escaped => return (at + 1, text, expressions),
            '$' => {}
            c if depth == 0 => text.push(c),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    (rest.len(), text, expressions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_with_their_lines() {
        let source =
            "let a = \"one \\\"two\\\"\";\n// \"not this\"\nlet b = r#\"three \"four\"\"#;\n";
        let expected = [(1, "one \\\"two\\\"".to_owned()), (3, "three \"four\"".to_owned())];
        assert_eq!(texts(source, false), expected);
    }

    #[test]
    fn a_quote_as_a_character_opens_nothing() {
        let source = "if c == '\"' || c == '\\'' { text(\"five\") }";
        assert_eq!(texts(source, false), [(1, "five".to_owned())]);
    }

    #[test]
    fn doc_comments_are_texts_on_request() {
        let source = "/// Help\nbar: u8, // no help\n";
        assert_eq!(texts(source, true), [(1, " Help".to_owned())]);
        assert_eq!(texts(source, false), []);
    }

    #[test]
    fn texts_of_typescript_are_found_with_their_lines() {
        let source = "// it's no text\nconst a = 'one \\'two\\''\nb(`three ${c ? `four ${d}` : 'five'} six`)\n";
        let expected = [(2, "one \\'two\\'"), (3, "three   six"), (3, "four  "), (3, "five")];
        let found = script_texts(source);
        let found: Vec<_> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_that_ends_in_r_opens_no_raw_string() {
        assert_eq!(texts("for x in bar\"six\"", false), [(1, "six".to_owned())]);
    }
}
