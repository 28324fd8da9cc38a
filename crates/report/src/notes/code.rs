//! Words for notes about code: its names and lines, and where translated code is kept.

pub(super) fn code_without_names(file: &str, more: u64, needs_root: bool) -> String {
    let others = match more {
        0 => String::new(),
        1 => " and of one more file".into(),
        more => format!(" and of {more} more files"),
    };
    let remedy = match needs_root {
        false => "",
        true => {
            ", and it takes root (CAP_SYS_ADMIN) to read it; run threadtalk as root, or start the process anew"
        }
    };
    format!(
        "Code of {file}{others} has no names: what the process ran has been deleted or replaced since it started, or \
         lies where Threadtalk cannot look{remedy}."
    )
}

pub(super) fn code_not_kept(folder: &str, foreign: bool) -> String {
    let reason = match foreign {
        false => "can be written by others; run 'chmod go-w' on it",
        true => "belongs to another user; set XDG_CACHE_HOME to a folder of your own",
    };
    format!(
        "All code was translated anew, because {folder} {reason}, or silence this with --no-code-cache."
    )
}

pub(super) fn no_lines(file: &str, named: bool) -> String {
    let has = match named {
        true => "has no debug information, or it is damaged",
        false => "has neither names of functions nor debug information, or they are damaged",
    };
    format!(
        "No source lines are known: {file} {has}. Variables on stacks and fields of structs have no names, and heap \
         memory is told apart less finely. Compile with -g, or install its debug symbols."
    )
}
