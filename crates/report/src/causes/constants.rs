//! Every number that findings, their costs and their gains rest on, by the file that uses it, and
//! why it was chosen. `make bench-findings` shows what they reach together; programs that are named
//! are its own (`tests/programs/findings/`). What only bounds the length of texts stands where it
//! is used.

use crate::causes::range::Range;

// `causes.rs`

/// Events of threads that ran one after the other for lack of processors that make a finding: a
/// line that they use all the time changes hands about once for each turn, of a few milliseconds.
/// Fewer may be a single hand-over from each of some threads.
pub(super) const MIN_EVENTS_APART: u64 = 8;

/// Share of all events below which a group is not listed.
pub(super) const LISTED: f64 = 0.01;

/// Really shared lines are contended when they are this few; more are data that is transferred.
pub(super) const FEW_LINES: usize = 4;

/// Shares of all events from which on false sharing is worth a change where the program's own time
/// is not known, and other findings, which take more than moving data.
pub(super) const FALSE_WORTH: f64 = 0.05;
/// See [`FALSE_WORTH`].
pub(super) const OTHER_WORTH: f64 = 0.25;

// `advice.rs`

/// Share of a lock's events next to other data from which on that is said.
pub(super) const NOTABLE_BESIDE: f64 = 0.05;

/// Share of the events of contended data from which on code that only reads it depends on it; a
/// count is looked at in the end.
pub(super) const LOOKED_AT: f64 = 0.2;

/// Share of false sharing of contended data from which on that is said.
pub(super) const NOTABLE_FALSE: f64 = 0.2;

/// The same where names tell what to move: where blocks happen to lie decides how much it is.
pub(super) const SOME_FALSE: f64 = 0.05;

// `advice/elements.rs`

/// Bytes of an array beyond which its elements are not to be padded: about what a core's own caches
/// hold. A program that updates a million ints at random took a quarter longer with each on a
/// line of its own, however many of its transfers are false sharing.
pub(super) const MAX_PADDED: u64 = 1 << 20;

// `group/elements.rs`

/// Probability that two events at one element are by the same thread from which on threads have
/// elements of their own. It is 0.5 for two threads that come to elements at random.
pub(super) const OWN_ELEMENTS: f64 = 0.75;

/// The same up to which each element is used by several threads: between two threads of which one
/// comes twice as often, and one that comes four times as often (0.56, 0.68).
pub(super) const SHARED_ELEMENTS: f64 = 0.6;

// `group/guarded.rs`

/// Share of the events of data that is by code which takes a lock from which on it guards the data:
/// threads that set it up take no lock, and code is not always told right.
pub(super) const GUARDED: f64 = 0.9;

// `cost.rs`

/// Share of the processor time below which a finding is hardly worth it: two runs of one program
/// usually differ by as much.
pub(super) const WORTH: f64 = 0.02;

/// Share of the processor time that a data structure must not possibly cost to be called not worth
/// a change: ten times [`WORTH`].
pub(crate) const MUCH: f64 = 0.2;

/// Fewer events than this cost no measurable time (50 µs at 100 ns each).
pub(super) const MIN_EVENTS: u64 = 500;

/// Hits below which samples give no finding: of 20 that all are false sharing, at least 83 % are in
/// truth, with 97.5 % confidence (Clopper and Pearson: 0.025^(1/20)); one alone could be anything.
pub(super) const MIN_HITS: u64 = 20;

/// Most of a program's time that mending one finding is said to save. "100 times as fast" is the
/// most that is told, as an estimate cannot support more.
pub(super) const MOST_SAVED: f64 = 0.99;

/// Width of the range of a share from which on the middle of it says nothing.
pub(super) const VAGUE: f64 = 0.5;

/// Times as fast from which on it is said.
pub(super) const NOTABLE_GAIN: f64 = 1.1;

/// From here on, how many times as fast is no longer a matter of numbers: at a tenth of the time
/// left, an error of 5 % of the time makes it 7 or 20.
pub(super) const MANY_TIMES: f64 = 10.0;

// `price.rs`

/// Nanoseconds that a line takes from another core: usual, least, most; where the machine was not
/// measured and its family's latencies are not known.
pub(super) const LATENCY: Range = Range { mid: 100.0, low: 40.0, high: 200.0 };

/// Published latencies are of idle cores. A line that another core is using takes longer, by this
/// factor: six programs of `tests/programs/findings/` took 45 to 116 ns more processor time for
/// each transfer than once they were mended, where 51 ns are published.
pub(super) const FOUGHT_FOR: f64 = 2.0;

/// Nanoseconds that an instruction takes without waiting for lines. Of ten programs with their
/// false sharing mended, the middle was 0.2.
pub(super) const INSTRUCTION: Range = Range { mid: 0.2, low: 0.1, high: 0.6 };

/// Instructions may take less than usual. Of the time that they leave if they take the least, at
/// least this part is taken to be waiting: the instructions of `regression` take 0.1 ns each, and
/// its transfers would be told to cost nothing.
pub(super) const LEAST_WAITING: f64 = 0.25;

