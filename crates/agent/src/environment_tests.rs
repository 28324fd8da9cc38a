//! Our variables: taken out of an environment, put back for programs that are executed.

use super::*;
use crate::program::tests::at_end;

const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_PAGESZ: u64 = 6;

/// The strings as the kernel puts them: pointers, NULL, auxiliary vector.
fn stack_of(strings: &[&str]) -> Vec<*const u8> {
    let pointers = strings.iter().map(|s| joined(&[s.as_bytes()]).leak().as_ptr());
    let vector = [0, AT_PAGESZ, 4096, AT_NULL, 0].map(|word: u64| word as *const u8);
    pointers.chain(vector).collect()
}

fn strings_of(array: *const *const u8) -> Vec<String> {
    // SAFETY: a NULL-terminated array of strings.
    unsafe {
        let all = (0..count(array)).map(|k| text(*array.add(k)));
        all.map(|s| String::from_utf8(s.to_vec()).unwrap()).collect()
    }
}

/// Entries of the auxiliary vector for one who walks on from the environment's end.
fn vector_behind(stack: &[*const u8]) -> Vec<[u64; 2]> {
    let end = stack.iter().position(|word| word.is_null()).unwrap();
    let words = stack[end + 1..].iter().map(|word| *word as u64).collect::<Vec<_>>();
    let pairs = words.chunks(2).map(|pair| pair.try_into().unwrap());
    pairs.take_while(|pair: &[u64; 2]| pair[0] != AT_NULL).collect()
}

/// What is left of these variables, and what ours said.
fn taken(strings: &[&str]) -> (Option<Environment>, Vec<String>, Vec<[u64; 2]>) {
    let mut stack = stack_of(strings);
    // SAFETY: an environment that nothing else uses.
    let ours = unsafe { Environment::take(stack.as_mut_ptr()) };
    (ours, strings_of(stack.as_ptr()), vector_behind(&stack))
}

/// The program's own variables in its memory.
fn variables(strings: &[&str]) -> Variables {
    let stack = stack_of(strings);
    Variables::read(stack.as_ptr() as u64).unwrap()
}

fn ours(session: &'static str) -> Environment {
    Environment { library: b"/opt/agent.so", session: session.as_bytes() }
}

#[test]
fn a_program_sees_what_the_user_gave_it() {
    let (ours, rest, _) = taken(&[
        "PATH=/bin",
        "THREADTALK_SESSION=/proc/7/fd/3:1:0",
        "LD_PRELOAD=/opt/agent.so:/usr/lib/a.so:/usr/lib/b.so",
        "GLIBC_TUNABLES=glibc.malloc.check=3:glibc.pthread.rseq=0",
        "HOME=/root",
    ]);
    let ours = ours.unwrap();
    assert_eq!((ours.session, ours.library), (&b"/proc/7/fd/3:1:0"[..], &b"/opt/agent.so"[..]));
    assert_eq!(ours.library(), b"/opt/agent.so\0");
    let expected = [
        "PATH=/bin",
        "LD_PRELOAD=/usr/lib/a.so:/usr/lib/b.so",
        "GLIBC_TUNABLES=glibc.malloc.check=3",
        "HOME=/root",
    ];
    assert_eq!(rest, expected);
}

#[test]
fn variables_that_the_user_did_not_set_go() {
    let (ours, rest, _) = taken(&[
        "LD_PRELOAD=/opt/agent.so",
        "A=1",
        "THREADTALK_SESSION_EVEN=",
        "GLIBC_TUNABLES=glibc.pthread.rseq=0",
        "THREADTALK_SESSION=/s",
    ]);
    assert!(ours.is_some());
    assert_eq!(rest, ["A=1"]);
}

#[test]
fn without_our_variables_nothing_changes() {
    let users = ["LD_PRELOAD=/a.so:/b.so", "GLIBC_TUNABLES=glibc.pthread.rseq=0", "A="];
    let (ours, rest, vector) = taken(&users);
    assert!(ours.is_none());
    assert_eq!(rest, users);
    assert_eq!(vector, [[AT_PAGESZ, 4096]]);
    assert!(taken(&[]).0.is_none());
    // Names that only begin like ours, or end like them, are others'.
    let others = ["XLD_PRELOAD=/a.so", "THREADTALK_SESSIONS=1", "LD_PRELOAD_=2"];
    assert!(taken(&others).0.is_none());
}

