//! Whole folders: round trips, damage, refusals.

use super::*;
use crate::model::tests::sample;
use crate::{CommRow, Note, Parameters, Unrecorded};
use std::os::unix::fs::symlink;
use tempfile::TempDir;
use types::{CommKind, Evidence, EvidenceSet, ThreadId};

fn saved() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tt");
    sample().save(&path, false).unwrap();
    (folder, path)
}

/// The error of loading `path`, with the folder's place taken out.
fn load_error(path: &Path) -> String {
    let parent = format!("{}/", path.parent().unwrap().display());
    Profile::load(path).unwrap_err().to_string().replace(&parent, "")
}

fn save_error(path: &Path, force: bool) -> String {
    let parent = format!("{}/", path.parent().unwrap().display());
    sample().save(path, force).unwrap_err().to_string().replace(&parent, "")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn edit_meta(path: &Path, edit: impl FnOnce(&mut serde_json::Value)) {
    let file = path.join(META_FILE);
    let mut value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    edit(&mut value);
    fs::write(&file, serde_json::to_vec(&value).unwrap()).unwrap();
}

#[test]
fn a_profile_comes_back_equal() {
    let (folder, path) = saved();
    assert_eq!(Profile::load(&path).unwrap(), sample());
    let files = "accesses.parquet activity.parquet blocks.parquet calls.parquet comm.parquet \
                 events.parquet fields.parquet flow.parquet footprints.parquet lines.parquet objects.parquet pages.parquet \
                 profile.json returns.parquet running.parquet sites.parquet slices.parquet \
                 threads.parquet touched.parquet";
    assert_eq!(names(&path).join(" "), files);
    assert_eq!(names(folder.path()), ["app.tt"]);
}

#[test]
fn an_empty_profile_comes_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let mut profile = sample();
    profile.threads.truncate(1);
    profile.meta.totals = crate::Totals::of(&profile.threads, &[]);
    let mut profile = Profile::new(profile.meta, profile.threads, Vec::new());
    profile.meta.parameters.slice_ns = 0;
    let path = folder.path().join("one.tt/");
    profile.save(&path, false).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), profile);
}

/// A warning as versions 1 to 3 wrote it.
const SENTENCE: &str = "2 child processes ran unprofiled.";

/// What became of it.
fn sentence() -> Vec<Note> {
    vec![Note::Other { sentence: SENTENCE.into() }]
}

/// A folder as version 1 wrote it.
fn save_version_1(path: &Path) {
    fs::create_dir(path).unwrap();
    let sample = sample();
    let mut threads = rows::thread_columns(&sample.threads);
    threads.truncate(THREADS_V1.columns.len());
    let mut comm = rows::comm_columns(&version_1_comm());
    comm.truncate(COMM_V2.columns.len());
    let mut tables = BTreeMap::new();
    for (table, columns) in [(&THREADS_V1, threads), (&COMM_V2, comm)] {
        let file = path.join(table.file_name());
        let entry = write_table(&file, path, table, &columns).unwrap();
        tables.insert(table.name.to_owned(), entry);
    }
    let mut meta = serde_json::to_value(MetaFile { meta: sample.meta, tables }).unwrap();
    meta["schema_version"] = 1.into();
    meta["warnings"] = serde_json::json!([SENTENCE]);
    meta["parameters"] = serde_json::json!({"block_bytes": 128});
    meta["totals"] = serde_json::json!({
        "threads": 3, "loads": 600, "stores": 60, "raw": 5, "waw": 0, "invalidation": 7
    });
    fs::write(path.join(META_FILE), serde_json::to_vec(&meta).unwrap()).unwrap();
}

fn version_1_comm() -> Vec<CommRow> {
    let row = |from, to, kind, count| CommRow::whole(ThreadId(from), ThreadId(to), kind, count);
    vec![row(0, 1, CommKind::Raw, 5), row(1, 2, CommKind::Invalidation, 7)]
}

