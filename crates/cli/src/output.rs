//! Where a verb's result goes: standard output or a file that appears whole or not at all.
//!
//! Where a verb has them, `--json` prints the result as JSON instead of text, `-o/--output` names
//! the file or folder that the verb writes, and `--force` lets it replace one that exists.
//! Neighbours: the verbs.

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Options of a verb that prints its result.
#[derive(clap::Args)]
pub struct Destination {
    /// Print the result as JSON
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// Write the result to this file instead of standard output
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT)]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output", help_heading = OUTPUT)]
    pub force: bool,
}

/// The heading of these options in every verb's help.
pub const OUTPUT: &str = "Output";

impl Destination {
    /// Opens it; a file that cannot be written is noticed here.
    pub fn open(&self) -> anyhow::Result<Output> {
        match &self.output {
            Some(path) => Output::file(path, self.force),
            None => Ok(Output::stdout()),
        }
    }
}

/// Writes `text` and finishes. A reader that has seen enough (`| head`) is no failure.
pub fn print(mut out: Output, text: &str) -> anyhow::Result<()> {
    let name = out.name();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot write {name}")),
        Ok(()) => out.finish(),
    }
}

/// A destination, buffered.
pub enum Output {
    Stdout(BufWriter<io::Stdout>),
    File(NewFile),
}

/// A file that is written beside its final name and renamed by [`Output::finish`]; dropped before
/// that, nothing is left.
pub struct NewFile {
    path: PathBuf,
    partial: PathBuf,
    force: bool,
    writer: BufWriter<File>,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Self {
        Output::Stdout(BufWriter::new(io::stdout()))
    }

    /// The file `path`; one that exists is only replaced with `force`.
    pub fn file(path: &Path, force: bool) -> anyhow::Result<Self> {
        // What a link leads to decides: /dev/stdout is one.
        if let Ok(target) = fs::metadata(path) {
            if target.is_dir() {
                bail!("{} is a folder; choose another name", path.display());
            }
            if !target.is_file() {
                // A device or a pipe: nothing to replace, written straight.
                return Self::create(path, path.to_owned(), force);
            }
        }
        if path.symlink_metadata().is_ok() && !force {
            bail!("{}", exists_already(path));
        }
        let name = path.file_name().with_context(|| format!("{} is no file", path.display()))?;
        let hidden = format!(".{}.{}.partial", name.to_string_lossy(), std::process::id());
        Self::create(path, path.with_file_name(hidden), force)
    }

    fn create(path: &Path, partial: PathBuf, force: bool) -> anyhow::Result<Self> {
        let file =
            File::create(&partial).with_context(|| format!("cannot write {}", path.display()))?;
        let writer = BufWriter::new(file);
        Ok(Output::File(NewFile { path: path.to_owned(), partial, force, writer }))
    }

    /// The destination for messages.
    pub fn name(&self) -> String {
        match self {
            Output::Stdout(_) => "standard output".into(),
            Output::File(file) => file.path.display().to_string(),
        }
    }

    /// Whether the destination wants colour: a terminal, without NO_COLOR (no-color.org) and not a
    /// dumb one.
    pub fn wants_colour(&self) -> bool {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        matches!(self, Output::Stdout(_))
            && io::stdout().is_terminal()
            && !set("NO_COLOR")
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Columns that text may take: the terminal's, within what is read comfortably; 80 elsewhere.
    pub fn width(&self) -> usize {
        match (self, terminal_size::terminal_size()) {
            (Output::Stdout(_), Some((width, _))) if io::stdout().is_terminal() => {
                usize::from(width.0).clamp(60, 120)
            }
            _ => 80,
        }
    }

    /// Writes everything out; a file gets its final name.
    pub fn finish(self) -> anyhow::Result<()> {
        let name = self.name();
        let failed = || format!("cannot write {name}");
        match self {
            Output::Stdout(mut out) => out.flush().with_context(failed),
            Output::File(mut file) => {
                file.writer.flush().with_context(failed)?;
                if file.partial == file.path {
                    return Ok(());
                }
                if file.force {
                    return fs::rename(&file.partial, &file.path).with_context(failed);
                }
                // Unlike rename, a hard link never replaces what appeared in the meantime.
                match fs::hard_link(&file.partial, &file.path) {
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                        bail!("{}", exists_already(&file.path))
                    }
                    // File systems without hard links.
                    Err(_) => fs::rename(&file.partial, &file.path).with_context(failed),
                    Ok(()) => Ok(()),
                }
            }
        }
    }
}

fn exists_already(path: &Path) -> String {
    format!("{} exists already; choose another name, or replace it with --force", path.display())
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.partial != self.path {
            // Gone already after a rename; otherwise the failure is reported elsewhere.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Stdout(out) => out.write(bytes),
            Output::File(file) => file.writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Stdout(out) => out.flush(),
            Output::File(file) => file.writer.flush(),
        }
    }
}