/// All that a user may have set of the two variables that we share with him.
const USERS: [[Option<&str>; 2]; 9] = {
    const PRELOADS: [Option<&str>; 3] =
        [None, Some("LD_PRELOAD="), Some("LD_PRELOAD=/a.so:/b.so /c.so")];
    const TUNABLES: [Option<&str>; 3] =
        [None, Some("GLIBC_TUNABLES="), Some("GLIBC_TUNABLES=x=1:glibc.pthread.rseq=0")];
    let mut all = [[None; 2]; 9];
    let mut k = 0;
    while k < all.len() {
        all[k] = [PRELOADS[k / 3], TUNABLES[k % 3]];
        k += 1;
    }
    all
};

#[test]
fn what_is_handed_over_is_taken_and_leaves_the_rest_as_it_was() {
    for [preload, tunables] in USERS {
        let users: Vec<&str> =
            [Some("A=1"), tunables, Some("EMPTY="), preload].into_iter().flatten().collect();
        let prepared = ours("/proc/7/fd/3:4:2:99").with(&variables(&users), 12, 5);
        let strings = strings_of(prepared.as_ptr());
        let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
        let (taken, rest, vector) = taken(&strings);
        let taken = taken.unwrap();
        assert_eq!(rest, users);
        assert_eq!(taken.library, b"/opt/agent.so");
        let place = taken.place().unwrap();
        assert_eq!((place.path, place.segment, place.parent), (&b"/proc/7/fd/3"[..], 12, 5));
        // glibc has kept a pointer to the vector, and others walk to it from the environment.
        assert_eq!((strings.len() - rest.len()) % 2, 0, "{strings:?}");
        let (last, free) = vector.split_last().unwrap();
        assert_eq!(*last, [AT_PAGESZ, 4096]);
        assert_eq!(2 * free.len(), strings.len() - rest.len());
        assert!(free.iter().all(|entry| entry[0] == AT_IGNORE));
    }
}

#[test]
fn the_loader_gets_our_library_first_and_our_tunable_last() {
    let users = ["LD_PRELOAD=/a.so", "GLIBC_TUNABLES=glibc.pthread.rseq=1"];
    let strings = strings_of(ours("/s").with(&variables(&users), 1, 0).as_ptr());
    let has = |wanted: &str| strings.iter().any(|s| s == wanted);
    assert!(has("LD_PRELOAD=/opt/agent.so:/a.so"), "{strings:?}");
    assert!(has("GLIBC_TUNABLES=glibc.pthread.rseq=1:glibc.pthread.rseq=0"), "{strings:?}");
}

#[test]
fn a_string_that_cannot_be_read_is_left_to_the_kernel() {
    let bad = at_end(b"LD_PRELOAD=/without/an/end");
    let array = [c"A=1".as_ptr() as u64, 8, bad, 0];
    let variables = Variables::read(array.as_ptr() as u64).unwrap();
    let prepared = ours("/s").with(&variables, 1, 0);
    assert!(prepared.pointers.contains(&(8 as *const u8)));
    assert!(prepared.pointers.contains(&(bad as *const u8)));
    // Only the last is NULL.
    let end = prepared.pointers.iter().position(|at| at.is_null());
    assert_eq!(end, Some(prepared.pointers.len() - 1));
}

#[test]
fn another_recording_is_noticed_by_its_session() {
    assert!(variables(&["A=1", "THREADTALK_SESSION=/s"]).are_taken());
    assert!(!variables(&["A=1", "THREADTALK_SESSION_EVEN=", "LD_PRELOAD=/a.so"]).are_taken());
    assert!(!Variables::read(0).unwrap().are_taken());
    assert!(Variables::read(8).is_none());
}

#[test]
fn limits_are_handed_over_as_four_numbers_or_not_at_all() {
    let limits = |session| ours(session).limits();
    assert_eq!(limits("/s:1:0:10:20:30:18446744073709551615"), Some([10, 20, 30, u64::MAX]));
    for without in ["/s", "/s:1:0", "/s:1:0:10:20:30", "/s:1:0:10:20:30:", "/s:1:0:a:20:30:40"] {
        assert_eq!(limits(without), None, "{without}");
    }
    assert_eq!(limits("/s:1:0:10:20:30:18446744073709551616"), None, "more than a word holds");
}

#[test]
fn an_odd_number_of_free_slots_is_not_filled() {
    let mut stack = stack_of(&["A=1", "B=2"]);
    // SAFETY: an environment that nothing else uses.
    unsafe {
        remove(stack.as_mut_ptr(), 0);
        fill(stack.as_mut_ptr(), 2);
    }
    assert_eq!(strings_of(stack.as_ptr()), ["B=2"]);
    // The slot, and the vector where it was.
    assert_eq!(stack[3] as u64, AT_PAGESZ);
}
