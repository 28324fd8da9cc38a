//! Saves and loads the profile folder.
//!
//! Saving never leaves half a profile under the final name: everything is written into a hidden
//! sibling, which is then renamed. Loading verifies size and checksum of every table before
//! decoding it, so that a damaged file is named rather than misread. That is also what a machine
//! that crashes right after a recording may leave: nothing waits for the disk, which would cost
//! short recordings a good part of their time. Neighbours: `rows` and `parquet_file` make the
//! tables, `check` the invariants.

use crate::check::check;
use crate::parquet_file::{Data, decode, encode};
use crate::rows::{self, detail, footprints, pages, returns};
use crate::schema::{
    ACCESSES, ACCESSES_V7, ACTIVITY, BLOCKS, BLOCKS_V6, CALLS, COMM, COMM_V2, COMM_V3, EVENTS,
    EVENTS_V2, EVENTS_V3, EVENTS_V4, EVENTS_V9, EVENTS_V11, FIELDS, FLOW, FLOW_WITH_NODES,
    FOOTPRINTS, LINES, LINES_V2, LINES_V3, META_FILE, OBJECTS, OBJECTS_V5, OBJECTS_V6, OBJECTS_V11,
    PAGES, PROCESSES_FOLDER, RETURNS, RUNNING, SCHEMA_VERSION, SITES, SLICES, THREADS, THREADS_V1,
    THREADS_V2, TOUCHED, TRACE_FILE, Table,
};
use crate::{FlowRow, Meta, ObjectRow, PageTables, Profile, ProfileError};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// `profile.json`: the meta data and what is needed to recognise a damaged table.
#[derive(Serialize, Deserialize)]
struct MetaFile {
    #[serde(flatten)]
    meta: Meta,
    tables: BTreeMap<String, TableFile>,
}

#[derive(Serialize, Deserialize)]
struct TableFile {
    rows: u64,
    bytes: u64,
    crc32: u32,
}

/// The tables of threads, matrices, lines and events that a schema version has.
fn tables_of(version: u32) -> [&'static Table; 4] {
    match version {
        1 => [&THREADS_V1, &COMM_V2, &LINES_V2, &EVENTS_V2],
        2 => [&THREADS_V2, &COMM_V2, &LINES_V2, &EVENTS_V2],
        3 => [&THREADS, &COMM_V3, &LINES_V3, &EVENTS_V3],
        4 => [&THREADS, &COMM, &LINES, &EVENTS_V4],
        5..=9 => [&THREADS, &COMM, &LINES, &EVENTS_V9],
        10..=11 => [&THREADS, &COMM, &LINES, &EVENTS_V11],
        _ => [&THREADS, &COMM, &LINES, &EVENTS],
    }
}

/// The part of `profile.json` that every schema version has.
#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
    #[serde(default)]
    tool: String,
}

impl Profile {
    /// Writes the profile as the folder `path`, all of it or nothing.
    ///
    /// # Errors
    /// What [`check_destination`] refuses, a profile that breaks an invariant, and I/O errors.
    pub fn save(&self, path: &Path, force: bool) -> Result<(), ProfileError> {
        self.save_with(path, force, std::iter::empty())
    }

