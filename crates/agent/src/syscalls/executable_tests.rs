//! Which files can be recorded: real ones, scripts, damaged ones, and what is no file.

use super::*;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

const GLIBC: &str = "/lib64/ld-linux-x86-64.so.2";
const CLASS: usize = 4;
const MACHINE: usize = 18;

/// A folder with files, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("threadtalk-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// The path of a file of that name.
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().into()
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// An ELF file for x86-64 with two program headers, which asks for this loader.
fn elf(loader: Option<&str>) -> Vec<u8> {
    const PT_LOAD: u64 = 1;
    const PT_INTERP: u64 = 3;
    const TABLE: usize = 64;
    const ENTRY: usize = 56;
    let text = TABLE + 2 * ENTRY;
    let mut bytes = vec![0; text];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"\x7fELF\x02\x01\x01");
    put(MACHINE, &62u16.to_le_bytes());
    put(32, &(TABLE as u64).to_le_bytes());
    put(54, &(ENTRY as u16).to_le_bytes());
    put(56, &2u16.to_le_bytes());
    put(TABLE, &PT_LOAD.to_le_bytes());
    if let Some(loader) = loader {
        let second = TABLE + ENTRY;
        put(second, &PT_INTERP.to_le_bytes());
        put(second + 8, &(text as u64).to_le_bytes());
        put(second + 32, &(loader.len() as u64 + 1).to_le_bytes());
        bytes.extend(loader.as_bytes());
        bytes.push(0);
    }
    bytes
}

fn of(path: &str) -> Verdict {
    let path = CString::new(path).unwrap();
    judge(sys::EXECVE, &[path.as_ptr() as u64, 0, 0, 0, 0, 0])
}

#[test]
fn programs_of_glibc_are_recorded() {
    let folder = Folder::new("programs");
    let native = |name: &str, bytes: &[u8]| of(&folder.file(name, bytes));
    assert_eq!(native("glibc", &elf(Some(GLIBC))), Verdict::Recordable);
    assert_eq!(native("nix", &elf(Some("/nix/store/x/ld-linux-x86-64.so.2"))), Verdict::Recordable);
    let musl = elf(Some("/lib/ld-musl-x86_64.so.1"));
    assert_eq!(native("musl", &musl), Verdict::Native(failure::NOT_GLIBC));
    assert_eq!(native("static", &elf(None)), Verdict::Native(failure::STATIC));
    // The loader itself, given a program to load.
    assert_eq!(native("ld-linux-x86-64.so.2", &elf(None)), Verdict::Recordable);
    assert_eq!(native("text", b"echo 1\n"), Verdict::Native(failure::FOREIGN));
    assert_eq!(native("empty", b""), Verdict::Native(failure::FOREIGN));
}

#[test]
fn programs_for_other_processors_are_foreign() {
    let folder = Folder::new("foreign");
    for (at, value) in [(CLASS, 1), (CLASS + 1, 2), (MACHINE, 3), (MACHINE, 183), (MACHINE + 1, 1)]
    {
        let mut bytes = elf(Some(GLIBC));
        bytes[at] = value;
        let verdict = of(&folder.file("other", bytes));
        assert_eq!(verdict, Verdict::Native(failure::FOREIGN), "{value} at {at}");
    }
}

#[test]
fn damaged_files_are_judged_all_the_same() {
    let folder = Folder::new("damaged");
    let whole = elf(Some(GLIBC));
    // All but the NUL at its end.
    let path = folder.file("short", &whole);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    for length in (0..whole.len() as u64 - 1).rev() {
        file.set_len(length).unwrap();
        let verdict = of(&path);
        assert!(matches!(verdict, Verdict::Native(_)), "{verdict:?} of {length} bytes");
    }
    // A table that lies beyond the end, and a loader's path there.
    for at in [32, 64 + 56 + 8] {
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&(1u64 << 62).to_le_bytes());
        assert!(matches!(of(&folder.file("beyond", bytes)), Verdict::Native(_)));
    }
}

#[test]
fn a_script_is_judged_by_its_interpreter() {
    let folder = Folder::new("scripts");
    let glibc = folder.file("glibc", elf(Some(GLIBC)));
    let script = |text: String| of(&folder.file("script", text));
    let lines = [
        format!("#!{glibc}\n"),
        format!("#!{glibc}"),
        format!("#! \t {glibc} -e -x\nexit 1\n"),
        format!("#!{glibc}\t-e\n"),
    ];
    for line in lines {
        assert_eq!(script(line.clone()), Verdict::Recordable, "{line:?}");
    }
    let musl = folder.file("musl", elf(Some("/lib/ld-musl-x86_64.so.1")));
    assert_eq!(script(format!("#!{musl}\n{glibc}")), Verdict::Native(failure::NOT_GLIBC));
    let nothing = ["#!", "#!\n", "#!  \n", "#!\n/bin/sh", "#!/nowhere/at/all\n"];
    for line in nothing {
        assert_eq!(script(line.into()), Verdict::Nothing, "{line:?}");
    }
    // No longer than what is read.
    assert_eq!(script(format!("#!{}", "x".repeat(5000))), Verdict::Nothing);
}

