//! Every kind of command that is refused, with its exit code and the sentence.

use super::*;
use std::fs::Permissions;

/// A folder of its own that goes away with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tt-target-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(path: impl AsRef<OsStr>) -> (i32, String) {
    let error = Target::resolve(&[path.as_ref().to_os_string()]).unwrap_err();
    (error.exit_code(), error.to_string())
}

/// This test program with some bytes of its header changed.
fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut program = fs::read("/proc/self/exe").unwrap();
    program.truncate(64 * 1024);
    program[at..at + bytes.len()].copy_from_slice(bytes);
    program
}

#[test]
fn a_program_is_found_through_path_and_keeps_its_typed_name() {
    let target = Target::resolve(&["sh".into(), "-c".into(), "true".into()]).unwrap();
    assert!(target.path.is_absolute() && target.path.ends_with("sh"), "{:?}", target.path);
    assert_eq!(target.argv, ["sh", "-c", "true"]);
    assert_eq!(target.name(), "sh");
}

#[test]
fn a_pipe_is_not_waited_for() {
    let folder = Folder::new("pipe");
    let pipe = folder.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let (code, text) = refusal(&pipe);
    assert_eq!(code, 126);
    assert!(text.ends_with("it is a pipe, a socket or a device"), "{text}");
    let script = folder.file("script", format!("#!{}\n", pipe.display()).as_bytes(), 0o755);
    assert_eq!(refusal(script).0, 126);
}

#[test]
fn a_script_is_checked_by_its_interpreter() {
    let folder = Folder::new("script");
    let script = folder.file("script", b"#! /bin/sh -e\ntrue\n", 0o755);
    let target = Target::resolve(&[script.clone().into()]).unwrap();
    assert_eq!((target.path, target.program), (script, PathBuf::from("/bin/sh")));
    let orphan = folder.file("orphan", b"#!/no/such/interpreter\n", 0o755);
    let (code, text) = refusal(orphan);
    assert_eq!(code, 126);
    assert!(text.ends_with("its interpreter /no/such/interpreter is missing or not executable"));
}

#[test]
fn missing_commands_give_127() {
    assert_eq!(
        refusal("no-such-command-anywhere"),
        (127, "no-such-command-anywhere: command not found".into())
    );
    assert_eq!(refusal("/no/such/file"), (127, "/no/such/file: command not found".into()));
    assert!(matches!(Target::resolve(&[]), Err(RecorderError::NoCommand)));
}

#[test]
fn what_cannot_be_executed_gives_126() {
    let folder = Folder::new("notexec");
    let plain = folder.file("plain", b"\x7fELF", 0o644);
    let (code, text) = refusal(&plain);
    assert_eq!(code, 126);
    assert!(text.ends_with("no execute permission; allow it with 'chmod +x'"), "{text}");
    assert_eq!(refusal(&folder.0).0, 126);
    for (name, bytes, end) in [
        ("text", &b"hello\n"[..], "it is neither an ELF program nor a script with a #! line"),
        ("empty", b"", "it is neither an ELF program nor a script with a #! line"),
        ("short", b"\x7fELF\x02\x01", "it is a truncated ELF file"),
        ("bare", b"#!  \n", "its #! line names no interpreter"),
    ] {
        let (code, text) = refusal(folder.file(name, bytes, 0o755));
        assert_eq!(code, 126, "{name}");
        assert!(text.ends_with(end), "{text}");
    }
    let relocatable = folder.file("object", &patched(16, &[1, 0]), 0o755);
    assert!(refusal(relocatable).1.ends_with("it is an object file; link it first"));
}

#[test]
fn programs_that_cannot_be_injected_into_give_125_and_the_reason() {
    let folder = Folder::new("unsupported");
    let no_interpreter = {
        let mut program = patched(0, b"");
        // Turn PT_INTERP (3) into PT_NULL in the program headers, which follow the header.
        let headers = u64::from_le_bytes(program[32..40].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes([program[56], program[57]]) as usize;
        for at in (0..count).map(|i| headers + i * 56) {
            if program[at] == 3 {
                program[at] = 0;
            }
        }
        program
    };
    for (name, bytes, part) in [
        ("i386", patched(18, &[3, 0]), "is a 32-bit program"),
        ("arm", patched(18, &[183, 0]), "is a program for 64-bit ARM (aarch64)"),
        ("x32", patched(4, &[1]), "is an x32 program"),
        ("static", no_interpreter, "is statically linked"),
    ] {
        let (code, text) = refusal(folder.file(name, &bytes, 0o755));
        assert_eq!(code, 125, "{name}: {text}");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_setuid_program_of_another_user_is_refused() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("ignored: only root can make a setuid file of another user");
        return;
    }
    let folder = Folder::new("setuid");
    let path = folder.file("program", &fs::read("/proc/self/exe").unwrap(), 0o755);
    std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).unwrap();
    assert!(Target::resolve(&[path.clone().into()]).is_ok());
    fs::set_permissions(&path, Permissions::from_mode(0o4755)).unwrap();
    let (code, text) = refusal(&path);
    assert_eq!(code, 125);
    assert!(text.contains("is setuid; the loader injects nothing"), "{text}");
    fs::set_permissions(&path, Permissions::from_mode(0o2755)).unwrap();
    assert!(refusal(&path).1.contains("is setgid;"));
}
