//! Traces of other tools, as text.
//!
//! * Valgrind: `valgrind --tool=lackey --trace-mem=yes`; `I` are instructions, `L`, `S` and `M`
//!   load, store, and do both. Lackey does not tell threads apart, so all are one.
//! * DynamoRIO: a memory trace as `drrun -t drmemtrace -tool view` prints it, with the thread's id
//!   and the instruction's address.
//!
//! Neighbours: callers write what comes out as a trace (`trace.rs`).

use crate::stream::{Access, StreamError, What};
use crate::traced::TracedThread;
use std::collections::HashMap;
use std::io::BufRead;

/// Lines without anything that is known, at the beginning, after which a text is no trace.
const MAX_UNKNOWN: u64 = 1000;

/// Reads a text and gives its accesses to `take`; returns what is known of its threads. `name` is
/// what errors call it.
///
/// # Errors
/// When it cannot be read, is no trace that is known, or a line of it makes no sense.
pub fn read_text(
    from: &mut dyn BufRead,
    name: &str,
    take: &mut dyn FnMut(&Access),
) -> Result<Vec<TracedThread>, StreamError> {
    let mut text = Text::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = from.read_until(b'\n', &mut line);
        let read = read.map_err(|source| StreamError::Read { name: name.into(), source })?;
        if read == 0 {
            break;
        }
        let understood = std::str::from_utf8(&line).ok().map(|line| text.line(line, take));
        match understood {
            Some(Ok(())) => {}
            None | Some(Err(())) if text.accesses == 0 => {}
            None | Some(Err(())) => {
                return Err(StreamError::Damaged {
                    name: name.into(),
                    place: format!("in line {number}"),
                    reason: "the line makes no sense".into(),
                });
            }
        }
        if text.accesses == 0 && number > MAX_UNKNOWN && text.instructions == 0 {
            break;
        }
    }
    match text.accesses {
        0 => Err(StreamError::NoTrace {
            name: name.into(),
            reason: "it has no access in the text of lackey or DynamoRIO".into(),
        }),
        _ => Ok(text.threads),
    }
}

#[derive(Default)]
struct Text {
    numbers: HashMap<u64, u32>,
    threads: Vec<TracedThread>,
    /// The last instruction.
    site: u32,
    accesses: u64,
    instructions: u64,
}

impl Text {
    /// One line; an error if it looks like a record and is none.
    fn line(&mut self, line: &str, take: &mut dyn FnMut(&Access)) -> Result<(), ()> {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with("==") || line.starts_with("--") {
            return Ok(());
        }
        let lackey = line.get(..3).and_then(|head| match head {
            "I  " => Some('I'),
            " L " => Some('L'),
            " S " => Some('S'),
            " M " => Some('M'),
            _ => None,
        });
        match lackey {
            Some(kind) => self.lackey(kind, &line[3..], take).ok_or(()),
            None => self.dynamorio(line, take),
        }
    }

    fn thread(&mut self, id: u64) -> u32 {
        let threads = &mut self.threads;
        *self.numbers.entry(id).or_insert_with(|| {
            let parent = (!threads.is_empty()).then_some(0);
            threads.push(TracedThread { instructions: Some(0), parent, ..TracedThread::default() });
            threads.len() as u32 - 1
        })
    }

    fn instruction(&mut self, thread: u32) {
        self.instructions += 1;
        let count = self.threads[thread as usize].instructions.get_or_insert(0);
        *count += 1;
    }

    fn access(&mut self, access: &Access, take: &mut dyn FnMut(&Access)) {
        self.accesses += 1;
        self.threads[access.thread as usize].accesses += 1;
        take(access);
    }

    fn lackey(&mut self, kind: char, rest: &str, take: &mut dyn FnMut(&Access)) -> Option<()> {
        let (address, bytes) = rest.trim().split_once(',')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let bytes: u64 = bytes.parse().ok()?;
        let thread = self.thread(0);
        if kind == 'I' {
            self.site = address as u32;
            self.instruction(thread);
            return Some(());
        }
        let of = |what, site| Access::new(thread, what, address, bytes, site);
        if kind != 'S' {
            self.access(&of(What::Read, self.site), take);
        }
        if kind != 'L' {
            self.access(&of(What::Write, self.site), take);
        }
        Some(())
    }

