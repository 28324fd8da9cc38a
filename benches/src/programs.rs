//! Programs of the distribution: what is run, and on what.
//!
//! Each takes part of a second to a few seconds natively, with as many threads as asked for where
//! it can have them. A row whose program is not installed is left out by name.

use crate::inputs;
use crate::rows::{Input, Row, Work};
use std::io;
use std::path::PathBuf;

/// All rows of programs, in the order of the table.
pub fn rows(threads: usize) -> io::Result<Vec<Row>> {
    let (text, lines) = (path(inputs::text()?), path(inputs::lines()?));
    let t = threads.to_string();
    let mut rows = vec![
        plain("xz", "match finder, range coder", "xz", &["-T", &t, "-0", "-c", "-k", &text]),
        plain("pigz", "pipeline of blocks", "pigz", &["-p", &t, "-c", "-k", &text]),
        plain("zstd", "threads of a pool", "zstd", &["-T2", "-7", "-q", "-c", "-k", &text]),
        plain("sort", "merge tree", "sort", &[&format!("--parallel={t}"), "-S", "64M", &lines]),
        plain(
            "python3",
            "interpreter: indirect jumps",
            "python3",
            &[&path(inputs::python_script()?)],
        ),
        plain(
            "gcc",
            "a compiler and its children",
            "gcc",
            &["-O2", "-c", "-o", "/dev/null", &path(inputs::c_source()?)],
        ),
        plain(
            "minimap2",
            "hash tables, SSE alignment",
            "minimap2",
            &["-a", "-t", &t, &path(inputs::genome()?), &path(inputs::reads()?)],
        ),
        plain(
            "x264",
            "hand-written vector code",
            "x264",
            &["--threads", &t, "--quiet", "-o", "/dev/null", &path(inputs::video()?)],
        ),
        plain(
            "ffmpeg",
            "decoder, filter, encoder",
            "ffmpeg",
            &[
                "-v",
                "error",
                "-threads",
                &t,
                "-i",
                &path(inputs::video()?),
                "-vf",
                "scale=160:96",
                "-c:v",
                "mpeg4",
                "-f",
                "null",
                "-",
            ],
        ),
    ];
    for method in ["matrixprod", "queens", "prime", "int64double"] {
        rows.push(stress_ng("cpu", method, threads, 300));
    }
    rows.push(stress_ng("pthread", "", 1, 1500));
    rows.push(stress_ng("futex", "", threads, 20_000));
    Ok(rows)
}

/// Programs with more threads or processes than others: a thousand threads that come and go, and a
/// browser.
pub fn crowds() -> io::Result<Vec<Row>> {
    let mut threads = stress_ng("pthread", "", 1, 400_000);
    if let Work::Plain(input) = &mut threads.work {
        input.arguments.extend(["--pthread-max".to_string(), "1024".to_string()]);
    }
    threads.name = "stress-ng 1024".into();
    let profile = path(inputs::folder().join("browser"));
    let page = format!("file://{}", path(inputs::page()?));
    let browser = plain(
        "chromium",
        "processes, generated code",
        "sh",
        &["-c", BROWSE, "browse", &profile, &page],
    );
    Ok(vec![threads, browser])
}

/// A browser with a fresh profile, in a folder of its own.
const BROWSE: &str = "rm -rf \"$1\"; exec chromium --headless --no-sandbox --disable-gpu \
    --user-data-dir=\"$1\" --virtual-time-budget=20000 --dump-dom \"$2\" 2>/dev/null";

/// Processes that are over at once: a compiler driver, and the least that a process can do.
pub fn short_lived() -> Vec<Row> {
    vec![
        plain("gcc --version", "a compiler driver", "gcc", &["--version"]).times(10),
        plain("true", "the least there is", "/bin/true", &[]).times(10),
        plain("sh -c true", "a shell", "sh", &["-c", "/bin/true; exit 0"]).times(10),
        plain("python3 -c pass", "an interpreter", "python3", &["-c", "pass"]).times(3),
    ]
}

fn path(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

fn plain(name: &str, why: &'static str, command: &'static str, arguments: &[&str]) -> Row {
    let arguments = arguments.iter().map(ToString::to_string).collect();
    // minimap2 writes its command line into its output; what threads of a server print has no
    // order.
    let compare = !matches!(name, "minimap2" | "stress-ng" | "chromium");
    let input = Input { command: command.into(), arguments, compare };
    Row { name: name.into(), why, repeat: 1, work: Work::Plain(input) }
}

/// A stressor for a fixed number of operations, which it checks itself.
fn stress_ng(stressor: &str, method: &str, threads: usize, operations: u32) -> Row {
    let mut arguments = vec![
        format!("--{stressor}"),
        threads.to_string(),
        format!("--{stressor}-ops"),
        operations.to_string(),
    ];
    if !method.is_empty() {
        arguments.extend([format!("--{stressor}-method"), method.to_string()]);
    }
    arguments.extend(["--verify".to_string(), "-q".to_string()]);
    let input = Input { command: "stress-ng".into(), arguments, compare: false };
    let name = format!("stress-ng {stressor} {method}").trim_end().to_string();
    Row { name, why: "torture", repeat: 1, work: Work::Plain(input) }
}
