//! A program's arguments and environment as `execve` wants them. The standard library would sort
//! the environment; a program finds it here in the order in which the user has it.

use std::ffi::{CString, OsStr, OsString, c_char};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A NULL-terminated array of strings.
pub struct Words {
    pointers: Vec<*const c_char>,
    /// What the pointers lead to.
    _strings: Vec<CString>,
}

// SAFETY: the strings are owned, and no thread changes them.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Words with a NUL in them, which no program can be given, end there.
    pub fn new(words: impl IntoIterator<Item = OsString>) -> Self {
        let until_nul = |word: OsString| {
            let mut bytes = word.into_vec();
            bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
            CString::new(bytes).unwrap_or_default()
        };
        let strings: Vec<CString> = words.into_iter().map(until_nul).collect();
        let pointers = strings.iter().map(|string| string.as_ptr());
        let pointers = pointers.chain([std::ptr::null()]).collect();
        Self { pointers, _strings: strings }
    }

    pub fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// The variables `all`, without those in `unset`, and with those in `set`: each where it was, or at
/// the end.
pub fn environment(
    all: impl IntoIterator<Item = (OsString, OsString)>,
    set: &[(&str, OsString)],
    unset: &[&str],
) -> Words {
    let value_of = |name: &OsStr| set.iter().find(|(new, _)| name == *new).map(|(_, value)| value);
    let mut variables: Vec<(OsString, OsString)> =
        all.into_iter().filter(|(name, _)| !unset.iter().any(|gone| name == gone)).collect();
    for (name, value) in &mut variables {
        if let Some(new) = value_of(name) {
            value.clone_from(new);
        }
    }
    let is_new = |(name, _): &&(&str, OsString)| !variables.iter().any(|(known, _)| known == name);
    let new: Vec<_> =
        set.iter().filter(is_new).map(|(name, value)| (name.into(), value.clone())).collect();
    let joined = |(name, value): (OsString, OsString)| {
        OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat())
    };
    Words::new(variables.into_iter().chain(new).map(joined))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn text(words: &Words) -> Vec<String> {
        let strings = words.pointers.iter().take_while(|pointer| !pointer.is_null());
        // SAFETY: strings of `words`.
        strings
            .map(|pointer| unsafe { CStr::from_ptr(*pointer) }.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn variables_stay_where_they_are() {
        let all = [("Z", "1"), ("LD_PRELOAD", "a.so"), ("GONE", "2"), ("A", "")];
        let all = all.map(|(name, value)| (name.into(), value.into()));
        let set = [("LD_PRELOAD", "ours.so:a.so".into()), ("OURS", "3".into())];
        let words = environment(all, &set, &["GONE", "NEVER"]);
        assert_eq!(text(&words), ["Z=1", "LD_PRELOAD=ours.so:a.so", "A=", "OURS=3"]);
    }

    #[test]
    fn words_end_at_a_nul() {
        assert_eq!(text(&Words::new(["a\0b".into(), "".into()])), ["a", ""]);
    }
}