    /// `record instruction: thread kind n byte(s) @ address [by PC address]`.
    fn dynamorio(&mut self, line: &str, take: &mut dyn FnMut(&Access)) -> Result<(), ()> {
        let Some((_, rest)) = line.split_once(':') else { return Ok(()) };
        let mut words = rest.split_whitespace();
        let (Some(id), Some(kind)) = (words.next(), words.next()) else { return Ok(()) };
        let Ok(id) = id.parse::<u64>() else { return Ok(()) };
        let what = match kind {
            "ifetch" | "non-fetched" => None,
            "read" => Some(What::Read),
            "write" => Some(What::Write),
            _ => return Ok(()),
        };
        let thread = self.thread(id);
        let Some(what) = what else {
            self.instruction(thread);
            return Ok(());
        };
        let hex = |word: Option<&str>| u64::from_str_radix(word?.strip_prefix("0x")?, 16).ok();
        let bytes = words.next().and_then(|word| word.parse().ok()).ok_or(())?;
        if (words.next(), words.next()) != (Some("byte(s)"), Some("@")) {
            return Err(());
        }
        let address = hex(words.next()).ok_or(())?;
        let site = match (words.next(), words.next()) {
            (Some("by"), Some("PC")) => hex(words.next()).ok_or(())? as u32,
            _ => 0,
        };
        self.access(&Access::new(thread, what, address, bytes, site), take);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Vec<Access>, Vec<TracedThread>), StreamError> {
        let mut found = Vec::new();
        let threads = read_text(&mut text.as_bytes(), "'x'", &mut |access| found.push(*access))?;
        Ok((found, threads))
    }

    #[test]
    fn lackey_s_text_is_read() {
        let text = "==1== Lackey\n\nI  04000000,3\n L 1ffeffe7e0,8\nI  04000003,5\n M 0421c7cc,4\n S 10,1\n";
        let (found, threads) = read(text).unwrap();
        let short: Vec<_> = found.iter().map(|a| (a.what, a.address, a.bytes, a.site)).collect();
        use What::{Read, Write};
        assert_eq!(
            short,
            [
                (Read, 0x1f_feff_e7e0, 8, 0x0400_0000),
                (Read, 0x421_c7cc, 4, 0x0400_0003),
                (Write, 0x421_c7cc, 4, 0x0400_0003),
                (Write, 0x10, 1, 0x0400_0003),
            ]
        );
        assert_eq!((threads.len(), threads[0].instructions, threads[0].accesses), (1, Some(2), 4));
    }

    #[test]
    fn dynamorio_s_text_is_read() {
        let text = "\
Output format:
<--record#-> <--instr#->: <---tid---> <record details>
------------------------------------------------------------
           1           0:       87664 <marker: version 3>
           8           1:       87664 ifetch       3 byte(s) @ 0x00007f6fdd3ec360 48 89 e7    mov    %rsp, %rdi
          10           2:       87664 write        8 byte(s) @ 0x00007ffef4d0ffb8 by PC 0x00007f6fdd3ec363
          11           2:       87665 read         4 byte(s) @ 0x00007ffef4d0ffb8 by PC 0x00007f6fdd3ec363
View tool results:
";
        let (found, threads) = read(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].thread, found[0].bytes, found[0].site), (0, 8, 0xdd3e_c363));
        assert_eq!((found[1].thread, found[1].what), (1, What::Read));
        assert_eq!((threads[0].instructions, threads[1].parent), (Some(1), Some(0)));
    }

    #[test]
    fn other_text_is_refused() {
        let error = read("once upon a time\n").unwrap_err().to_string();
        assert!(error.starts_with("'x' is no trace"), "{error}");
        let error = read(" L 10,8\n L zz,8\n").unwrap_err().to_string();
        assert!(error.starts_with("'x' is damaged in line 2"), "{error}");
    }
}
