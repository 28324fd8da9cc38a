//! What is estimated of native time.

use super::*;

const MS: u64 = 1_000_000;

fn sample(slice: u32, thread: u32, instructions: u64) -> Sample {
    Sample { slice, thread, executed: [instructions, instructions / 2, instructions / 4, 0] }
}

/// A slice before the window of the first period.
fn at(slice: u32, code: Code) -> Place {
    Place { slice, code, period: 0, counts: false }
}

fn did(cpu_ns: u64, calls: u64) -> (Did, u64) {
    (Did { cpu_ns, calls, ..Did::default() }, 0)
}

/// Two threads in 10 ms of light time, of which one did three times as much as the other, with so
/// many calls.
fn after_light(calls: u64) -> (NativeTime, Vec<Sample>) {
    let mut time = NativeTime::default();
    let mut samples = vec![sample(3, 0, 1000), sample(3, 2, 3000)];
    time.add(at(3, Code::Light), did(10 * MS, calls), &mut samples);
    (time, samples)
}

#[test]
fn native_time_counts_at_the_rate_of_the_light_time_before() {
    let (mut time, mut samples) = after_light(0);
    time.add(at(4, Code::Native), did(50 * MS, 0), &mut samples);
    assert_eq!(samples[2..], [sample(4, 0, 5000), sample(4, 2, 15_000)]);
    time.add(at(5, Code::Native), did(10 * MS, 0), &mut samples);
    let estimated = time.into_estimated();
    assert_eq!(estimated[&2], [18_000, 9000, 4500, 0]);
    assert_eq!(estimated.len(), 2);
}

/// The window after it stands for the native time, and has come where the light time was.
#[test]
fn the_light_time_after_native_time_tells_better() {
    let (mut time, mut samples) = after_light(0);
    samples.push(sample(4, 1, 400));
    time.add(at(4, Code::Native), did(50 * MS, 0), &mut samples);
    samples.push(sample(5, 0, 500));
    time.add(at(5, Code::Light), did(10 * MS, 0), &mut samples);
    time.add(at(6, Code::Checked), did(10 * MS, 0), &mut samples);
    // 2500 in 50 ms, of which 400 were counted.
    let first = samples.iter().position(|sample| sample.slice == 4).unwrap();
    let told: Vec<_> =
        samples[first..].iter().map(|s| (s.slice, s.thread, s.executed[0])).collect();
    assert_eq!(told, [(4, 0, 2100), (4, 1, 400), (4, 2, 0), (5, 0, 500)]);
    assert_eq!(time.into_estimated()[&0][0], 2100);
}

/// Between them, tracked lines were observed.
#[test]
fn so_does_that_behind_the_window_of_the_period() {
    let (mut time, mut samples) = after_light(0);
    let place = |slice, code, period| Place { period, ..at(slice, code) };
    let native = |slice, period| (place(slice, Code::Native, period), did(50 * MS, 0));
    let add = |time: &mut NativeTime, (place, did), samples: &mut Vec<Sample>| {
        time.add(place, did, samples);
    };
    add(&mut time, native(4, 0), &mut samples);
    add(&mut time, native(5, 1), &mut samples);
    let window = Place { counts: true, ..place(6, Code::Checked, 1) };
    add(&mut time, (window, did(10 * MS, 0)), &mut samples);
    samples.push(sample(7, 0, 400));
    add(&mut time, (place(7, Code::Light, 1), did(10 * MS, 0)), &mut samples);
    add(&mut time, native(8, 1), &mut samples);
    samples.push(sample(9, 0, 4000));
    add(&mut time, (place(9, Code::Light, 1), did(10 * MS, 0)), &mut samples);
    add(&mut time, native(10, 2), &mut samples);
    let of =
        |slice| -> u64 { samples.iter().filter(|s| s.slice == slice).map(|s| s.executed[0]).sum() };
    assert_eq!([4, 5, 8, 10].map(of), [20_000, 2000, 2000, 20_000]);
}

#[test]
fn light_time_in_pieces_tells_the_rate_by_all_that_have_settled() {
    let mut time = NativeTime::default();
    let mut samples = Vec::new();
    for (slice, ms, instructions) in [(1, 10, 100), (2, 10, 1000), (3, 5, 900), (4, 1, 0)] {
        samples.push(sample(slice, 0, instructions));
        time.add(at(slice, Code::Light), did(ms * MS, 0), &mut samples);
    }
    time.add(at(5, Code::Native), did(16 * MS, 0), &mut samples);
    assert_eq!(samples[4..], [sample(5, 0, 1900)]);
    time.add(at(6, Code::Checked), did(MS, 0), &mut samples);
    samples.push(sample(7, 0, 7));
    time.add(at(7, Code::Light), did(MS / 2, 0), &mut samples);
    time.add(at(8, Code::Native), did(16 * MS, 0), &mut samples);
    assert_eq!(samples.last(), Some(&sample(8, 0, 1900)), "too short to tell");
}

#[test]
fn what_was_counted_meanwhile_is_not_counted_again() {
    let (mut time, mut samples) = after_light(0);
    samples.extend([sample(4, 1, 400), sample(4, 2, 3600)]);
    time.add(at(4, Code::Native), did(50 * MS, 0), &mut samples);
    let sum: u64 = samples[2..].iter().map(|sample| sample.executed[0]).sum();
    assert_eq!(sum, 20_000);
    let threads: Vec<u32> = samples[2..].iter().map(|sample| sample.thread).collect();
    assert_eq!(threads, [0, 1, 2]);
}

#[test]
fn threads_that_stay_in_light_code_add_nothing() {
    let (mut time, mut samples) = after_light(0);
    samples.push(sample(4, 2, 20_000));
    time.add(at(4, Code::Native), did(50 * MS, 0), &mut samples);
    let sum: u64 = samples[2..].iter().map(|sample| sample.executed[0]).sum();
    assert_eq!(sum, 20_000);
}

#[test]
fn system_calls_tell_how_much_faster_than_light_code_the_program_is() {
    let (mut time, mut samples) = after_light(1000);
    time.add(at(4, Code::Native), did(50 * MS, 7500), &mut samples);
    assert_eq!(samples[2], sample(4, 0, 7500));
    let (mut few, mut samples) = after_light(10);
    few.add(at(4, Code::Native), did(50 * MS, 75), &mut samples);
    assert_eq!(samples[2], sample(4, 0, 5000));
}

#[test]
fn without_calls_the_steps_of_light_code_tell_that() {
    let (mut time, mut samples) = (NativeTime::default(), vec![sample(3, 0, 1000)]);
    let light = (did(10 * MS, 0).0, 5 * MS);
    time.add(at(3, Code::Light), light, &mut samples);
    time.add(at(4, Code::Native), did(50 * MS, 0), &mut samples);
    assert_eq!(samples[1], sample(4, 0, 10_000));
}

#[test]
fn without_light_time_nothing_is_told() {
    let (mut time, mut samples) = (NativeTime::default(), Vec::new());
    time.add(at(4, Code::Native), did(50 * MS, 0), &mut samples);
    assert!(samples.is_empty());
}
