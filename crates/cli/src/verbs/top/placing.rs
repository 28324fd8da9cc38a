//! What running `threadtalk auto` do with the process that is shown: from their status files.

use crate::verbs::auto::program_text;
use daemon::command_of;
use daemon::status::{self, Status};
use top::Thread;

/// Sentences about all that look after process `pid`, which has these threads.
pub fn placing(pid: u32, threads: &[Thread]) -> Vec<String> {
    let command = command_of(pid);
    status::all().iter().flat_map(|status| lines(status, &command, threads)).collect()
}

/// Those of one; none if it does not look after the process.
fn lines(status: &Status, command: &str, threads: &[Thread]) -> Vec<String> {
    let to = |thread: &Thread| {
        let pu = status.bound.get(&thread.os_tid)?;
        Some(format!("T{} to PU {pu}", thread.id.0))
    };
    let bound: Vec<String> = threads.iter().filter_map(to).collect();
    let program = status.programs.get(command);
    if bound.is_empty() && program.is_none() {
        return Vec::new();
    }
    let Status { pid, target, sense, seconds, .. } = status;
    let mut lines =
        vec![format!("process {pid} looks after {target} for {seconds:.0} s, by {sense}")];
    if !bound.is_empty() {
        lines.push(format!("  bound: {}", bound.join(", ")));
    }
    if let Some(program) = program {
        let mut text = String::new();
        program_text(&mut text, command, program);
        lines.extend(text.lines().map(String::from));
    }
    let said = |(at, line): &(f64, String)| format!("  {at:7.1} s  {line}");
    lines.extend(status.lines.iter().map(said));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::programs::Program;
    use types::ThreadId;

    #[test]
    fn it_is_told_who_looks_after_the_process_and_what_came_of_it() {
        let thread = |id| Thread {
            id: ThreadId(id),
            os_tid: 500 + id,
            name: "worker".into(),
            cpu: None,
            busy: 0.0,
            gives: 0.0,
            takes: 0.0,
        };
        let threads = [thread(0), thread(1)];
        let status = Status {
            pid: 77,
            target: "process 500".into(),
            sense: "samples".into(),
            seconds: 42.0,
            bound: [(501, 3)].into(),
            lines: vec![(1.5, "2 threads were placed".into())],
            ..Status::default()
        };
        let expected = [
            "process 77 looks after process 500 for 42 s, by samples",
            "  bound: T1 to PU 3",
            "      1.5 s  2 threads were placed",
        ];
        assert_eq!(lines(&status, "app", &threads), expected);
        assert!(lines(&status, "app", &threads[..1]).is_empty());
        let program = Program { left: Some("it is quiet".into()), ..Program::default() };
        let status = Status { programs: [("app".into(), program)].into(), ..status };
        let told = lines(&status, "app", &threads[..1]).join("\n");
        assert!(told.contains("left alone: it is quiet"), "{told}");
    }
}
