//! The report as one self-contained HTML file.
//!
//! The page's looks and behaviour are built in `web/` into a single file that is embedded here; this
//! module puts the data of one profile into it. Neighbours: `web/src/model/data.ts` decodes what
//! [`PageData`] encodes.

use crate::findings::Findings;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use profile::Profile;
use serde::Serialize;
use types::{CommKind, CommMatrix};

/// Built by `npm run build` in `web/`; `build.rs` says so when it is missing.
const TEMPLATE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/report.html"));
/// Stands in the template where the data go.
const PLACEHOLDER: &str = "__THREADTALK_DATA__";
/// The page computes pairs from the matrix; the list is only needed for its first sentences.
const PAIRS_IN_PAGE: usize = 10;

#[derive(Serialize)]
struct PageData<'a> {
    findings: &'a Findings,
    matrices: Matrices,
}

#[derive(Serialize)]
struct Matrices {
    raw: EncodedMatrix,
    waw: EncodedMatrix,
    invalidation: EncodedMatrix,
}

/// Cells that are not 0, ordered by (from, to), as base64 of little-endian arrays: far smaller
/// and faster than JSON numbers, and exact beyond 2^53.
#[derive(Serialize)]
struct EncodedMatrix {
    /// u32 each.
    from: String,
    /// u32 each.
    to: String,
    /// u64 each.
    count: String,
}

impl From<&CommMatrix> for EncodedMatrix {
    fn from(matrix: &CommMatrix) -> Self {
        let (mut from, mut to, mut count) = (vec![], vec![], vec![]);
        for (f, t, c) in matrix.iter() {
            from.extend_from_slice(&f.0.to_le_bytes());
            to.extend_from_slice(&t.0.to_le_bytes());
            count.extend_from_slice(&c.to_le_bytes());
        }
        let encode = |bytes: Vec<u8>| BASE64_STANDARD.encode(bytes);
        Self { from: encode(from), to: encode(to), count: encode(count) }
    }
}

/// The whole page.
pub fn page(findings: &Findings, profile: &Profile) -> String {
    let mut findings = findings.clone();
    findings.pairs.truncate(PAIRS_IN_PAGE);
    let matrix = |kind| EncodedMatrix::from(&profile.matrix(kind));
    let matrices = Matrices {
        raw: matrix(CommKind::Raw),
        waw: matrix(CommKind::Waw),
        invalidation: matrix(CommKind::Invalidation),
    };
    let data = serde_json::to_string(&PageData { findings: &findings, matrices })
        .expect("findings have only string keys and finite numbers");
    // In JSON, '<' stands only inside strings; escaped, no name can close the script element.
    let data = data.replace('<', "\\u003c");
    let (head, tail) = TEMPLATE.split_once(PLACEHOLDER).expect("checked by a test");
    [head, &data, tail].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample;

    #[test]
    fn the_template_has_one_place_for_the_data() {
        assert_eq!(TEMPLATE.matches(PLACEHOLDER).count(), 1);
        assert!(TEMPLATE.contains("<script id=\"threadtalk-data\" type=\"application/json\">"));
    }

    #[test]
    fn the_template_is_self_contained() {
        for outside in ["src=\"http", "href=\"http", "src=\"/", "href=\"/", "@import", "url(http"] {
            assert!(!TEMPLATE.contains(outside), "{outside}");
        }
    }

    #[test]
    fn data_come_back_from_the_page() {
        let mut profile = sample(3, &[(0, 2, 0x0102_0304_0506_0708), (2, 1, 7)]).profile();
        profile.threads[1].identity.name = "</script><!--".into();
        let page = page(&Findings::new(&profile, None, 10), &profile);
        assert!(!page.contains("</script><!--"));
        let start = page.find("id=\"threadtalk-data\"").unwrap();
        let data = &page[start + page[start..].find('>').unwrap() + 1..];
        let data = &data[..data.find("</script>").unwrap()];
        let value: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(value["findings"]["threads"][1]["name"], "</script><!--");
        let decode = |what: &str| {
            BASE64_STANDARD.decode(value["matrices"]["raw"][what].as_str().unwrap()).unwrap()
        };
        assert_eq!(decode("from"), [0, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(decode("to"), [2, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(decode("count"), [8, 7, 6, 5, 4, 3, 2, 1, 7, 0, 0, 0, 0, 0, 0, 0]);
    }
}
