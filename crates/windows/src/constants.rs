//! Every number that was chosen, and why. Names in parentheses are tests in `tests/` that show it.

pub(crate) const MILLISECOND: u64 = 1_000_000;

/// Least number of usable windows. With 20, the variance between them is known to a third
/// (Student's quantile for its 12.7 degrees of freedom is 2.17 instead of 1.96); intervals hold
/// there (`intervals.rs`), and with fewer the quantile rises steeply.
pub const MIN_WINDOWS: usize = 20;

/// Of a stratum, at least this part of what is usually seen of as much work must be seen. A factor
/// is then at most four times the mean one, so no single window weighs more than four
/// (`sleeping.rs`).
pub const MIN_WORK_SHARE: f64 = 0.25;

/// Shortest warm-up that is judged. Switching takes up to some milliseconds (0.2 µs for each page
/// of grants and thread), which must not be most of a window. A search that began at 2 ms took gaps
/// of ocean's sweeps for short ones, and its cells were 7 % off instead of 1 to 2.
pub const MIN_WARM_UP: u64 = 10 * MILLISECOND;

/// The warm-up to begin with, as long as there have not been enough windows for a longer one: two
/// processors spend a third of what a [`SHORT_RUN`] may lose in [`MIN_WINDOWS`] of these.
pub const FIRST_WARM_UP: u64 = 2 * MILLISECOND;

/// Part of the work of a run that is told by windows with shorter warm-ups than others, rather than
/// by windows before or after it: the first of two equal phases, which had short ones only, was
/// told to have 3 % of the events.
pub const MOST_WITHOUT: f64 = 0.3;

/// Windows with a shorter warm-up than others that count this part of the others' events for the
/// work are kept: what they miss matters less than what the others do not know of their time. With
/// phases of 1 s, the first was told to have 14 to 49 % of the events instead of the half.
pub const MISSES_LITTLE: f64 = 0.8;

/// Longest warm-up: what a person who waits for a page calls a pause. Longer gaps belong to
/// programs that wait; they are seen on tracked cache lines.
pub const MAX_WARM_UP: u64 = 1000 * MILLISECOND;

/// The counting part is as long as the warm-up. Of a given time in windows, a larger part counts
/// more events, a smaller one makes room for a longer warm-up; the half wins in `lengths.rs`
/// between volume lost and spread.
pub const COUNTING_PER_WARM_UP: u64 = 1;

/// The part of what the budget gives that may be spent on tracked cache lines between windows: the
/// other is for windows.
pub const FOR_TRACKING: f64 = 0.5;

/// The same where gaps are long: what is left gives windows of a few percent of the time to
/// programs that windows slow ten times, which is enough for cells that are within 15 %.
pub const FOR_LONG_GAPS: f64 = 0.8;

/// The part of what the budget gives that may be spent on looking at what is allocated between
/// windows: names of blocks must not take most of what amounts need. At a budget of 2x, it pays for
/// some five million looks a second and processor, at 50 ns each; an allocation takes two or three.
pub const FOR_HOOKS: f64 = 0.25;
/// Budgets up to this one need native time: between windows, code without checks takes up to twice
/// as long for interpreters.
pub const MAX_WITHOUT_LIGHT: f64 = 1.2;
/// So do larger ones of which such code would take more than this part.
pub const FOR_LIGHT: f64 = 0.5;
/// So do programs that run new code all the time: translating takes more than this part of the time
/// of code without checks, and that is slower than its steps tell. Kernels, compressors and sort
/// take up to 0.05, a C++ compiler, which took seven to ten times as long at 2x before, 0.1 and
/// more.
pub const MAX_TRANSLATING: f64 = 0.08;

/// The warm-up spans at least this number of rotations of the run queue: a thread that writes just
/// before it is preempted is read by one that runs a rotation later at most, and that one may
/// itself wait for another.
pub const MIN_ROTATIONS: u64 = 2;

/// Windows at one length before it is judged: the spread between 10 is known to 25 %.
pub const WINDOWS_TO_JUDGE: usize = 10;

/// More events by this part with a longer warm-up, or later in the counting part, are worth
/// lengthening it: a third of the 15 % that cells may be wrong by.
pub const WORTH_LENGTHENING: f64 = 0.05;

