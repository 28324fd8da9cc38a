//! Where in the program an access is: function and source line, or as much as is known.

use profile::SiteRow;
use serde::Serialize;
use ts_rs::TS;

/// A place in the program's code. Instructions of one source line in one function are one place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, TS)]
pub struct Place {
    /// Innermost function, inlined ones included; or empty.
    pub function: String,
    /// Source file as the compiler knew it, or empty.
    pub file: String,
    /// From 1; 0 = unknown.
    pub line: u32,
    /// The functions into which `function` was inlined, innermost first, each with the place of its
    /// call: `main at app.c:50`.
    pub inlined_into: Vec<String>,
    /// Path of the mapped file, or empty.
    pub module: String,
    /// Offset in that file; 0 when a source line says where it is.
    pub offset: u64,
}

impl Place {
    /// The place of a site.
    pub fn of(site: &SiteRow) -> Self {
        let inlined = site.inlined.split("; ").filter(|part| !part.is_empty());
        Self {
            function: site.function.clone(),
            file: site.file.clone(),
            line: site.line,
            inlined_into: inlined.map(str::to_owned).collect(),
            module: site.module.clone(),
            offset: match (site.file.as_str(), site.module.as_str()) {
                ("", "") => site.address,
                ("", _) => site.offset,
                _ => 0,
            },
        }
    }

    /// `app.c:31 worker()`, `app+0x1139 worker()`, `app+0x1139`; files without their folders. The
    /// function, which may be long, comes last: a table cuts it there.
    pub fn short(&self) -> String {
        match self.function.as_str() {
            "" => self.where_in_file(),
            function => format!("{} {function}", self.where_in_file()),
        }
    }

    /// `worker() at app.c:31`, for sentences.
    pub(crate) fn in_words(&self) -> String {
        match self.function.as_str() {
            "" => format!("at {}", self.where_in_file()),
            function => format!("in {function} at {}", self.where_in_file()),
        }
    }

    fn where_in_file(&self) -> String {
        match (self.file.as_str(), self.module.as_str()) {
            ("", "") if self.offset == 0 => "unknown code".into(),
            ("", "") => format!("{:#x}", self.offset),
            ("", module) => format!("{}+{:#x}", base_name(module), self.offset),
            (file, _) if self.line == 0 => base_name(file).into(),
            (file, _) => format!("{}:{}", base_name(file), self.line),
        }
    }
}

/// The last component of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_is_known() {
        let full = SiteRow {
            address: 0x55d0_1139,
            module: "/usr/bin/app".into(),
            offset: 0x1139,
            function: "work(int)".into(),
            file: "/src/deep/app.c".into(),
            line: 31,
            inlined: "g at app.c:40; main at app.c:50".into(),
        };
        let place = Place::of(&full);
        assert_eq!(place.short(), "app.c:31 work(int)");
        assert_eq!(place.in_words(), "in work(int) at app.c:31");
        assert_eq!(place.inlined_into, ["g at app.c:40", "main at app.c:50"]);
        let lineless = SiteRow { file: String::new(), line: 0, inlined: String::new(), ..full };
        assert_eq!(Place::of(&lineless).short(), "app+0x1139 work(int)");
        assert_eq!(Place::of(&lineless).inlined_into, [""; 0]);
        let nameless = SiteRow { function: String::new(), ..lineless };
        assert_eq!(Place::of(&nameless).in_words(), "at app+0x1139");
        let homeless = SiteRow { module: String::new(), ..nameless };
        assert_eq!(Place::of(&homeless).short(), "0x55d01139");
        assert_eq!(Place::of(&SiteRow::default()).short(), "unknown code");
    }
}
