//! The texts in a Rust source file: string literals, and doc comments where they become help texts.

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
    if let Some(inner) = rest.strip_prefix('"') {
        let mut escaped = false;
        let end = inner
            .find(|c| {
                let closes = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                closes
            })
            .unwrap_or(inner.len());
        let text = inner[..end].replace("\\n", " ").replace("\\t", " ");
        return Some(((end + 2).min(rest.len()), Some(text)));
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then_some((end, None))
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
    fn a_name_that_ends_in_r_opens_no_raw_string() {
        assert_eq!(texts("for x in bar\"six\"", false), [(1, "six".to_owned())]);
    }
}