    /// Writes the profile and, into the same folder, those of child processes, each with its path
    /// relative to the folder; all of it or nothing.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn save_with(
        &self,
        path: &Path,
        force: bool,
        children: impl Iterator<Item = (String, Profile)>,
    ) -> Result<(), ProfileError> {
        check_destination(path, force)?;
        let partial = PartialFolder::create(path)?;
        self.write_into(&partial.0, path)?;
        for (name, child) in children {
            let folder = partial.0.join(name);
            fs::create_dir_all(&folder).map_err(io_error("write", path))?;
            child.write_into(&folder, path)?;
        }
        partial.publish(path, force)
    }

    /// Writes all files into `folder`; `path` is for messages.
    fn write_into(&self, folder: &Path, path: &Path) -> Result<(), ProfileError> {
        check(self).map_err(|reason| ProfileError::Inconsistent { reason })?;
        if self.meta.schema_version != SCHEMA_VERSION {
            let reason = format!("it claims schema {}", self.meta.schema_version);
            return Err(ProfileError::Inconsistent { reason });
        }
        let mut tables = BTreeMap::new();
        let mut write = |table: &Table, columns: Vec<Data>| {
            let file = folder.join(table.file_name());
            let entry = write_table(&file, path, table, &columns)?;
            tables.insert(table.name.to_owned(), entry);
            Ok(())
        };
        // One after the other, so that only one table is in memory twice.
        write(&THREADS, rows::thread_columns(&self.threads))?;
        write(&SLICES, rows::slice_columns(&self.slices))?;
        write(&ACTIVITY, rows::activity_columns(&self.activity))?;
        write(&RUNNING, rows::running_columns(&self.running))?;
        write(&COMM, rows::comm_columns(&self.comm))?;
        write(&SITES, detail::site_columns(&self.sites))?;
        write(&OBJECTS, detail::object_columns(&self.objects))?;
        write(&BLOCKS, detail::block_columns(&self.blocks))?;
        write(&FIELDS, detail::field_columns(&self.fields))?;
        write(&LINES, detail::line_columns(&self.lines))?;
        write(&EVENTS, detail::event_columns(&self.events))?;
        write(&CALLS, detail::call_columns(&self.calls))?;
        write(&FLOW, detail::flow_columns(&self.flow))?;
        write(&PAGES, pages::page_columns(&self.pages.pages))?;
        write(&ACCESSES, pages::access_columns(&self.pages.accesses))?;
        write(&TOUCHED, pages::touched_columns(&self.pages.touched))?;
        write(&RETURNS, returns::return_columns(&self.returns))?;
        write(&FOOTPRINTS, footprints::footprint_columns(&self.footprints))?;
        let meta = MetaFile { meta: self.meta.clone(), tables };
        let mut json = serde_json::to_vec_pretty(&meta)
            .map_err(|e| ProfileError::Inconsistent { reason: e.to_string() })?;
        json.push(b'\n');
        write_file(&folder.join(META_FILE), &json).map_err(io_error("write", path))
    }

    /// Reads the profile folder `path` and checks it. What an older schema did not have is filled
    /// in: one time slice, no sites, no objects, no blocks, fields, call paths, flow and pages,
    /// evidence that is exact or sampled, nothing about where threads ran.
    ///
    /// # Errors
    /// Says which file is missing, damaged or newer than this version understands.
    pub fn load(path: &Path) -> Result<Profile, ProfileError> {
        let MetaFile { mut meta, tables } = read_meta(path)?;
        let written_in = std::mem::replace(&mut meta.schema_version, SCHEMA_VERSION);
        let folder = Folder { path, tables };
        let [threads, comm, lines, events] = tables_of(written_in);
        let threads = folder.read(threads, rows::threads_from)?;
        let comm = folder.read(comm, rows::comm_from)?;
        let profile = if written_in == 1 {
            Profile::new(meta, threads, comm)
        } else {
            Profile {
                meta,
                threads,
                comm,
                slices: folder.read(&SLICES, rows::slices_from)?,
                activity: folder.read(&ACTIVITY, rows::activity_from)?,
                running: match written_in {
                    0..=4 => Vec::new(),
                    _ => folder.read(&RUNNING, rows::running_from)?,
                },
                sites: folder.read(&SITES, detail::sites_from)?,
                objects: match written_in {
                    ..5 => vec![ObjectRow::default()],
                    5 => folder.read(&OBJECTS_V5, detail::objects_from)?,
                    6..=10 => folder.read(&OBJECTS_V6, detail::objects_from)?,
                    11..=12 => folder.read(&OBJECTS_V11, detail::objects_from)?,
                    _ => folder.read(&OBJECTS, detail::objects_from)?,
                },
                blocks: match written_in {
                    ..6 => Vec::new(),
                    6..=10 => folder.read(&BLOCKS_V6, detail::blocks_from)?,
                    _ => folder.read(&BLOCKS, detail::blocks_from)?,
                },
                fields: match written_in {
                    ..6 => Vec::new(),
                    _ => folder.read(&FIELDS, detail::fields_from)?,
                },
                lines: folder.read(lines, detail::lines_from)?,
                events: folder.read(events, detail::events_from)?,
                flow: folder.read_since(6, written_in, &FLOW, detail::flow_from)?,
                calls: folder.read_since(6, written_in, &CALLS, detail::calls_from)?,
                pages: match written_in {
                    ..7 => PageTables::default(),
                    7 => folder.page_tables(&ACCESSES_V7)?,
                    _ => folder.page_tables(&ACCESSES)?,
                },
                returns: folder.read_since(14, written_in, &RETURNS, returns::returns_from)?,
                footprints: {
                    let rows_from = footprints::footprints_from;
                    folder.read_since(10, written_in, &FOOTPRINTS, rows_from)?
                },
            }
        };
        check(&profile).map_err(damaged(path.join(META_FILE)))?;
        Ok(profile)
    }
}

/// The Parquet file of a flow with the memory nodes of `thread` and `from` in each row.
///
/// # Errors
/// None that is known.
pub fn flow_with_nodes(
    flow: &[FlowRow],
    nodes: &[[Option<u32>; 2]],
) -> Result<Vec<u8>, ProfileError> {
    encode(&FLOW_WITH_NODES, &detail::flow_with_nodes_columns(flow, nodes))
        .map_err(|error| ProfileError::Inconsistent { reason: error.to_string() })
}

