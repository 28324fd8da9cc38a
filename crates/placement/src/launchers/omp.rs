//! `OMP_PLACES` with `OMP_PROC_BIND`, for every OpenMP runtime (OpenMP 4.0 and later, section
//! "Environment Variables").
//!
//! Can say: a place for each thread of a team by OpenMP number, the initial thread (number 0)
//! included. Cannot say: where other threads go (they keep the mask they have), where nested teams
//! go (the list is flat: an inner team shares its master's place), and where threads go when the
//! team is larger than the list (each place then takes several, in blocks). The two variables
//! belong together: places without a binding policy may be ignored.

use super::{Launcher, LauncherError, comments, heading, who};
use crate::plan::Plan;

pub struct Omp;

/// Variables and values.
pub fn environment(plan: &Plan) -> Result<[(&'static str, String); 2], LauncherError> {
    let places: Vec<String> =
        who::team(plan, "omp")?.pus.iter().map(|pu| format!("{{{pu}}}")).collect();
    // With as many threads as places, "close" is place n for thread n from the master's place on,
    // which is the first.
    Ok([("OMP_PLACES", places.join(",")), ("OMP_PROC_BIND", "close".into())])
}

impl Launcher for Omp {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let team = who::team(plan, "omp")?;
        let [(places, list), (bind, policy)] = environment(plan)?;
        let usage = "Source it before the program starts: . ./FILE; ./program";
        let mut lines = vec![heading(plan), usage.into()];
        lines.extend(team_limits(&team));
        lines.push("KMP_AFFINITY and GOMP_CPU_AFFINITY must not be set as well.".into());
        Ok(format!("{}export {places}='{list}'\nexport {bind}={policy}\n", comments(lines)))
    }
}

/// What holds for every OpenMP runtime, and what of this plan it does not reach.
pub fn team_limits(team: &who::Team) -> Vec<String> {
    let count = team.pus.len();
    let mut lines = vec![
        format!(
            "The n-th entry is for OpenMP thread n (0: the initial thread), in teams of {count}."
        ),
        "A larger team is not placed as planned; threads that the runtime did not start are not"
            .into(),
        "bound, but inherit the binding of the thread that starts them.".into(),
    ];
    if !team.left_out.is_empty() {
        let (names, one) = (who::names(&team.left_out), team.left_out.len() == 1);
        let be = if one { "is" } else { "are" };
        lines.push(format!("{names} of the plan {be} not of this team and left out."));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plan_of, sourced, with_identities};
    use super::*;

    /// Reads a list of places of one PU each, as the OpenMP specification's grammar has it.
    fn places(text: &str) -> Vec<u32> {
        let number = |place: &str| {
            place.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap().parse().unwrap()
        };
        text.split(',').map(number).collect()
    }

    #[test]
    fn the_places_read_back_are_the_plans() {
        let plan = plan_of(&[3, 1, 3, 200]);
        let text = Omp.write(&plan).unwrap();
        assert_eq!(places(&sourced(&text, "OMP_PLACES")), [3, 1, 3, 200]);
        assert_eq!(sourced(&text, "OMP_PROC_BIND"), "close");
    }

    #[test]
    fn threads_that_it_does_not_reach_are_named() {
        let gomp = "libgomp.so.1+0x1";
        let plan = with_identities(&[1, 2, 3, 4], &["app+0x1", gomp, "app+0x7", gomp], &[]);
        let text = Omp.write(&plan).unwrap();
        assert_eq!(places(&sourced(&text, "OMP_PLACES")), [1, 2, 4]);
        assert!(text.contains("T2 of the plan is not of this team"), "{text}");
    }
}