/// Two lengths can be compared if the standard error of their ratio is at most this. With more,
/// gaps of 80 ms were taken for short ones (`lengths.rs`); a longer warm-up is then the safer
/// error.
pub const MAX_DOUBT: f64 = 0.2;

/// First reads and writes of cache lines whose last writer is not known, per transfer, that may be
/// ignored: even if all of them were missed transfers, volume would be right within the 20 % that
/// it may be wrong by.
pub const MISSED_IGNORED: f64 = 0.2;

/// Times as long as alone that a run usually may take at its beginning and afterwards: at the
/// first, a second has the windows that amounts need, with the other it has 4 to 7 (zstd), and a
/// run of six to seven seconds tells its volume within 8 % with both (stencil, sort).
pub const USUALLY_AT_FIRST: f64 = 2.0;
/// See [`USUALLY_AT_FIRST`].
pub const USUALLY: f64 = 1.2;

/// The length of that beginning: wall-clock time that the program takes alone. Tests and small
/// inputs end within it. Ten seconds become 13.6; twice this length would make them 15.2.
pub const BEGINNING: u64 = 2000 * MILLISECOND;

/// Shortest part of the time that is worth windows at all, and so the longest period: at 1 %, 20 s
/// have ten windows of the shortest length.
pub const MIN_DUTY: f64 = 0.01;

/// The longest period as a part of the run so far, whatever has been lost before: the next phase of
/// a program may be as long as those before it, and is to have windows. Three loops over a line
/// each, one after the other, were 1.9 times as slow at first as a budget of 2 and 1.2 gives; the
/// other two then had no window in two seconds.
pub const LONGEST_PERIOD: f64 = 1.0 / 6.0;
/// But no more than this part of the time must be in windows for that.
pub const MOST_OWED: f64 = 0.05;
/// Or, with larger budgets, this part of what they give: of two phases that take 0.25 s each alone,
/// the second one had no window on a budget of 3.
pub const FOR_OWED: f64 = 0.1;

/// The short run that recording whole at the start is to serve: processor time without recording.
/// Small enough that a program of half of it, recorded at any cost, stays within 2.5 times its
/// time.
pub const SHORT_RUN: u64 = 600 * MILLISECOND;

/// The part of what a short run may lose that is for recording it whole, if that costs no more than
/// [`USUAL_COST`]; where it costs more, less of the run would be seen, and more is kept for
/// windows. The less, the less is known for certain of runs below a fifth of a second; with more,
/// those of half a second to two do not get enough windows.
pub const FOR_WHOLE: f64 = 0.5;

/// The start of a run is recorded whole for at most so long, by wall-clock and processor time, as
/// nothing tells what that costs until code has run without checks. With three seconds, a kernel of
/// one second that takes ten times as long took four on a budget of 3.
pub const LONGEST_START: u64 = 500 * MILLISECOND;

/// Times longer that exact recording usually takes at most.
pub const USUAL_COST: f64 = 4.0;

/// Windows that a short run is to get: [`MIN_WINDOWS`] and some more, because some are joined with
/// others.
pub const WANTED_WINDOWS: usize = MIN_WINDOWS + MIN_WINDOWS / 2;

/// What a short run may lose besides, until it has [`WANTED_WINDOWS`], as a part of
/// [`SHORT_RUN`]. Later windows pay it back.
pub const OVERDRAFT: f64 = 0.15;

/// While savings last, there are at most this many times the windows that the budget would pay for
/// if nothing else cost anything. Without a limit, they followed each other at once: of a search
/// through a graph, 37 of 68 windows lay in 1.4 % of its work.
pub const SPENDING: f64 = 2.0;

/// Time after which recording whole is asked about again.
pub const WHOLE_STEP: u64 = 5 * MILLISECOND;

/// Work, by processor time, before its cost is believed: shorter stretches measure caches that warm
/// up.
pub const MIN_MEASURED: u64 = 20 * MILLISECOND;

/// Nanoseconds that counting an event takes at the least: half of what it takes on processors of
/// the last years.
pub const MIN_EVENT_TIME: f64 = 40.0;

/// Times longer that translated code takes without its checks, in the median.
pub const TRANSLATION: f64 = 1.05;