impl Meta {
    /// Reads the `profile.json` of the profile folder `path`, and none of its tables.
    ///
    /// # Errors
    /// As [`Profile::load`].
    pub fn load(path: &Path) -> Result<Meta, ProfileError> {
        Ok(read_meta(path)?.meta)
    }
}

/// A folder whose `profile.json` has been read.
struct Folder<'a> {
    path: &'a Path,
    tables: BTreeMap<String, TableFile>,
}

impl Folder<'_> {
    fn page_tables(&self, accesses: &Table) -> Result<PageTables, ProfileError> {
        Ok(PageTables {
            pages: self.read(&PAGES, pages::pages_from)?,
            accesses: self.read(accesses, pages::accesses_from)?,
            touched: self.read(&TOUCHED, pages::touched_from)?,
        })
    }

    /// The rows of a table that there is since version `since`; before that there are none.
    fn read_since<R>(
        &self,
        since: u32,
        written_in: u32,
        table: &Table,
        rows_from: impl Fn(Vec<Data>) -> Result<Vec<R>, String>,
    ) -> Result<Vec<R>, ProfileError> {
        if written_in < since { Ok(vec![]) } else { self.read(table, rows_from) }
    }

    /// The rows of a table; `rows_from` says what is wrong with them in a phrase.
    fn read<R>(
        &self,
        table: &Table,
        rows_from: impl FnOnce(Vec<Data>) -> Result<Vec<R>, String>,
    ) -> Result<Vec<R>, ProfileError> {
        rows_from(read_table(self.path, table, &self.tables)?)
            .map_err(damaged(self.path.join(table.file_name())))
    }
}

/// Refuses what [`Profile::save`] would refuse, so that a recorder can say so before the run:
/// anything that exists without `force`; with it, anything that is not a Threadtalk profile; a
/// parent folder that is missing.
///
/// # Errors
/// Fails when the destination is refused.
pub fn check_destination(path: &Path, force: bool) -> Result<(), ProfileError> {
    let parent = parent_of(path)?;
    if let Err(source) = fs::metadata(&parent) {
        return Err(ProfileError::Io { action: "write into", path: parent, source });
    }
    let kind = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(io_error("write", path)(source)),
        Ok(_) if !force => return Err(ProfileError::Exists { path: path.into() }),
        Ok(metadata) => metadata.file_type(),
    };
    let reason = match kind.is_dir() {
        true => why_not_replaceable(path).map_err(io_error("read", path))?,
        false => Some("it is not a profile folder".into()),
    };
    match reason {
        Some(reason) => Err(ProfileError::NotReplaceable { path: path.into(), reason }),
        None => Ok(()),
    }
}

/// Why the folder must not be deleted; `None` when it is a profile (even a damaged one) with
/// nothing else in it, or empty.
fn why_not_replaceable(path: &Path) -> io::Result<Option<String>> {
    let mut tables = 0;
    let mut empty = true;
    for entry in fs::read_dir(path)? {
        empty = false;
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.strip_suffix(".parquet") {
            Some(_) => tables += 1,
            None if name == META_FILE || name == TRACE_FILE => {}
            None if name == PROCESSES_FOLDER && entry.file_type()?.is_dir() => {
                for child in fs::read_dir(entry.path())? {
                    if let Some(reason) = why_not_replaceable(&child?.path())? {
                        return Ok(Some(format!("in {name}, {reason}")));
                    }
                }
            }
            None => {
                return Ok(Some(format!("it also holds {name}, which is no part of a profile")));
            }
        }
    }
    if empty {
        return Ok(None);
    }
    let ours = match fs::read(path.join(META_FILE)) {
        Ok(text) => match serde_json::from_slice::<serde_json::Value>(&text) {
            Ok(value) => value.get("schema_version").is_some(),
            Err(_) => tables > 0,
        },
        Err(_) => false,
    };
    Ok((!ours).then(|| format!("it is not a Threadtalk profile (no valid {META_FILE})")))
}

/// A hidden sibling of the final folder; removed when dropped before [`PartialFolder::publish`].
struct PartialFolder(PathBuf);

