//! Filters of system calls, whose answers are the kernel's.

use inspect::bpf::{Answer, Instruction, answer};
use std::io::Error;

/// `struct sock_filter` as a word: code, jumps, constant.
fn word(code: u16, if_true: u8, if_false: u8, k: u32) -> u64 {
    u64::from(code) | u64::from(if_true) << 16 | u64::from(if_false) << 24 | u64::from(k) << 32
}

fn read(filter: &[u64]) -> Vec<Instruction> {
    filter.iter().map(|word| Instruction::from_bytes(&word.to_le_bytes())).collect()
}

const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000 | 71;
const KILL: u32 = 0;

#[test]
fn a_call_is_allowed_refused_or_deadly() {
    let by_number = |number: u32, then: u32| {
        let filter = [
            word(LOAD, 0, 0, 0),
            word(EQUAL, 0, 1, number),
            word(RETURN, 0, 0, then),
            word(RETURN, 0, 0, ALLOW),
        ];
        read(&filter)
    };
    let of = |then, number| answer(&by_number(5, then), number, &[0; 6]);
    assert_eq!((of(KILL, 5), of(KILL, 6)), (Answer::Deadly, Answer::Allowed));
    assert_eq!(of(ERRNO, 5), Answer::Refused);
    // What is logged is made, and what a handler or another process is asked for is not tried.
    assert_eq!(of(0x7ffc_0000, 5), Answer::Allowed);
    assert_eq!(of(0x0003_0000, 5), Answer::Deadly);
    assert_eq!(of(0x7fc0_0000, 5), Answer::Deadly);
    // What the kernel would have refused.
    assert_eq!(answer(&read(&[word(0x05, 0, 0, u32::MAX)]), 5, &[0; 6]), Answer::Deadly);
    assert_eq!(answer(&[], 5, &[0; 6]), Answer::Deadly);
}

/// The call that is tried: it takes no arguments, so filters may look at any.
const CALL: i64 = libc::SYS_getppid;

/// A filter that lets all other calls through, and of this one judges the arguments at random.
fn random(below: &mut impl FnMut(u64) -> u64) -> Vec<u64> {
    let mut filter =
        vec![word(LOAD, 0, 0, 0), word(EQUAL, 1, 0, CALL as u32), word(RETURN, 0, 0, ALLOW)];
    // All words of the scratch memory have been written, or the kernel refuses to read them.
    filter.extend((0..16).map(|slot| word(0x02, 0, 0, slot)));
    let steps = 4 + below(40);
    for step in 0..steps {
        let left = (steps - step) as u8;
        let k = match below(3) {
            0 => below(40) as u32,
            1 => below(1 << 32) as u32,
            _ => 1 << below(32),
        };
        let data = 16 + 4 * below(12) as u32;
        let arithmetic = (0x10 * below(11) as u16) | (8 * below(2) as u16);
        let jump = (0x10 * (1 + below(4)) as u16) | (8 * below(2) as u16);
        let ahead = |below: &mut dyn FnMut(u64) -> u64| below(u64::from(left)) as u8;
        filter.push(match below(12) {
            0 | 1 => word(LOAD, 0, 0, data),
            2 => word(0x00, 0, 0, k),
            3 => word(0x01, 0, 0, k),
            4 => word(0x60, 0, 0, k % 16),
            5 => word(0x61, 0, 0, k % 16),
            6 => word(0x02 + below(2) as u16, 0, 0, k % 16),
            7 => word(if below(2) == 0 { 0x07 } else { 0x87 }, 0, 0, 0),
            8 | 9 => word(0x04 | arithmetic, 0, 0, if arithmetic & 8 == 0 { k } else { 0 }),
            10 => word(0x05 | jump, ahead(below), ahead(below), if jump & 8 == 0 { k } else { 0 }),
            _ => word(0x80 + below(2) as u16, 0, 0, 0),
        });
    }
    // By the last bit of what was computed.
    filter.extend([word(0x45, 0, 1, 1), word(RETURN, 0, 0, ERRNO), word(RETURN, 0, 0, ALLOW)]);
    filter
}

/// What the kernel answers to these calls under the filter, in a process of its own, up to the one
/// that ends it: `None` if it does not take the filter.
fn by_the_kernel(filter: &[u64], calls: &[[u64; 6]]) -> Option<Vec<Answer>> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast::<libc::sock_filter>().cast_mut(),
    };
    let mut ends = [0; 2];
    // SAFETY: the child makes system calls only, and ends.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            let taken = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0;
            if !taken {
                libc::_exit(0);
            }
            libc::write(ends[1], [0].as_ptr().cast(), 1);
            for [a, b, c, d, e, f] in calls {
                let refused = libc::syscall(CALL, *a, *b, *c, *d, *e, *f) == -1;
                libc::write(ends[1], [u8::from(refused)].as_ptr().cast(), 1);
            }
            libc::_exit(0);
        }
        libc::close(ends[1]);
        let mut answers = vec![0_u8; calls.len() + 1];
        let mut got = 0;
        loop {
            let left = answers[got..].as_mut_ptr().cast();
            match libc::read(ends[0], left, answers.len() - got) {
                0 => break,
                more if more > 0 => got += more as usize,
                _ => panic!("{}", Error::last_os_error()),
            }
        }
        libc::close(ends[0]);
        libc::waitpid(child, std::ptr::null_mut(), 0);
        let named = |refused: &u8| if *refused == 1 { Answer::Refused } else { Answer::Allowed };
        let mut told: Vec<Answer> = answers[..got].get(1..)?.iter().map(named).collect();
        if told.len() < calls.len() {
            told.push(Answer::Deadly);
        }
        Some(told)
    }
}

#[test]
fn answers_are_those_of_the_kernel() {
    const ALLOWS: [u64; 1] = [RETURN as u64 | (ALLOW as u64) << 32];
    let mut chance = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = move |limit: u64| {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        (chance >> 11) % limit
    };
    if by_the_kernel(&ALLOWS, &[[0; 6]]).is_none() {
        println!("skipped: this machine takes no filters of system calls");
        return;
    }
    let (mut compared, mut refused, mut deadly) = (0, 0, 0);
    for _ in 0..400 {
        let filter = random(&mut below);
        let calls: Vec<[u64; 6]> =
            (0..24).map(|_| [0; 6].map(|_| below(u64::MAX) >> below(64))).collect();
        let Some(kernels) = by_the_kernel(&filter, &calls) else { continue };
        let code = read(&filter);
        for (call, expected) in calls.iter().zip(kernels) {
            assert_eq!(answer(&code, CALL as u64, call), expected, "{filter:x?} of {call:x?}");
            compared += 1;
            refused += u32::from(expected == Answer::Refused);
            deadly += u32::from(expected == Answer::Deadly);
        }
    }
    let told = format!("{compared} calls, {refused} refused, {deadly} deadly");
    assert!(compared > 2000 && refused > compared / 20 && deadly > 0, "{told}");
}
