//! Names as people write them.

/// The source-level name of a symbol: Rust names without their hash, C++ names with their
/// parameters, names in Fortran modules (gfortran's `__module_MOD_name`) with the module, anything
/// else as it is. A symbol version (`@GLIBC_2.34`) is cut off.
pub fn demangle(name: &str) -> String {
    let name = name.split_once('@').map_or(name, |(plain, _version)| plain);
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    if let Some(text) = without_parameters(name) {
        return text;
    }
    if let Some((module, name)) = name.strip_prefix("__").and_then(|rest| rest.split_once("_MOD_"))
    {
        return format!("{module}::{name}");
    }
    name.to_string()
}

/// The name of a C++ function without the parameters of templates and calls, which the library does
/// not know in all their forms; `None` where the name goes on after them.
fn without_parameters(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let (mut rest, nested) = match rest.strip_prefix('N') {
        Some(rest) => (rest.trim_start_matches(['r', 'V', 'K']), true),
        None => (rest, false),
    };
    let mut parts = Vec::new();
    if let Some(after) = rest.strip_prefix("St") {
        parts.push("std");
        rest = after;
    }
    let namespaces = parts.len();
    while rest.starts_with(|c: char| c.is_ascii_digit()) && (nested || parts.len() == namespaces) {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = rest[..digits].parse().ok()?;
        parts.push(rest.get(digits..digits + length)?);
        rest = &rest[digits + length..];
    }
    let ends = if nested { rest.starts_with('E') } else { rest.starts_with('I') };
    (parts.len() > namespaces && ends).then(|| parts.join("::"))
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn known_names() {
        for (mangled, readable) in [
            ("main", "main"),
            ("pthread_create@@GLIBC_2.34", "pthread_create"),
            ("_ZN4pool6worker3runEPv", "pool::worker::run(void*)"),
            ("_ZN3std2io5print17h0123456789abcdefE", "std::io::print"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_Znonsense", "_Znonsense"),
            (
                "_ZSt11make_sharedIK8SettingsJEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES5_E4typeEEDpOT0_",
                "std::make_shared",
            ),
            ("_ZN3app4poolIXntsrE3runEv", "_ZN3app4poolIXntsrE3runEv"),
            ("__shared_MOD_counter", "shared::counter"),
            ("", ""),
        ] {
            assert_eq!(demangle(mangled), readable);
        }
    }
}
