//! Who wanted an allocated block: functions that only allocate for their callers left out.
//!
//! Neighbour: `tables` has the rows.

use crate::ObjectRow;

/// The place in the program that wanted memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Like [`ObjectRow::name`]: `in main at a.c:9`; of other memory just that.
    pub name: String,
    /// Who called that function, innermost first: `g at f.c:10`.
    pub callers: Vec<String>,
    /// The functions through which it allocates, innermost first: `xmalloc at util.c:3`.
    pub through: Vec<String>,
}

impl ObjectRow {
    /// Who wanted this memory.
    pub fn wanted(&self) -> Wanted {
        let texts = |text: &str| -> Vec<String> {
            text.split("; ").filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let (name, mut callers) = (self.name.clone(), texts(&self.callers));
        let wrappers = self.wrappers as usize;
        let Some(own) =
            name.strip_prefix("in ").filter(|_| (1..=callers.len()).contains(&wrappers))
        else {
            return Wanted { name, callers, through: Vec::new() };
        };
        let outer = callers.split_off(wrappers);
        let wanted = callers.pop().unwrap_or_default();
        callers.insert(0, own.to_owned());
        Wanted { name: format!("in {wanted}"), callers: outer, through: callers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_left_out_where_their_caller_is_known() {
        let wanted = |wrappers| {
            let (name, callers) =
                ("in raw at u.c:3".into(), "xalloc at u.c:9; make at a.c:7".into());
            ObjectRow { name, callers, wrappers, ..ObjectRow::default() }.wanted()
        };
        assert_eq!(wanted(0).name, "in raw at u.c:3");
        assert_eq!(wanted(0).callers, ["xalloc at u.c:9", "make at a.c:7"]);
        let one = wanted(1);
        assert_eq!((&*one.name, one.callers), ("in xalloc at u.c:9", vec!["make at a.c:7".into()]));
        assert_eq!(one.through, ["raw at u.c:3"]);
        let two = wanted(2);
        assert_eq!((&*two.name, two.callers.len()), ("in make at a.c:7", 0));
        assert_eq!(two.through, ["raw at u.c:3", "xalloc at u.c:9"]);
        assert_eq!(wanted(3), wanted(0));
        let variable = ObjectRow { name: "counters (app)".into(), ..ObjectRow::default() };
        assert_eq!(variable.wanted().name, "counters (app)");
    }
}
