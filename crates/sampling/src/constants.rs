//! Every number that estimates from samples rest on, by the file that uses it, and why it was
//! chosen. `make bench-sampling` shows what they reach together. Capacities, which bound memory
//! alone, stand where they are used.

// `around.rs`, `fits.rs`

/// Blocks of a region, 16 MiB: as far as writes are looked for around a block ([`REACH`]).
pub(crate) const REGION: u64 = REACH;

/// Writes that must not be missing among a block's samples: by chance, this many are in one of 20
/// cases (exp(−3)).
pub(crate) const UNSEEN: f64 = 3.0;

/// Sampling intervals after which a write around a block is no evidence any more: four times
/// [`FORGOTTEN_AFTER`], since the writer must still go on writing there.
pub(crate) const OLD_AFTER: u64 = 4 * FORGOTTEN_AFTER;

// `block.rs`

/// A thread's samples in company over which it is asked what part of them is at the block; what
/// was longer ago counts exponentially less. A part of a half is known to an eighth then.
pub(crate) const IN_COMPANY: f64 = 64.0;

/// So many samples are taken to be there at least: one of them all would be all of a thread's time.
/// Of eight, a part of a half is known to a third.
pub(crate) const MIN_IN_COMPANY: f64 = 8.0;

/// Each write brings what is usual between two nearer to their median by this factor: one that is
/// ten times off is right after six.
pub(crate) const MEDIAN_STEP: f64 = 1.5;

// `evidence.rs`

/// A thread's own samples for which its write is new, whatever is usual; or sampling intervals.
/// A block at which a thread spends a seventh of its time goes unsampled for so long in one of 20
/// cases.
pub(crate) const NEW_WITHIN: u64 = 20;

/// A write is old after this many times as many samples as usually lie between a thread's writes:
/// of what it does at random times, one part in 256 comes later than this many medians (2⁻⁸).
pub(crate) const TIMES_USUAL: f64 = 8.0;

/// Sampling intervals after which a write is forgotten: one second at the usual rate.
pub(crate) const FORGOTTEN_AFTER: u64 = 1000;

/// Sampling intervals within which a thread that runs is sampled for certain: one, and another for
/// what the timer is late.
pub(crate) const CERTAIN_WITHIN: u64 = 2;

// `fits.rs`

/// Gaps with accesses from which on anything is said: fewer may lie close to a write by chance.
pub(crate) const MIN_GAPS: u32 = 8;

/// Accesses that are expected within the smallest distance that is looked at: the quotient with
/// what is found is known to a third then.
pub(crate) const MIN_EXPECTED: f64 = 8.0;

/// Blocks, 16 KiB: the smallest distance that can be told must not be larger. Others tell by pages
/// of 4 KiB, but never by smaller pieces (CDSM, kMAF).
pub(crate) const RESOLUTION: f64 = 256.0;

/// A smaller part than this is none: what lies at the borders of pieces comes close, too. A third
/// is what [`MIN_EXPECTED`] leaves to chance.
pub(crate) const MIN_PART: f64 = 0.4;

// `history.rs`

/// Of a thread's samples, so many of the latest say what is usual between two; the median of 64 is
/// known to a sixth.
pub(crate) const USUAL_OF: usize = 64;

/// After so many more they are looked at anew: a quarter of them has changed.
pub(crate) const AGAIN: u32 = 16;

/// In a gap of more than this many usual ones the thread did not run, but for [`HALF_GAP`] at each
/// end: nearer to two, in which a sample is missing, than to one.
pub(crate) const USUAL_GAPS: f64 = 1.6;

/// What samples miss of a turn on average, at each end, in usual gaps.
pub(crate) const HALF_GAP: f64 = 0.5;

// `near.rs`

/// Blocks below and above in which writes are near: 16 MiB, the part of a large array that a
/// thread may have for itself.
pub(crate) const REACH: u64 = 1 << 18;

/// Most of a thread's writes on each side that say how far apart they are: with those of both
/// sides, the mean gap is known to a third.
pub(crate) const MOST_NEAR: usize = 5;

/// Least of them; with fewer, nothing is said.
pub(crate) const LEAST_NEAR: usize = 4;

/// A gap lies between the blocks that a thread writes, not beyond their end, if it is at most this
/// many mean gaps long: of random gaps 2 % are longer (exp(−4)).
pub(crate) const MEAN_GAPS: f64 = 4.0;

// `together.rs`

/// Waiting alone takes this many times what a line takes from one waiting thread to the next. The
/// latter is what is measured, by two threads that pass a line to and fro: of two that wait by
/// turns, one's request is under way before the other one has the line, as soon as the latter's has
/// taken it away, half-way. (Timed on Sapphire Rapids: exchanges of a line that no other thread
/// waits for take 80 to 90 ns, while it goes to and fro at 62 to 67.)
pub(crate) const LONE: f64 = 4.0 / 3.0;