impl PartialFolder {
    fn create(path: &Path) -> Result<Self, ProfileError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = parent_of(path)?.join(format!(".{name}.{}.partial", std::process::id()));
        match fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(io_error("write", path)(e)),
            _ => {}
        }
        fs::create_dir(&folder).map_err(io_error("write", path))?;
        Ok(Self(folder))
    }

    /// Gives the folder its final name; with `force`, an old profile of that name is replaced in
    /// one step where the file system can exchange names, and deleted afterwards.
    fn publish(self, path: &Path, force: bool) -> Result<(), ProfileError> {
        let renamed = match renameat_with(CWD, &self.0, CWD, path, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) if force => {
                renameat_with(CWD, &self.0, CWD, path, RenameFlags::EXCHANGE)
            }
            other => other,
        };
        match renamed {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(ProfileError::Exists { path: path.into() }),
            // The file system knows neither flag (NFS, some FUSE): not in one step, but still only
            // ever a whole profile under the final name.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.publish_in_steps(path, force).map_err(io_error("write", path))?;
            }
            Err(errno) => return Err(io_error("write", path)(errno.into())),
        }
        // Dropping removes the old profile, if the names were exchanged.
        Ok(())
    }

    fn publish_in_steps(&self, path: &Path, force: bool) -> io::Result<()> {
        let aside = self.0.with_extension("old");
        if force && path.exists() {
            fs::rename(path, &aside)?;
        }
        if let Err(error) = fs::rename(&self.0, path) {
            // Put the old profile back; the first error is the one that matters.
            let _ = fs::rename(&aside, path);
            return Err(error);
        }
        match fs::remove_dir_all(&aside) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        // Nothing to be done when this fails; the folder's name says what it is.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn parent_of(path: &Path) -> Result<PathBuf, ProfileError> {
    let invalid = || io::Error::new(ErrorKind::InvalidInput, "it is not a name for a folder");
    let parent = path.file_name().and(path.parent());
    let parent = parent.ok_or_else(|| io_error("write", path)(invalid()))?;
    Ok(if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() })
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ProfileError {
    move |source| ProfileError::Io { action, path: path.to_owned(), source }
}

fn damaged(file: PathBuf) -> impl FnOnce(String) -> ProfileError {
    move |reason| ProfileError::Damaged { file, reason }
}

fn write_table(
    file: &Path,
    profile: &Path,
    table: &Table,
    columns: &[Data],
) -> Result<TableFile, ProfileError> {
    let bytes = encode(table, columns)
        .map_err(|e| ProfileError::Inconsistent { reason: format!("{}: {e}", table.name) })?;
    write_file(file, &bytes).map_err(io_error("write", profile))?;
    Ok(TableFile {
        rows: columns.first().map_or(0, Data::len) as u64,
        bytes: bytes.len() as u64,
        crc32: crc32fast::hash(&bytes),
    })
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::create_new(path)?.write_all(bytes)
}

fn read_meta(path: &Path) -> Result<MetaFile, ProfileError> {
    let not_a_profile =
        |reason: &str| Err(ProfileError::NotAProfile { path: path.into(), reason: reason.into() });
    match fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(ProfileError::NotFound { path: path.into() });
        }
        Err(e) => return Err(io_error("read", path)(e)),
        Ok(metadata) if !metadata.is_dir() => {
            return not_a_profile("it is a file, and a profile is a folder");
        }
        Ok(_) => {}
    }
    let file = path.join(META_FILE);
    let text = match fs::read(&file) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return not_a_profile("it holds no profile.json");
        }
        other => other.map_err(io_error("read", &file))?,
    };
    let damaged =
        |e: serde_json::Error| ProfileError::Damaged { file: file.clone(), reason: e.to_string() };
    // The version first: of a newer file nothing else can be relied on.
    let version: Versioned = serde_json::from_slice(&text).map_err(damaged)?;
    if version.schema_version > SCHEMA_VERSION {
        return Err(ProfileError::Newer {
            path: path.into(),
            tool: version.tool,
            found: version.schema_version,
            known: SCHEMA_VERSION,
        });
    }
    serde_json::from_slice(&text).map_err(damaged)
}

fn read_table(
    path: &Path,
    table: &Table,
    tables: &BTreeMap<String, TableFile>,
) -> Result<Vec<Data>, ProfileError> {
    let file = path.join(table.file_name());
    let expected = tables.get(table.name).ok_or_else(|| ProfileError::Damaged {
        file: path.join(META_FILE),
        reason: format!("it does not list the table '{}'", table.name),
    })?;
    let bytes = match fs::read(&file) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(ProfileError::MissingFile { file });
        }
        other => other.map_err(io_error("read", &file))?,
    };
    let reason = if bytes.len() as u64 != expected.bytes {
        format!("it has {} bytes instead of {}", bytes.len(), expected.bytes)
    } else if crc32fast::hash(&bytes) != expected.crc32 {
        "its checksum is wrong".into()
    } else {
        match decode(table, bytes) {
            Ok(columns) if columns.iter().all(|c| c.len() as u64 == expected.rows) => {
                return Ok(columns);
            }
            Ok(_) => format!("it does not have the {} rows it should have", expected.rows),
            Err(reason) => reason,
        }
    };
    Err(ProfileError::Damaged { file, reason })
}

#[cfg(test)]
mod tests;