#[test]
fn linux_follows_five_interpreters() {
    let folder = Folder::new("chain");
    let mut path = folder.file("glibc", elf(Some(GLIBC)));
    let mut verdicts = Vec::new();
    for k in 0..7 {
        path = folder.file(&format!("script{k}"), format!("#!{path}\n"));
        verdicts.push(of(&path));
    }
    // exec_binprm: the file itself, and up to five that stand in for another.
    let [followed, refused] = [Verdict::Recordable, Verdict::Nothing];
    assert_eq!(verdicts, [vec![followed; 5], vec![refused; 2]].concat());
    let circle = folder.path("circle");
    assert_eq!(of(&folder.file("circle", format!("#!{circle}\n"))), Verdict::Nothing);
}

#[test]
fn a_file_is_named_by_a_folder_a_path_or_a_descriptor() {
    let folder = Folder::new("names");
    let path = folder.file("glibc", elf(Some(GLIBC)));
    let open = std::fs::File::open(&path).unwrap();
    let there = std::fs::File::open(&folder.0).unwrap();
    let at = |fd: u64, path: &CStr, flags: u64| {
        judge(sys::EXECVEAT, &[fd, path.as_ptr() as u64, 0, 0, flags, 0])
    };
    let (file, there) = (open.as_raw_fd() as u64, there.as_raw_fd() as u64);
    assert_eq!(at(there, c"glibc", 0), Verdict::Recordable);
    assert_eq!(at(there, c"other", 0), Verdict::Nothing);
    assert_eq!(at(file, c"", AT_EMPTY_PATH), Verdict::Recordable);
    assert_eq!(at(file, c"", 0), Verdict::Nothing);
    assert_eq!(at(u32::MAX.into(), c"", AT_EMPTY_PATH), Verdict::Nothing);
    // The descriptor is still the program's.
    assert!(open.metadata().is_ok());
}

#[test]
fn paths_that_the_kernel_refuses_start_nothing() {
    assert_eq!(judge(sys::EXECVE, &[0; 6]), Verdict::Nothing);
    assert_eq!(of(""), Verdict::Nothing);
    let long = |length| of(&format!("{}bin/sh", "/".repeat(length - 6)));
    assert_eq!(long(MAX_PATH), Verdict::Nothing);
    assert_eq!(unopened(-13), Verdict::Recordable, "what cannot be read may be executed");
    assert_eq!(unopened(-2), Verdict::Nothing);
}

#[test]
fn what_is_no_regular_file_starts_nothing_and_is_not_waited_for() {
    let folder = Folder::new("pipe");
    let pipe = folder.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()));
    assert_eq!(of(&pipe), Verdict::Nothing);
    let script = folder.file("script", format!("#!{pipe}\n"));
    assert_eq!(of(&script), Verdict::Nothing);
    assert_eq!(of(folder.0.to_str().unwrap()), Verdict::Nothing, "a folder");
    assert_eq!(of("/dev/null"), Verdict::Nothing);
}

#[test]
fn a_program_with_other_rights_than_its_users_is_privileged() {
    const USER: [u64; 4] = [1000, 1000, 100, 100];
    let owned = |ids, mode, owner, group| changes_ids(ids, mode, [owner, group]);
    assert!(!owned(USER, 0o100755, 0, 0));
    assert!(owned(USER, 0o104755, 0, 0), "setuid");
    assert!(!owned(USER, 0o104755, 1000, 0), "setuid to oneself");
    assert!(owned(USER, 0o102755, 1000, 5), "setgid");
    assert!(!owned(USER, 0o102755, 0, 100), "setgid to one's own group");
    assert!(!owned(USER, 0o102745, 0, 0), "without x for the group, setgid means locking");
    // The process has such rights already, unless the program sets others.
    assert!(owned([1000, 0, 100, 100], 0o100755, 0, 0));
    assert!(owned([1000, 1000, 100, 5], 0o100755, 0, 0));
    assert!(!owned([1000, 0, 100, 5], 0o106755, 1000, 100));
}