/// The part of the kernel's time in an exact recording that the program takes alone: recording adds
/// page faults and mappings. A program that mostly waits took 0.04 s there alone and 0.08 s
/// recorded, one that starts 200 threads 0.9 s and 1.7 s.
pub(super) const KERNEL: Range = Range { mid: 0.5, low: 0.0, high: 1.0 };

/// What a thread can go on for while it waits for a line, as part of the latency: stores wait in
/// their buffer, and loads that do not depend on them go on.
pub(super) const HOLD: f64 = 0.5;

/// Above so many visits to a line for each transfer, threads may hardly wait for it, since stores
/// go to the store buffer: `partial_sums` makes 11, and takes as long once it is mended.
pub(super) const TIGHT: f64 = 5.0;

/// Natively there may be this many times as many transfers as were counted, since each takes less
/// time then, and the thread comes to the line again sooner: a Fortran loop that adds to elements
/// of a small array made seven times as many as windows told.
pub(super) const NATIVELY: f64 = 4.0;

/// Of what running at once takes in code that counts its instructions, at least this part is
/// natively lost, too: stores to counters come between stores to a line, so that these are no
/// longer combined. `packed_counters` told 0.7 of its time, and its fix gains 0.3 of it.
pub(super) const NOT_OF_COUNTERS: f64 = 0.4;

/// The same of what it takes natively: of four such loops, one was told to lose 0.25 of its time,
/// and its fix gained 0.14 of it.
pub(super) const LEAST_NATIVELY: f64 = 0.6;

/// Natively running at once may take more than solo time tells: where that is most of the time,
/// up to this part of the rest. Of false sharing that took 0.76 to 0.92 of the time of three
/// programs (five recordings), the ends of the intervals were 0.71 to 0.87 without this, all too
/// low.
pub(super) const MORE_NATIVELY: f64 = 0.9;

/// Light code may hide this part of the time, as its own stores come between those that threads
/// wait for: of three programs, it told 0.03 to 0.13, and their fixes gained 0.3 to 0.78.
pub(super) const HIDDEN: f64 = 0.8;

/// As many instructions take the time of an atomic one: 5 ns on processors of the last years.
pub(super) const ATOMIC: f64 = 25.0;

/// Instructions for each load or store, where they were not counted: compiled code has two to
/// three.
pub(super) const PER_ACCESS: f64 = 2.5;

// `passing.rs`

/// What a prefetched line costs, as part of the latency.
pub(super) const FOLLOWING: [f64; 3] = [0.05, 0.025, 0.1];

/// What another line costs. Usually no core fights for it; in the cheapest case several are under
/// way at once.
pub(super) const ANOTHER: [f64; 3] = [0.5, 0.25, 1.0];

/// Where it is not known which lines followed others. Four threads that added up 16 MB which one
/// had filled took a tenth of what the latency tells.
pub(super) const UNKNOWN_ORDER: [f64; 3] = [1.0, 0.1, 1.0];

// `expected.rs`

/// Returns of a thread to a line below which nothing is said of how often it comes: of 5, the
/// rate is known within a factor of 3 (95 %).
pub(super) const MIN_RETURNS: u64 = 5;

/// Share of a finding's events on lines of which returns are known from which on the others are
/// taken to be visited as often for each event. Of fewer, the sum would mostly be a guess.
pub(super) const MIN_PART_KNOWN: f64 = 0.5;

// `own.rs`

/// Lines on which two threads would be seen by chance, if each used any line, from which on their
/// not being seen together tells something: none happens with probability exp(-3) = 5 %.
pub(super) const BY_CHANCE: f64 = 3.0;

// `group.rs`

/// Share of a line's events from which on a place in the code counts for grouping: setting up and
/// printing, which come to all lines, must not join what has different causes.
pub(super) const MAIN_PLACE: f64 = 0.1;

/// Share of the events of an object's largest group below which another one joins it: it would be
/// the same change.
pub(super) const SMALL: f64 = 0.1;

/// Share of the events on a group's lines that the lines it is judged by carry.
pub(super) const HOT_LINES: f64 = 0.9;

/// Events on each line from which on it goes back and forth; data that is handed on once or in a
/// few rounds has fewer.
pub(super) const BACK_AND_FORTH: u64 = 100;

// `group/bytes.rs`

/// Share of really shared events of a line below which its threads use their own bytes at a time,
/// though all of them in the long run, as when elements are handed out anew.
pub(super) const MIN_TRUE: f64 = 0.01;

// `side.rs`

/// Share of the events of a place's busiest thread below which another one is not named there:
/// between windows, the place of a write is told wrong now and then (31 of 2.2 million events in
/// one run).
pub(super) const FEW_EVENTS: f64 = 0.01;

// `latent.rs`

/// The C library's blocks begin at multiples of this.
pub(super) const ALIGNED: u64 = 16;

/// How unlikely it must be that blocks begin on lines by chance for that to be on purpose: two of
/// the C library's blocks, of which each does in one of four cases.
pub(super) const ON_PURPOSE: u64 = 16;

/// Bytes that many processors fetch together.
pub(super) const PAIR_OF_LINES: u64 = 128;

/// How often a thread must have come to a line to count there: not only to set it up.
pub(super) const MIN_VISITS: u64 = 50;
