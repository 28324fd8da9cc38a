//! Recognises threads after the program was built anew: their start routines lie elsewhere in its
//! file, and are found by their names.
//!
//! Neighbour: `launch` asks.

use crate::target::Target;
use placement::{Plan, PlanIdentity};
use std::borrow::Cow;
use std::collections::HashMap;
use symbols::Module;

/// The plan with start routines where the program's file has them now. What has no name, or lies in
/// another file, stays as it is.
pub fn relocated<'a>(plan: &'a Plan, target: &Target) -> Cow<'a, Plan> {
    let file = target.program.file_name().map(|name| name.to_string_lossy().into_owned());
    let (Some(file), Ok(module)) = (file, Module::open(&target.program)) else {
        return Cow::Borrowed(plan);
    };
    let identities = plan.slots.iter().filter_map(|slot| slot.identity.as_ref());
    // Many threads have the same routine.
    let mut routines: HashMap<&str, Option<String>> = HashMap::new();
    for identity in identities {
        let routine = || moved(identity, &file, &module);
        routines.entry(&identity.start_routine).or_insert_with(routine);
    }
    if routines.values().all(Option::is_none) {
        return Cow::Borrowed(plan);
    }
    let mut relocated = plan.clone();
    for identity in relocated.slots.iter_mut().filter_map(|slot| slot.identity.as_mut()) {
        if let Some(Some(routine)) = routines.get(identity.start_routine.as_str()) {
            identity.start_routine.clone_from(routine);
        }
    }
    Cow::Owned(relocated)
}

/// Where the routine is, if that is not where the plan says.
fn moved(identity: &PlanIdentity, file: &str, module: &Module) -> Option<String> {
    let (of, offset) = identity.start_routine.rsplit_once("+0x")?;
    let offset = u64::from_str_radix(offset, 16).ok()?;
    let is_in = |offset: u64| module.function(offset).as_deref() == Some(&identity.symbol);
    let begins = || is_in(offset) && !is_in(offset.wrapping_sub(1));
    if identity.symbol.is_empty() || of != file || begins() {
        return None;
    }
    let here = module.function_named(&identity.symbol)?;
    (here != offset).then(|| format!("{of}+{here:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> (Module, String) {
        let path = std::env::current_exe().unwrap();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        (Module::open(&path).unwrap(), file)
    }

    #[test]
    fn routines_are_found_by_name() {
        let (module, file) = here();
        let symbol = "main";
        let offset = module.function_named(symbol).unwrap();
        let at = |of: &str, offset: u64, symbol: &str| PlanIdentity {
            start_routine: format!("{of}+{offset:#x}"),
            symbol: symbol.into(),
            ..PlanIdentity::default()
        };
        let moved = |identity| moved(&identity, &file, &module);
        assert_eq!(moved(at(&file, offset, symbol)), None, "as it was");
        let expected = Some(format!("{file}+{offset:#x}"));
        assert_eq!(moved(at(&file, offset + (1 << 20), symbol)), expected);
        assert_eq!(moved(at(&file, offset + 1, symbol)), expected, "inside of it");
        assert_eq!(moved(at("another", offset + 1, symbol)), None);
        assert_eq!(moved(at(&file, offset + 1, "")), None);
        assert_eq!(moved(at(&file, offset + 1, "no_such_function")), None);
    }
}
