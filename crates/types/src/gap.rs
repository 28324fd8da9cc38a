//! Gaps of events: how long before an event its line was last written, in classes.

/// Class of a gap. Windows tell gaps up to their own length apart; longer ones are late.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GapClass {
    /// Up to 2¹⁷ cycles, about 40 µs.
    Shortest,
    /// Up to 2²⁰ cycles, about 0.3 ms.
    Short,
    /// Up to 2²³ cycles, about 2.8 ms.
    Medium,
    /// Longer, within a window.
    Long,
    /// The last write came before the window. Since then all threads together have come to 2ⁿ⁻¹
    /// different tracked lines, or up to twice as many; 0 = to none.
    Late(u8),
}

impl GapClass {
    /// Those within a window, shortest first.
    pub const WITHIN: [Self; 4] = [Self::Shortest, Self::Short, Self::Medium, Self::Long];

    /// Its number in tables, from 1 on; 0 stands for a gap that is not known.
    pub fn number(self) -> u8 {
        let within = Self::WITHIN.len() as u8;
        match self {
            Self::Late(lines) => within + 1 + lines,
            other => {
                Self::WITHIN.iter().position(|class| *class == other).map_or(0, |n| n as u8 + 1)
            }
        }
    }

    /// The class with a number, `None` for those that are none.
    pub fn of_number(number: u32) -> Option<Self> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        let late = place.checked_sub(Self::WITHIN.len());
        match late.map(u8::try_from) {
            None => Some(Self::WITHIN[place]),
            Some(Ok(lines)) if lines <= 64 => Some(Self::Late(lines)),
            Some(_) => None,
        }
    }

    /// Whether the last write came before the window.
    pub fn is_late(self) -> bool {
        matches!(self, Self::Late(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_their_classes() {
        let late = [0, 1, 40, 64].map(GapClass::Late);
        for class in GapClass::WITHIN.into_iter().chain(late) {
            assert_eq!(GapClass::of_number(class.number().into()), Some(class));
        }
        assert!([0, 70, 1000].iter().all(|number| GapClass::of_number(*number).is_none()));
    }
}
