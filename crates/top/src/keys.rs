//! Keys: waits for them, reads them from standard input and decodes them.
//!
//! crossterm reads keys, too, but never comes back from a terminal that was closed: it tries again
//! whenever there is an end or an error. Neighbours: `terminal` runs the loop, `state` says what
//! keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// What a wait has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    Key(KeyEvent),
    /// The time is over, or a signal came.
    Nothing,
    /// The terminal was closed: no key will ever come.
    Closed,
}

/// What was typed.
#[derive(Debug, Default)]
pub struct Keys {
    pressed: VecDeque<KeyEvent>,
    /// The beginning of a key whose other bytes have not come yet.
    begun: Vec<u8>,
}

impl Keys {
    /// The next key, if there is one within `time`.
    ///
    /// # Errors
    /// Those of `poll`.
    pub fn wait(&mut self, time: Duration) -> io::Result<Waited> {
        if let Some(key) = self.pressed.pop_front() {
            return Ok(Waited::Key(key));
        }
        let ready = ready(time)?;
        if ready & libc::POLLIN == 0 {
            let closed = ready & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0;
            return Ok(if closed { Waited::Closed } else { Waited::Nothing });
        }
        let mut bytes = [0; 64];
        // SAFETY: room for as many bytes.
        let count = unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), 64) };
        match usize::try_from(count) {
            Ok(0) => return Ok(Waited::Closed),
            Ok(count) => self.take(&bytes[..count]),
            Err(_) => match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => {}
                _ => return Ok(Waited::Closed),
            },
        }
        Ok(self.pressed.pop_front().map_or(Waited::Nothing, Waited::Key))
    }

    /// Whether the terminal was closed.
    pub fn is_closed() -> bool {
        ready(Duration::ZERO).is_ok_and(|ready| ready & libc::POLLHUP != 0)
    }

    /// Bytes of the terminal, which sends those of a key together.
    fn take(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
        while !self.begun.is_empty() {
            let Some((key, length)) = first(&self.begun) else { return };
            self.pressed.extend(key);
            self.begun.drain(..length);
        }
    }
}

/// What `poll` says of standard input; 0 when the time is over or a signal came.
fn ready(time: Duration) -> io::Result<i16> {
    let mut poll = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // Rounded up, so that a short rest is not spent on useless looks.
    let milliseconds = time.as_micros().div_ceil(1000).try_into().unwrap_or(i32::MAX);
    // SAFETY: one valid pollfd.
    if unsafe { libc::poll(&mut poll, 1, milliseconds) } >= 0 {
        return Ok(poll.revents);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        error => Err(error),
    }
}

const ESCAPE: u8 = 0x1b;

/// The first key of `bytes` (none for what is not known) and how many bytes it has; `None` if some
/// are missing. An Escape with nothing behind it is the key of that name.
fn first(bytes: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    match *bytes {
        [ESCAPE] => Some((Some(KeyCode::Esc.into()), 1)),
        [ESCAPE, b'[', ref rest @ ..] => sequence(rest).map(|(key, length)| (key, length + 2)),
        [ESCAPE, b'O', last, ..] => Some((named(last, 0), 3)),
        [ESCAPE, b'O'] => None,
        [ESCAPE, ESCAPE, ..] => Some((Some(KeyCode::Esc.into()), 1)),
        [ESCAPE, ref rest @ ..] => {
            let (key, length) = character(rest)?;
            Some((key.map(|key| KeyEvent::new(key.code, KeyModifiers::ALT)), length + 1))
        }
        _ => character(bytes),
    }
}

/// A key that is sent as `ESC [ numbers last`.
fn sequence(rest: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    let at = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
    let digits = rest[..at].iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits
        .fold(0_u32, |sum, &digit| sum.saturating_mul(10).saturating_add((digit - b'0').into()));
    Some((named(rest[at], number), at + 1))
}

/// The key whose sequence ends with `last` and has this number in it.
fn named(last: u8, number: u32) -> Option<KeyEvent> {
    let code = match (last, number) {
        (b'A', _) => KeyCode::Up,
        (b'B', _) => KeyCode::Down,
        (b'C', _) => KeyCode::Right,
        (b'D', _) => KeyCode::Left,
        (b'H', _) | (b'~', 1 | 7) => KeyCode::Home,
        (b'F', _) | (b'~', 4 | 8) => KeyCode::End,
        (b'~', 5) => KeyCode::PageUp,
        (b'~', 6) => KeyCode::PageDown,
        _ => return None,
    };
    Some(code.into())
}

/// A key that is sent as one character.
fn character(bytes: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    let code = match bytes[0] {
        b'\r' | b'\n' => KeyCode::Enter,
        b'\t' => KeyCode::Tab,
        0x08 | 0x7f => KeyCode::Backspace,
        byte @ 0x01..=0x1a => {
            let letter = KeyCode::Char((byte - 1 + b'a').into());
            return Some((Some(KeyEvent::new(letter, KeyModifiers::CONTROL)), 1));
        }
        0x00..=0x1f => return Some((None, 1)),
        byte => {
            let length = match byte {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 1,
            };
            let text = std::str::from_utf8(bytes.get(..length)?).ok();
            let key = text.and_then(|text| text.chars().next()).map(|c| KeyCode::Char(c).into());
            return Some((key, length));
        }
    };
    Some((Some(code.into()), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(pieces: &[&[u8]]) -> Vec<KeyEvent> {
        let mut keys = Keys::default();
        pieces.iter().for_each(|piece| keys.take(piece));
        keys.pressed.into()
    }

    #[test]
    fn keys_are_known_by_what_the_terminal_sends() {
        let cases: [(&[u8], KeyCode); 12] = [
            (b"q", KeyCode::Char('q')),
            ("ü".as_bytes(), KeyCode::Char('ü')),
            (b"\x1b", KeyCode::Esc),
            (b"\t", KeyCode::Tab),
            (b"\r", KeyCode::Enter),
            (b"\x7f", KeyCode::Backspace),
            (b"\x1b[A", KeyCode::Up),
            (b"\x1bOB", KeyCode::Down),
            (b"\x1b[5~", KeyCode::PageUp),
            (b"\x1b[6~", KeyCode::PageDown),
            (b"\x1b[H", KeyCode::Home),
            (b"\x1b[1;5A", KeyCode::Up),
        ];
        for (bytes, code) in cases {
            assert_eq!(pressed(&[bytes]), [code.into()], "{bytes:?}");
        }
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(pressed(&[b"\x03"]), [interrupt]);
    }

    #[test]
    fn keys_come_in_a_row_and_in_pieces() {
        let codes = |pieces| pressed(pieces).iter().map(|key| key.code).collect::<Vec<_>>();
        let typed = [KeyCode::Char('3'), KeyCode::Up, KeyCode::Char('j')];
        assert_eq!(codes(&[b"3\x1b[Aj"]), typed);
        assert_eq!(codes(&[b"3\x1b[", b"Aj"]), typed);
        assert_eq!(codes(&[b"\xc3", b"\xbc"]), [KeyCode::Char('ü')]);
        // What is not known, or no text, does not keep what follows.
        assert_eq!(codes(&[b"\x1b[99~\xff\xc3qj"]), [KeyCode::Char('j')]);
    }
}