#[test]
fn a_folder_of_version_1_reads_as_one_slice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    save_version_1(&path);
    let profile = Profile::load(&path).unwrap();
    assert_eq!(profile.comm, version_1_comm());
    assert_eq!(profile.meta.warnings, sentence());
    assert_eq!(profile.meta.parameters, Parameters::matrix(128));
    assert_eq!((profile.meta.totals.raw, profile.meta.totals.instructions), (5, 0));
    assert_eq!(profile.slices, [crate::SliceRow { start_ns: 0, end_ns: u64::MAX }]);
    let activity: Vec<_> =
        profile.activity.iter().map(|a| (a.thread.0, a.instructions, a.loads, a.stores)).collect();
    assert_eq!(activity, [(0, 0, 100, 10), (1, 0, 200, 20), (2, 0, 300, 30)]);
    assert_eq!((profile.sites.len(), profile.lines.len(), profile.events.len()), (1, 0, 0));
    // Saved again, it is a folder of this version.
    profile.save(&path, true).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), profile);
}

/// A folder of `profile` as version 2 or 3 wrote it.
fn save_older(path: &Path, version: u32, profile: &Profile) {
    fs::create_dir(path).unwrap();
    let (threads, comm, lines, events) = match version {
        2 => (&THREADS_V2, &COMM_V2, &LINES_V2, &EVENTS_V2),
        _ => (&THREADS, &COMM_V3, &LINES_V3, &EVENTS_V3),
    };
    let mut tables = BTreeMap::new();
    for (table, mut columns) in [
        (threads, rows::thread_columns(&profile.threads)),
        (&SLICES, rows::slice_columns(&profile.slices)),
        (&ACTIVITY, rows::activity_columns(&profile.activity)),
        (comm, rows::comm_columns(&profile.comm)),
        (&SITES, detail::site_columns(&profile.sites)),
        (lines, detail::line_columns(&profile.lines)),
        (events, detail::event_columns(&profile.events)),
    ] {
        columns.truncate(table.columns.len());
        let entry = write_table(&path.join(table.file_name()), path, table, &columns).unwrap();
        tables.insert(table.name.to_owned(), entry);
    }
    let mut meta = serde_json::to_value(MetaFile { meta: profile.meta.clone(), tables }).unwrap();
    meta["schema_version"] = version.into();
    meta["warnings"] = serde_json::json!([SENTENCE]);
    if version == 2 {
        meta.as_object_mut().unwrap().remove("sampled");
    }
    for process in meta["processes"].as_array_mut().unwrap() {
        process["unrecorded"] = "it is statically linked".into();
    }
    fs::write(path.join(META_FILE), serde_json::to_vec(&meta).unwrap()).unwrap();
}

/// Versions before 6 had none.
fn forget_blocks(profile: &mut Profile) {
    (profile.blocks, profile.fields, profile.pages) = Default::default();
    (profile.returns, profile.footprints) = Default::default();
    for object in &mut profile.objects {
        (object.element, object.stride) = Default::default();
    }
    forget_lives(profile);
}

/// Versions before 11 did not know how long blocks were there.
fn forget_lives(profile: &mut Profile) {
    for object in &mut profile.objects {
        (object.freed, object.lifetime_ns) = (None, None);
    }
    forget_wrappers(profile);
    profile.blocks.iter_mut().for_each(|block| block.lifetime_ns = None);
}

/// Versions before 13 did not know which functions only allocate for others.
fn forget_wrappers(profile: &mut Profile) {
    profile.objects.iter_mut().for_each(|object| object.wrappers = 0);
}

/// Versions before 5 had none, nor call paths.
fn forget_objects(profile: &mut Profile) {
    profile.calls.clear();
    profile.flow.clear();
    profile.objects.truncate(1);
    forget_blocks(profile);
    profile.events.iter_mut().for_each(|event| event.object = 0);
}

#[test]
fn a_folder_of_version_2_reads_as_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    save_older(&path, 2, &sample());
    let profile = Profile::load(&path).unwrap();
    let mut expected = sample();
    forget_objects(&mut expected);
    expected.meta.warnings = sentence();
    expected.running.clear();
    assert_eq!(profile, expected);
    profile.save(&path, true).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), profile);
}