/// Light time that tells what the program takes alone: one thread that runs is enough to measure it
/// ([`MIN_MEASURED`]). It also has room for three moments of solo time.
pub const LOOK: u64 = 33 * MILLISECOND;

/// With a budget, light time among windows is this part of the run so far, and so long at most:
/// what a unit of work takes still falls then. With [`LOOK`] alone, `is` seemed to take 1.5 times
/// as long alone as it does, and 2.8 times as long recorded on a budget of 2.
pub const FOR_LOOK: f64 = 0.1;
/// See [`FOR_LOOK`].
pub const LONGEST_LOOK: u64 = 150 * MILLISECOND;

/// How long after light time of [`LOOK`] in which the program hardly did anything there is more,
/// and with a duty after any: 3 % of the time at most.
pub const LOOK_REST: u64 = 1000 * MILLISECOND;

/// Processor time in windows after which the time between them tells too little, if there was less
/// than [`MIN_MEASURED`] of that meanwhile.
pub const STALE: u64 = 1000 * MILLISECOND;

/// How long a program without a second thread goes on until it is looked at again.
pub const ALONE_STEP: u64 = 500 * MILLISECOND;

/// Steps of a time in which everything is recorded again: a working set that fits no cache is first
/// accessed in the first one, which is not judged. Nor is as much of the start of a run: with it,
/// half a second of xz takes 2.5 times as long, without it 1.6 times.
pub const AGAIN_STEP: u64 = 100 * MILLISECOND;

/// While everything is recorded, what was spent this long ago weighs half as much as what was spent
/// now.
pub const LATELY: u64 = 200 * MILLISECOND;

/// By this factor, more or less, checks for a unit of work must change until the program is taken
/// to do something else.
pub const CHANGED: f64 = 1.3;

/// Recording whole goes on until it costs the budget times this. The processor's speed varies by a
/// tenth, so a program may cost that much more for a moment.
pub const TOO_DEAR: f64 = 1.1;

/// Before the first window, and in the first steps of recording whole, what that costs is known to
/// this factor, as light time and what is recorded do different work: 1.6 to 3.0 for xz, of which
/// all takes 1.5 times as long.
pub const FIRST_DOUBT: f64 = 1.5;
/// See [`FIRST_DOUBT`].
pub const SURE_STEPS: u32 = 5;

/// When recording whole is tried first, although windows have cost more than the budget gives: the
/// two to five steps of it are then at most a sixth of the run so far.
pub const FIRST_TRIAL: u64 = 3000 * MILLISECOND;

/// How long after a failure it is not tried again, and how many times longer after each further
/// one: all trials together become a smaller and smaller part of the run.
pub const TRIAL_REST: u64 = 4000 * MILLISECOND;
/// See [`TRIAL_REST`].
pub const TRIAL_BACKOFF: u64 = 4;

/// After how long light time comes first with a duty, and after how long it comes again while
/// everything is recorded, at first and at most; each time that takes twice as long. A virtual
/// machine that starts is seen through in time, and later light time is a thousandth of the run.
pub const FIRST_LOOK: u64 = 400 * MILLISECOND;
/// See [`FIRST_LOOK`].
pub const LONGEST_UNSEEN: u64 = 30_000 * MILLISECOND;

/// Windows that cost this many times the budget leave no hope that whole would fit: of the
/// benchmark's kernels, windows cost at most some ten times as much as whole (stencil).
pub const DEAREST_TRIED: f64 = 10.0;

/// Least budget on which a run is recorded whole: exact recording costs this much for the cheapest
/// programs, and smaller budgets have native time, of which nothing tells how fast it is.
pub const LEAST_FOR_WHOLE: f64 = 1.25;

/// Solo time: processor time of a look ns, and of all threads before it, below which it tells
/// nothing.
pub const LEAST_ALONE: u64 = MILLISECOND;
/// See [`LEAST_ALONE`].
pub const LEAST_TOGETHER: u64 = 4 * MILLISECOND;

/// A thread whose instructions take this many times longer alone than before spins: the pause in a
/// spinning loop takes ten times as long as other instructions.
pub const SPINS: f64 = 1.5;

/// Looks of which such threads may be, as a part of all: beyond that, others may be spoilt in part.
pub const MAX_SPINNING: f64 = 0.25;

