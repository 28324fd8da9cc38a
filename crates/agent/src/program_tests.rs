//! Reading and writing memory of the program that ends.

use super::*;
use crate::sys;

/// Puts these bytes right before memory that cannot be reached, and returns their address.
pub fn at_end(bytes: &[u8]) -> u64 {
    let room = bytes.len().next_multiple_of(PAGE) as u64;
    // SAFETY: new memory, whose last page is given up for good.
    unsafe {
        let start = sys::anonymous(room + PAGE as u64).unwrap();
        let arguments = [start + room, PAGE as u64, sys::PROT_NONE, 0, 0, 0];
        assert_eq!(sys::call(sys::MPROTECT, arguments), 0);
        let at = start + room - bytes.len() as u64;
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len());
        at
    }
}

/// [`at_end`] for words.
pub fn words_at_end(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    at_end(&bytes)
}

/// Nothing is there, and no address above is a program's.
const BEYOND: u64 = !0 - 100;

#[test]
fn what_is_there_is_read_up_to_the_first_page_that_is_not() {
    let text: Vec<u8> = (0..2 * PAGE + 100).map(|k| (k % 251) as u8).collect();
    let from = at_end(&text);
    let mut buffer = vec![0; 4 * PAGE];
    assert_eq!(bytes(from, &mut buffer), text.len());
    assert_eq!(buffer[..text.len()], text);
    assert_eq!(bytes(from + text.len() as u64, &mut buffer), 0);
    for nowhere in [0, 8, BEYOND, !0] {
        assert_eq!(bytes(nowhere, &mut buffer[..200]), 0);
    }
}

#[test]
fn words_are_there_as_a_whole_or_not() {
    let at = words_at_end(&[1, 2, 3]);
    assert_eq!(words::<3>(at), Some([1, 2, 3]));
    assert_eq!(words::<3>(at + 8), None);
    assert_eq!(words::<1>(at + 17), None);
    assert_eq!((words::<1>(0), words::<2>(BEYOND)), (None, None));
}

#[test]
fn words_are_given_or_the_address_is_refused() {
    let at = words_at_end(&[0; 3]);
    assert_eq!(give(at + 4, &[5, 6]), 0);
    assert_eq!(words::<2>(at + 4), Some([5, 6]));
    assert_eq!(give(at + 16, &[7, 8]), EFAULT);
    assert_eq!((give(0, &[1]), give(BEYOND, &[1])), (EFAULT, EFAULT));
}

#[test]
fn a_string_may_end_where_memory_does() {
    // Lengths just below, at and above those of the pieces in which strings are read.
    for length in [0, 1, 254, 255, 256, 257, 511, 512, PAGE - 1, PAGE, PAGE + 1] {
        let mut text = vec![b'x'; length];
        text.push(0);
        let from = at_end(&text);
        assert_eq!(string(from, text.len()), Some(text.clone()), "{length}");
        assert_eq!(string(from, length), None, "{length} without room for the NUL");
    }
    assert_eq!(string(at_end(b"abc\0def\0"), 100), Some(b"abc\0".to_vec()));
}

#[test]
fn a_string_without_an_end_is_none() {
    for length in [1, 255, 256, 512, PAGE] {
        assert_eq!(string(at_end(&vec![b'x'; length]), 1 << 20), None, "{length}");
    }
    assert_eq!((string(0, 100), string(BEYOND, 100)), (None, None));
}

#[test]
fn pointers_end_with_a_null_that_may_be_the_last_word_there() {
    const IN_PAGE: usize = PAGE / 8;
    for count in [0, 1, IN_PAGE - 1, IN_PAGE, IN_PAGE + 1, 3 * IN_PAGE] {
        let expected: Vec<u64> = (1..=count as u64).collect();
        let mut array = expected.clone();
        array.push(0);
        assert_eq!(pointers(words_at_end(&array), count), Some(expected), "{count}");
    }
    // An array may begin at any address.
    let mut odd: Vec<u8> = [1u64, 2, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    odd.push(9);
    assert_eq!(pointers(at_end(&odd), 2), Some(vec![1, 2]));
    // The kernel takes a missing array for an empty one.
    assert_eq!(pointers(0, 10), Some(Vec::new()));
}

#[test]
fn pointers_without_an_end_are_none() {
    for count in [1, 511, 512, 513, 1024] {
        let array: Vec<u64> = (1..=count).collect();
        assert_eq!(pointers(words_at_end(&array), 1 << 20), None, "{count}");
    }
    assert_eq!(pointers(BEYOND, 10), None);
    let many = [vec![1; 2048], vec![0]].concat();
    assert_eq!(pointers(words_at_end(&many), 1000), None, "too many");
    let few = words_at_end(&[1, 2, 3, 0]);
    assert_eq!((pointers(few, 3).map(|all| all.len()), pointers(few, 2)), (Some(3), None));
}
