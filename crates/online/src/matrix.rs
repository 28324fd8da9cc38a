//! The communication matrix, with decay, and with what is needed to tell a pattern from chance.
//!
//! Events are counted in two halves, by turns of observations: what a placement made for one half
//! saves in the other is not explained by chance (`mapping`). For the spread, the squares of what
//! single observations brought are kept as well: a thousand events of one observation count as one
//! draw, not as a thousand. Decay is lazy: new events count the more, the later they come.

use rustc_hash::FxHashMap;

/// Exponent of 2 from which on the scale begins anew.
const MAX_EXPONENT: f64 = 32.0;

/// Events between tasks, by slot.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Slots that there is room for.
    room: usize,
    /// For each half, row-major and upper triangle only: events, and their squares by observation.
    sums: [Vec<f32>; 2],
    squares: [Vec<f32>; 2],
    /// Events of the present observation.
    pending: FxHashMap<(u16, u16), f64>,
    /// Whose turn it is.
    half: usize,
    half_life_ns: f64,
    /// Since when the exponent grows.
    since_ns: u64,
    now_ns: u64,
}

impl Matrix {
    /// An empty matrix; events count half after `half_life_ms`, 0: never.
    pub fn new(half_life_ms: u64) -> Self {
        Self {
            room: 0,
            sums: [Vec::new(), Vec::new()],
            squares: [Vec::new(), Vec::new()],
            pending: FxHashMap::default(),
            half: 0,
            half_life_ns: half_life_ms as f64 * 1e6,
            since_ns: 0,
            now_ns: 0,
        }
    }

    /// Adds events between two slots to the present observation.
    pub fn add(&mut self, a: usize, b: usize, events: f64) {
        if a != b {
            *self.pending.entry((a.min(b) as u16, a.max(b) as u16)).or_default() += events;
        }
    }

    /// The observation of this moment is complete.
    pub fn turn(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        if self.exponent() > MAX_EXPONENT {
            let factor = (-self.exponent()).exp2() as f32;
            let all = self.sums.iter_mut().flatten();
            all.for_each(|cell| *cell *= factor);
            let all = self.squares.iter_mut().flatten();
            all.for_each(|cell| *cell *= factor * factor);
            self.since_ns = now_ns;
        }
        if self.pending.is_empty() {
            return;
        }
        let most = self.pending.keys().map(|pair| pair.1 as usize + 1).max().unwrap_or(0);
        self.grow(most);
        let weight = self.exponent().exp2();
        for ((a, b), events) in self.pending.drain() {
            let at = a as usize * self.room + b as usize;
            let weighted = events * weight;
            self.sums[self.half][at] += weighted as f32;
            self.squares[self.half][at] += (weighted * weighted) as f32;
        }
        self.half = 1 - self.half;
    }

    /// What events of now count, as an exponent of 2.
    fn exponent(&self) -> f64 {
        match self.half_life_ns > 0.0 {
            true => self.now_ns.saturating_sub(self.since_ns) as f64 / self.half_life_ns,
            false => 0.0,
        }
    }

    /// Takes over the events of another matrix, as they count at this moment; its own are
    /// forgotten.
    pub fn begin_with(&mut self, other: &Self, now_ns: u64) {
        let scale = (-other.exponent()).exp2() as f32;
        let scaled = |cells: &Vec<f32>, by: f32| cells.iter().map(|cell| cell * by).collect();
        self.room = other.room;
        self.sums = [0, 1].map(|half| scaled(&other.sums[half], scale));
        self.squares = [0, 1].map(|half| scaled(&other.squares[half], scale * scale));
        (self.since_ns, self.now_ns) = (now_ns, now_ns);
    }

    fn grow(&mut self, slots: usize) {
        if slots <= self.room {
            return;
        }
        let (old, room) = (self.room, slots.next_power_of_two());
        for cells in self.sums.iter_mut().chain(&mut self.squares) {
            let mut new = vec![0.0; room * room];
            for row in 0..old {
                let from = &cells[row * old..(row + 1) * old];
                new[row * room..row * room + old].copy_from_slice(from);
            }
            *cells = new;
        }
        self.room = room;
    }