/// Version 3 did not say what was inferred.
#[test]
fn a_folder_of_version_3_reads_as_sampled_with_its_sentences() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    let mut expected = crate::model::tests::sampled();
    expected.meta.processes = vec![static_child()];
    save_older(&path, 3, &expected);
    let profile = Profile::load(&path).unwrap();
    forget_objects(&mut expected);
    expected.meta.warnings = sentence();
    expected.meta.processes[0].unrecorded =
        Some(Unrecorded::Other { phrase: "it is statically linked".into() });
    expected.running.clear();
    expected.comm.iter_mut().for_each(|row| row.evidence = Evidence::Sampled);
    expected.events.iter_mut().for_each(|row| row.evidence = Evidence::Sampled);
    expected.lines.iter_mut().for_each(|row| row.evidence = EvidenceSet::of(Evidence::Sampled));
    assert_eq!(profile, expected);
    profile.save(&path, true).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), profile);
}

/// Version 4 did not say where threads ran, nor what the run would have taken alone, and had no
/// objects.
#[test]
fn a_folder_of_version_4_reads_without_places() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    let mut expected = sample();
    expected.running.clear();
    expected.calls.clear();
    expected.flow.clear();
    expected.save(&path, false).unwrap();
    let unknown = ["running", "objects", "blocks", "fields", "calls", "flow"];
    for table in unknown {
        fs::remove_file(path.join(format!("{table}.parquet"))).unwrap();
    }
    edit_meta(&path, |meta| {
        meta["schema_version"] = 4.into();
        let tables = meta["tables"].as_object_mut().unwrap();
        tables.retain(|table, _| !unknown.contains(&table.as_str()));
        meta.as_object_mut().unwrap().remove("own_time");
    });
    forget_objects(&mut expected);
    assert_eq!(Profile::load(&path).unwrap(), expected);
}

/// Version 7 did not know from which nodes samples came.
#[test]
fn a_folder_of_version_7_reads_without_nodes_of_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    let mut expected = sample();
    expected.save(&path, false).unwrap();
    let columns = crate::rows::pages::access_columns(&expected.pages.accesses);
    rewrite(&path, &ACCESSES_V7, columns);
    rewrite(&path, &OBJECTS_V6, detail::object_columns(&expected.objects));
    rewrite(&path, &BLOCKS_V6, detail::block_columns(&expected.blocks));
    edit_meta(&path, |meta| meta["schema_version"] = 7.into());
    forget_lives(&mut expected);
    for row in &mut expected.pages.accesses {
        (row.node, row.seen) = (None, None);
    }
    (expected.returns, expected.footprints) = Default::default();
    assert_eq!(Profile::load(&path).unwrap(), expected);
}

/// Writes a table as an older version had it, with its first columns only, and says so.
fn rewrite(path: &Path, table: &Table, mut columns: Vec<Data>) {
    columns.truncate(table.columns.len());
    let file = path.join(table.file_name());
    fs::remove_file(&file).unwrap();
    let entry = write_table(&file, path, table, &columns).unwrap();
    edit_meta(path, |meta| meta["tables"][table.name] = serde_json::to_value(&entry).unwrap());
}

#[test]
fn a_folder_of_version_10_reads_without_lifetimes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    let mut expected = sample();
    expected.save(&path, false).unwrap();
    rewrite(&path, &OBJECTS_V6, detail::object_columns(&expected.objects));
    rewrite(&path, &BLOCKS_V6, detail::block_columns(&expected.blocks));
    edit_meta(&path, |meta| meta["schema_version"] = 10.into());
    forget_lives(&mut expected);
    expected.returns = vec![];
    assert_eq!(Profile::load(&path).unwrap(), expected);
}

#[test]
fn a_folder_of_version_12_reads_without_wrappers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    let mut expected = sample();
    expected.save(&path, false).unwrap();
    rewrite(&path, &OBJECTS_V11, detail::object_columns(&expected.objects));
    edit_meta(&path, |meta| meta["schema_version"] = 12.into());
    forget_wrappers(&mut expected);
    expected.returns = vec![];
    assert_eq!(Profile::load(&path).unwrap(), expected);
}

/// Versions before 14 saw short absences only.
#[test]
fn returns_of_version_13_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    let mut expected = sample();
    expected.save(&path, false).unwrap();
    edit_meta(&path, |meta| meta["schema_version"] = 13.into());
    assert!(!std::mem::take(&mut expected.returns).is_empty());
    assert_eq!(Profile::load(&path).unwrap(), expected);
}

