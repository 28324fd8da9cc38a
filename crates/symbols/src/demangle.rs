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
    if let Some((module, name)) = name.strip_prefix("__").and_then(|rest| rest.split_once("_MOD_"))
    {
        return format!("{module}::{name}");
    }
    name.to_string()
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
            ("__shared_MOD_counter", "shared::counter"),
            ("", ""),
        ] {
            assert_eq!(demangle(mangled), readable);
        }
    }
}
