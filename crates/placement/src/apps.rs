//! Plans for several applications that run at the same time on one machine.
//!
//! All their threads are placed as one problem ([`Tasks::side_by_side`]): no thread communicates
//! across applications, but cores and PUs are shared, so loads are evened out over all of them. The
//! plan keeps each application's threads apart, under the numbers that they have in it, since each
//! is started on its own. Neighbours: `plan.rs` is the file, `place.rs` computes.

use crate::place::Placement;
use crate::plan::{Plan, PlanApp, PlanError, slots};
use crate::tasks::Tasks;
use topology::{Costs, Topology};
use types::ThreadIdentity;

/// An application to be planned with others.
#[derive(Clone, Copy, Debug)]
pub struct App<'a> {
    /// No two applications of a plan have the same.
    pub name: &'a str,
    /// Its threads and their communication.
    pub tasks: &'a Tasks,
    /// By thread; empty for threads known by number only.
    pub identities: &'a [ThreadIdentity],
}

impl Plan {
    /// The plan for a placement of several applications, whose threads follow each other in it.
    pub fn of_apps(
        placement: &Placement,
        topology: &Topology,
        costs: &Costs,
        apps: &[App<'_>],
    ) -> Self {
        let mut first = 0;
        let app = |app: &App<'_>| {
            let (cost, levels) = placement.part(first, app.tasks, topology, costs);
            let own = |pus: &[u32]| -> Vec<u32> {
                pus.iter().skip(first).take(app.tasks.len()).copied().collect()
            };
            let slots = slots(&own(&placement.pu_logical), &own(&placement.pu_os), app.identities);
            first += app.tasks.len();
            PlanApp { name: app.name.into(), cost, levels, slots }
        };
        let apps = apps.iter().map(app).collect();
        Self { version: 2, slots: Vec::new(), apps, ..Self::new(placement, topology, &[]) }
    }

    /// The plan of one application: the named one (by name, or number from 0) of several, or the
    /// only one. Baselines stay those of all together.
    ///
    /// # Errors
    /// None is named where there are several, one is named where there are not, or it is not there.
    pub fn of_app(mut self, name: Option<&str>) -> Result<Self, PlanError> {
        let list = |app: (usize, &PlanApp)| format!("{} ({})", app.0, app.1.name);
        let names = || self.apps.iter().enumerate().map(list).collect::<Vec<_>>().join(", ");
        let at = match (name, self.apps.len()) {
            (None, 0) => return Ok(self),
            (Some(name), 0) => return Err(PlanError::OneApp { name: name.into() }),
            (None, count) => return Err(PlanError::WhichApp { count, names: names() }),
            (Some(name), count) => {
                let number = || name.parse().ok().filter(|&number: &usize| number < count);
                let found = self.apps.iter().position(|app| app.name == name).or_else(number);
                found.ok_or_else(|| PlanError::NoApp { name: name.into(), names: names() })?
            }
        };
        let app = self.apps.swap_remove(at);
        Ok(Self {
            version: 1,
            cost: app.cost,
            lower_bound: None,
            levels: app.levels,
            slots: app.slots,
            apps: Vec::new(),
            ..self
        })
    }

    pub(crate) fn check_apps(&self) -> Result<(), String> {
        if !self.slots.is_empty() {
            return Err("it has threads of no application beside several applications".into());
        }
        let mut names: Vec<&str> = self.apps.iter().map(|app| app.name.as_str()).collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            return Err(format!("it has two applications '{}'", twice[0]));
        }
        let check = |app: &PlanApp| {
            self.check_slots(&app.slots).map_err(|why| format!("application '{}': {why}", app.name))
        };
        self.apps.iter().try_for_each(check)
    }
}
