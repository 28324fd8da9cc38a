//! systemd's `CPUAffinity=`, as a drop-in for a service (systemd.exec).
//!
//! Can say: one mask of P# for all processes of a service. Cannot say: anything about their
//! threads.

use super::{Launcher, LauncherError, comments, heading, who};
use crate::plan::Plan;

pub struct Systemd;

impl Launcher for Systemd {
    fn write(&self, plan: &Plan) -> Result<String, LauncherError> {
        let mut lines = vec![
            heading(plan),
            "Put it into /etc/systemd/system/NAME.service.d/affinity.conf, then".into(),
            "'systemctl daemon-reload' and 'systemctl restart NAME'.".into(),
        ];
        lines.extend(who::mask_limits(plan));
        // The empty assignment takes back what the service's own file says; lists would add up.
        let mask = who::union(plan);
        Ok(format!("{}[Service]\nCPUAffinity=\nCPUAffinity={mask}\n", comments(lines)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::plan_of;
    use super::*;
    use types::CpuSet;

    #[test]
    fn the_mask_read_back_has_the_plans_pus() {
        let text = Systemd.write(&plan_of(&[3, 1, 2, 3, 200])).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines[..2], ["[Service]", "CPUAffinity="]);
        let list = lines[2].strip_prefix("CPUAffinity=").unwrap();
        assert_eq!(CpuSet::parse_list(list).unwrap(), [1, 2, 3, 200].into_iter().collect());
        assert_eq!(lines.len(), 3);
    }
}