/// Version 5 did not know what lies in objects.
#[test]
fn a_folder_of_version_5_reads_without_fields() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.tt");
    let mut expected = sample();
    expected.save(&path, false).unwrap();
    rewrite(&path, &OBJECTS_V5, detail::object_columns(&expected.objects));
    for table in ["blocks", "fields"] {
        fs::remove_file(path.join(format!("{table}.parquet"))).unwrap();
    }
    edit_meta(&path, |meta| {
        meta["schema_version"] = 5.into();
        let tables = meta["tables"].as_object_mut().unwrap();
        tables.retain(|table, _| !["blocks", "fields"].contains(&table.as_str()));
    });
    forget_blocks(&mut expected);
    (expected.calls, expected.flow) = Default::default();
    assert_eq!(Profile::load(&path).unwrap(), expected);
}

fn static_child() -> crate::ProcessRow {
    crate::ProcessRow {
        number: 1,
        parent: 0,
        named: false,
        pid: 70,
        command: vec!["./static".into()],
        threads: 0,
        exit_code: Some(0),
        exit_signal: None,
        profile: None,
        unrecorded: Some(Unrecorded::StaticallyLinked),
    }
}

#[test]
fn every_note_comes_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.tt");
    let mut profile = sample();
    profile.meta.warnings = Note::examples();
    profile.meta.processes = vec![static_child()];
    profile.save(&path, false).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), profile);
}

#[test]
fn estimates_come_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sampled.tt");
    let profile = crate::model::tests::sampled();
    profile.save(&path, false).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), profile);
}

#[test]
fn every_truncation_of_every_file_is_noticed() {
    let (_folder, path) = saved();
    for name in names(&path) {
        let file = path.join(&name);
        let whole = fs::read(&file).unwrap();
        // The last byte of profile.json is a newline that nothing needs.
        for length in [0, 1, whole.len() / 2, whole.len() - 2] {
            fs::write(&file, &whole[..length]).unwrap();
            let error = load_error(&path);
            let start = format!("app.tt/{name} is damaged (");
            assert!(error.starts_with(&start), "{length} bytes: {error}");
        }
        fs::write(&file, &whole).unwrap();
    }
    assert_eq!(Profile::load(&path).unwrap(), sample());
}

#[test]
fn a_flipped_bit_anywhere_in_a_table_is_noticed() {
    let (_folder, path) = saved();
    let file = path.join("comm.parquet");
    let whole = fs::read(&file).unwrap();
    for position in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[position] ^= 0x10;
        fs::write(&file, bytes).unwrap();
        assert_eq!(
            load_error(&path),
            "app.tt/comm.parquet is damaged (its checksum is wrong); copy the whole folder again \
             or record again"
        );
    }
}

#[test]
fn missing_parts_are_named() {
    let (folder, path) = saved();
    fs::remove_file(path.join("threads.parquet")).unwrap();
    assert_eq!(
        load_error(&path),
        "app.tt/threads.parquet is missing, so the profile is incomplete; copy the whole folder \
         again or record again"
    );
    fs::remove_file(path.join(META_FILE)).unwrap();
    assert_eq!(load_error(&path), "app.tt is not a Threadtalk profile: it holds no profile.json");
    let none = folder.path().join("none.tt");
    assert_eq!(
        load_error(&none),
        "there is no profile none.tt; record one with: threadtalk record -o none.tt -- COMMAND"
    );
    let file = folder.path().join("file.tt");
    fs::write(&file, "x").unwrap();
    assert_eq!(
        load_error(&file),
        "file.tt is not a Threadtalk profile: it is a file, and a profile is a folder"
    );
}

#[test]
fn a_newer_schema_is_refused_politely() {
    let (_folder, path) = saved();
    edit_meta(&path, |meta| {
        *meta = serde_json::json!({"schema_version": 15, "tool": "threadtalk 3.0.0"});
    });
    assert_eq!(
        load_error(&path),
        "app.tt was written by threadtalk 3.0.0 in schema 15, and this version of threadtalk \
         reads up to schema 14; update threadtalk to read it"
    );
}