/// Fewest looks that tell something, and most that are kept.
pub const MIN_LOOKS: usize = 6;
/// See [`MIN_LOOKS`].
pub const MAX_LOOKS: usize = 10_000;

/// With a budget, after how long light time for solo time comes first, and again at the most; each
/// time that takes twice as long. Words that grow tell after the first time, and the second one,
/// natively, gives six looks.
pub const FIRST_SOLO: u64 = 50 * MILLISECOND;
/// See [`FIRST_SOLO`].
pub const SOLO_REST: u64 = 8_000 * MILLISECOND;

/// Processors that must be busy for threads to slow each other.
pub const MIN_AT_ONCE: f64 = 1.2;

/// System calls, made or expected, from which on they tell how slow light code is: one in twenty is
/// chance.
pub const MIN_CALLS: u64 = 400;
/// The same in native time, to tell what to expect in the light time before.
pub const MIN_NATIVE_CALLS: u64 = 20;
/// Part of the processor time of native time in which threads must be away for it to tell: what is
/// left without the work that was counted is chance otherwise.
pub const MIN_AWAY: f64 = 0.2;
/// Light code is at most so slow: that of a server under Node.js took 8 times as long.
pub const MAX_SLOWER: f64 = 16.0;

/// Of words that may grow with the program's work ([`Growth`](crate::Growth)): in how many light
/// slices they are seen before they tell.
pub const MIN_SLICES: f64 = 3.0;
/// What an older light slice weighs, against the next one: programs do other work at other times.
pub const FADES: f64 = 0.9;
/// How far their growth for a unit of work may deviate (its standard deviation, as a part): which
/// of several threads does how much in a slice of 4 ms is chance.
pub const MAX_DEVIATION: f64 = 0.5;
/// How many times as much, or as little, they may grow in code with checks. That takes at least
/// twice as long, so a word that grows with time would grow so much more.
pub const MAX_OTHERWISE: f64 = 1.7;
/// Of how many of the most even words of a thread the middle one is believed.
pub const MOST_EVEN: usize = 3;
/// Part of the events of a word that are by its writer's writes.
pub const MOST_WRITES: f64 = 0.9;
/// Part of the work that threads do whose own words tell it, for them to stand for all.
pub const MIN_KNOWN: f64 = 0.3;
/// Light time that tells how slow it is, against native time, in processor time (ns), and the part
/// of all time that is used for that: the kernel tells a process's time to within a tick or two.
pub const MIN_COMPARED: u64 = 40 * MILLISECOND;
/// See [`MIN_COMPARED`].
pub const FOR_COMPARING: f64 = 0.02;

/// Processor time is never all for counting.
pub(crate) const MAX_COUNTING: f64 = 0.98;

/// Part of the time that checks that pass take at most. No program was found to take more than 2.7
/// times as long between windows; a kernel for which checks told 3.6 took 1.5.
pub(crate) const MAX_CHECKING: f64 = 0.6;

/// The same of looks at what is allocated, by what a program takes that does hardly anything else.
pub(crate) const MAX_HOOKS: f64 = 0.8;

/// The same of both and translating: a compiler that was recorded whole took ten times as long.
pub(crate) const MAX_BESIDES: f64 = 0.95;

/// Checks take at least this part of the time that their number tells, as processors execute them
/// beside other instructions: for the same kernel, 0.5 times its own time instead of 2.6 times.
pub(crate) const LEAST_OF_CHECKS: f64 = 0.2;

/// Times a budget from which on it is told that it was exceeded.
pub(crate) const TOLERANCE: f64 = 1.1;

/// Duties above this one leave no time for anything but windows.
pub(crate) const DUTY_WITH_LOOKS: f64 = 0.9;

/// Lines that can be tracked for this part of the time are tracked always.
pub(crate) const ALWAYS: f64 = 0.95;

/// What tracking may take, over what the program takes alone, while that is not known: of the
/// benchmark's programs, none took more than three times as long.
pub(crate) const DEAREST_TRACKING: f64 = 3.0;

/// Most of the time between windows in which lines are tracked on a budget that does not pay for
/// tracking as it is assumed to cost.
pub(crate) const MAX_TRACKING: f64 = 0.5;
