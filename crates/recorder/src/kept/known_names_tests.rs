use super::*;
use std::fs::File;
use std::process::Command;
use test_support::Scratch;

fn folder(scratch: &Scratch) -> Folder {
    Folder(scratch.join("cache"))
}

fn resolver_in(scratch: &Scratch) -> Resolver {
    Resolver::keeping(Arc::new(folder(scratch)))
}

/// A text that `symbols` knows, about the code at the first bytes of a file.
const TEXT: &str = "threadtalk names 1\np40\t7\tf\tf.c\t\n";

#[test]
fn what_was_kept_holds_while_the_files_are_what_they_were() {
    let scratch = Scratch::new();
    let (program, debug) = (scratch.join("app"), scratch.join("app.debug"));
    fs::write(&program, "app").unwrap();
    let sources = [program.clone(), debug.clone()];
    let folder = folder(&scratch);
    let kept = || {
        let (path, key) = folder.place_of(&sources);
        read(&path, key)
    };
    assert_eq!(kept(), None);
    folder.keep(&sources, TEXT);
    assert_eq!(kept().as_deref(), Some(TEXT));
    // A debug file has come, and is gone again; another program; the same one, built anew.
    fs::write(&debug, "debug").unwrap();
    assert_eq!(kept(), None);
    fs::remove_file(&debug).unwrap();
    assert_eq!(kept().as_deref(), Some(TEXT));
    assert_eq!(folder.place_of(&sources[1..]).1, folder.place_of(&sources[1..]).1);
    assert_ne!(folder.place_of(&sources[1..]).1, folder.place_of(&sources[..1]).1);
    File::options()
        .write(true)
        .open(&program)
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
    assert_eq!(kept(), None);
}

#[test]
fn what_is_damaged_is_not_used() {
    let scratch = Scratch::new();
    let sources = [scratch.join("app")];
    let folder = folder(&scratch);
    folder.keep(&sources, TEXT);
    let (path, key) = folder.place_of(&sources);
    let whole = fs::read(&path).unwrap();
    for k in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[k] ^= 4;
        for bytes in [&damaged[..], &whole[..k]] {
            fs::write(&path, bytes).unwrap();
            assert_eq!(read(&path, key), None, "byte {k}");
        }
    }
}

/// The names of a program are those that were kept, where these are about it; others are asked for
/// and kept, too.
#[test]
fn names_come_from_the_folder() {
    let scratch = Scratch::new();
    let program = scratch.join("app");
    let source = scratch.join("app.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let compiler = Command::new("gcc").args(["-g", "-O0", "-o"]).args([&program, &source]).status();
    assert!(compiler.unwrap().success());
    let offset_of_main = |resolver: &mut Resolver| {
        let is_main =
            |offset: &u64| resolver.function(&program, *offset).as_deref() == Some("main");
        (0..1 << 16).find(is_main).expect("it has a main")
    };
    let mut first = resolver_in(&scratch);
    let offset = offset_of_main(&mut first);
    let place = first.place(&program, offset);
    assert_eq!((place.function.as_str(), place.line), ("main", 1));
    drop(first);
    // Something else is kept, which shows that it is looked at.
    let files: Vec<PathBuf> =
        fs::read_dir(scratch.join("cache")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let text = fs::read_to_string(&files[0]).unwrap();
    let (head, answers) = text.split_once('\n').unwrap();
    let key = u64::from_str_radix(&head[..16], 16).unwrap();
    let answers = answers.replace("main", "kept");
    fs::write(&files[0], first_line(key, &answers) + &answers).unwrap();
    let mut second = resolver_in(&scratch);
    assert_eq!(second.place(&program, offset).function, "kept");
    assert_eq!(second.place(&program, offset + 1).function, "main");
    drop(second);
    let text = fs::read_to_string(&files[0]).unwrap();
    assert!(text.contains("kept") && text.contains("main"), "{text}");
    assert_eq!(Resolver::new().place(&program, offset).function, "main");
}