#[test]
fn contradictions_are_noticed() {
    let (_folder, path) = saved();
    edit_meta(&path, |meta| meta["totals"]["raw"] = 1.into());
    assert_eq!(
        load_error(&path),
        "app.tt/profile.json is damaged (the total of raw is given as 1 but the tables hold \
         18446744073709551607); copy the whole folder again or record again"
    );
    edit_meta(&path, |meta| meta["tables"] = serde_json::json!({}));
    assert_eq!(
        load_error(&path),
        "app.tt/profile.json is damaged (it does not list the table 'threads'); copy the whole \
         folder again or record again"
    );
    let mut wrong = sample();
    wrong.meta.totals.threads = 9;
    let error = wrong.save(&path, true).unwrap_err().to_string();
    assert!(error.starts_with("the profile contradicts itself: the total of threads"), "{error}");
}

#[test]
fn nothing_is_replaced_without_force() {
    let (folder, path) = saved();
    assert_eq!(
        save_error(&path, false),
        "app.tt exists already; choose another name with -o, or replace it with --force"
    );
    let mut changed = sample();
    changed.meta.host = "node2".into();
    changed.save(&path, true).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), changed);
    assert_eq!(names(folder.path()), ["app.tt"]);
}

#[test]
fn force_replaces_only_profiles() {
    let (folder, path) = saved();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    assert_eq!(
        save_error(&path, true),
        "--force does not replace app.tt, because it also holds notes.txt, which is no part of a \
         profile; choose another name with -o"
    );
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(META_FILE), r#"{"name": "something else"}"#).unwrap();
    assert_eq!(
        save_error(&other, true),
        "--force does not replace other, because it is not a Threadtalk profile (no valid \
         profile.json); choose another name with -o"
    );
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    for name in [&file, &link] {
        let error = save_error(name, true);
        assert!(error.contains("because it is not a profile folder;"), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"x");
    assert_eq!(names(folder.path()), ["app.tt", "file", "link", "other"]);
}

#[test]
fn a_damaged_or_empty_folder_can_be_replaced() {
    let (folder, path) = saved();
    fs::write(path.join(META_FILE), "{").unwrap();
    sample().save(&path, true).unwrap();
    let empty = folder.path().join("empty.tt");
    fs::create_dir(&empty).unwrap();
    sample().save(&empty, true).unwrap();
    for path in [&path, &empty] {
        assert_eq!(Profile::load(path).unwrap(), sample());
    }
}

#[test]
fn names_that_cannot_be_written_are_said() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        save_error(&folder.path().join("no/app.tt"), false),
        format!(
            "cannot write into {}/no: No such file or directory (os error 2)",
            folder.path().display()
        )
        .replace(&format!("{}/no/", folder.path().display()), "")
    );
    let error = sample().save(Path::new(".."), false).unwrap_err().to_string();
    assert_eq!(error, "cannot write ..: it is not a name for a folder");
}

#[test]
fn stepwise_publishing_keeps_old_or_new() {
    let (folder, path) = saved();
    let mut changed = sample();
    changed.meta.host = "node2".into();
    let staged = folder.path().join(".app.tt.1.partial");
    changed.save(&staged, false).unwrap();
    PartialFolder(staged.clone()).publish_in_steps(&path, true).unwrap();
    assert_eq!(Profile::load(&path).unwrap(), changed);
    // The staged folder is gone now: the old one stays where it is.
    assert!(PartialFolder(staged).publish_in_steps(&path, true).is_err());
    assert_eq!(Profile::load(&path).unwrap(), changed);
    assert_eq!(names(folder.path()), ["app.tt"]);
}

#[test]
fn profiles_of_child_processes_lie_in_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tt");
    let children = || ["processes/1-sh.tt", "processes/2-cc.tt"].map(|n| (n.to_owned(), sample()));
    sample().save_with(&path, false, children().into_iter()).unwrap();
    assert_eq!(names(&path.join("processes")), ["1-sh.tt", "2-cc.tt"]);
    assert_eq!(Profile::load(&path.join("processes/2-cc.tt")).unwrap(), sample());
    // The whole folder is ours to replace, except for what the user has put into it.
    sample().save_with(&path, true, children().into_iter().take(1)).unwrap();
    assert_eq!(names(&path.join("processes")), ["1-sh.tt"]);
    fs::write(path.join("processes/1-sh.tt/notes.txt"), "mine").unwrap();
    let error = save_error(&path, true);
    assert!(error.contains("in processes, it also holds notes.txt"), "{error}");
}