    /// Forgets the events of a slot.
    pub fn clear(&mut self, slot: usize) {
        self.pending.retain(|pair, _| pair.0 as usize != slot && pair.1 as usize != slot);
        if slot >= self.room {
            return;
        }
        for cells in self.sums.iter_mut().chain(&mut self.squares) {
            for other in 0..self.room {
                cells[slot * self.room + other] = 0.0;
                cells[other * self.room + slot] = 0.0;
            }
        }
    }

    /// Events between the slots of a list, symmetric and row-major: of one half, or of both.
    pub fn dense(&self, slots: &[usize], half: Option<usize>) -> Vec<f64> {
        let scale = (-self.exponent()).exp2();
        self.take(slots, |at| match half {
            Some(half) => f64::from(self.sums[half][at]) * scale,
            None => (f64::from(self.sums[0][at]) + f64::from(self.sums[1][at])) * scale,
        })
    }

    /// The squares of one half, likewise.
    pub fn squares(&self, slots: &[usize], half: usize) -> Vec<f64> {
        let scale = (-2.0 * self.exponent()).exp2();
        self.take(slots, |at| f64::from(self.squares[half][at]) * scale)
    }

    fn take(&self, slots: &[usize], cell: impl Fn(usize) -> f64) -> Vec<f64> {
        let count = slots.len();
        let mut dense = vec![0.0; count * count];
        for (i, &a) in slots.iter().enumerate() {
            for (j, &b) in slots.iter().enumerate().skip(i + 1) {
                if a.max(b) < self.room && a != b {
                    let value = cell(a.min(b) * self.room + a.max(b));
                    dense[i * count + j] = value;
                    dense[j * count + i] = value;
                }
            }
        }
        dense
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn events_count_half_after_a_half_life() {
        let mut matrix = Matrix::new(1000);
        matrix.add(0, 1, 100.0);
        matrix.turn(0);
        matrix.turn(SECOND);
        assert_eq!(matrix.dense(&[0, 1], None), [0.0, 50.0, 50.0, 0.0]);
        matrix.add(1, 0, 7.0);
        matrix.turn(2 * SECOND);
        assert!((matrix.dense(&[1, 0], None)[1] - 32.0).abs() < 1e-3);
        // The scale has begun anew meanwhile.
        matrix.turn(100 * SECOND);
        assert!(matrix.dense(&[0, 1], None)[1] < 1e-6);
        matrix.add(0, 1, 3.0);
        matrix.turn(100 * SECOND);
        assert!((matrix.dense(&[0, 1], None)[1] - 3.0).abs() < 1e-3);
    }

    #[test]
    fn another_matrix_can_be_taken_over() {
        let (mut long, mut recent) = (Matrix::new(1000), Matrix::new(250));
        for matrix in [&mut long, &mut recent] {
            matrix.add(0, 1, 64.0);
            matrix.turn(0);
            matrix.turn(SECOND);
        }
        long.begin_with(&recent, SECOND);
        assert_eq!(long.dense(&[0, 1], None)[1], 4.0);
        long.turn(2 * SECOND);
        assert_eq!(long.dense(&[0, 1], None)[1], 2.0);
    }

    #[test]
    fn observations_go_to_halves_in_turns() {
        let mut matrix = Matrix::new(0);
        for events in [1.0, 10.0, 2.0, 20.0] {
            matrix.add(3, 5, events);
            matrix.turn(0);
        }
        assert_eq!(matrix.dense(&[3, 5], Some(0))[1], 3.0);
        assert_eq!(matrix.dense(&[3, 5], Some(1))[1], 30.0);
        assert_eq!(matrix.squares(&[3, 5], 0)[1], 5.0);
        assert_eq!(matrix.squares(&[3, 5], 1)[1], 500.0);
    }

    #[test]
    fn a_slot_can_be_used_again_and_the_matrix_grows() {
        let mut matrix = Matrix::new(0);
        matrix.add(0, 1, 4.0);
        matrix.turn(0);
        matrix.add(0, 900, 5.0);
        matrix.turn(0);
        assert_eq!(matrix.dense(&[0, 1, 900], None)[1..3], [4.0, 5.0]);
        matrix.clear(1);
        assert_eq!(matrix.dense(&[0, 1, 900], None)[1..3], [0.0, 5.0]);
        assert_eq!(matrix.dense(&[0, 2000], None), [0.0; 4]);
    }
}
