//! Reports to the recorder: see the head of `wire::watch` for the queue.

use core::sync::atomic::Ordering::*;
use wire::watch::{RECORDS, Record, Segment};

/// What is reported; the fields are those of [`Record`].
#[derive(Clone, Copy)]
pub struct Report {
    pub time_ns: u64,
    pub from_ns: u64,
    pub line: u64,
    pub to_site: u64,
    pub from_site: u64,
    pub to_bytes: u64,
    pub from_bytes: u64,
    pub to: u32,
    pub from: u32,
    pub kind: u32,
    pub how: u32,
    pub registers: u32,
    pub length: u32,
    pub mode: u32,
    pub exact: bool,
}

/// Hands a report over, or counts it as lost where there is no room.
pub fn push(segment: &Segment, records: &[Record], period: u64, report: &Report) {
    let mut position = segment.tail.load(Relaxed);
    let record = loop {
        let (index, lap) = (position as usize % RECORDS, position / RECORDS as u64);
        let turn = records[index].turn.load(Acquire);
        if turn < 2 * lap {
            segment.lost.fetch_add(1, Relaxed);
            return;
        }
        if turn > 2 * lap {
            position = segment.tail.load(Relaxed);
            continue;
        }
        match segment.tail.compare_exchange_weak(position, position + 1, AcqRel, Relaxed) {
            Ok(_) => break &records[index],
            Err(now) => position = now,
        }
    };
    let lap = position / RECORDS as u64;
    for (field, value) in [
        (&record.time_ns, report.time_ns),
        (&record.from_ns, report.from_ns),
        (&record.line, report.line),
        (&record.to_site, report.to_site),
        (&record.from_site, report.from_site),
        (&record.to_bytes, report.to_bytes),
        (&record.from_bytes, report.from_bytes),
        (&record.period, period),
    ] {
        field.store(value, Relaxed);
    }
    for (field, value) in [
        (&record.to, report.to),
        (&record.from, report.from),
        (&record.kind, report.kind),
        (&record.how, report.how),
        (&record.registers, report.registers),
        (&record.length, report.length),
        (&record.mode, report.mode),
        (&record.exact, report.exact.into()),
    ] {
        field.store(value, Relaxed);
    }
    record.turn.store(2 * lap + 1, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> (Box<Segment>, Box<[Record]>) {
        // SAFETY: zeroes are valid atomics.
        unsafe { (Box::new_zeroed().assume_init(), Box::new_zeroed_slice(RECORDS).assume_init()) }
    }

    fn report(number: u64) -> Report {
        Report {
            time_ns: number,
            from_ns: 1,
            line: 2,
            to_site: 3,
            from_site: 4,
            to_bytes: 5,
            from_bytes: 6,
            to: 7,
            from: 8,
            kind: 9,
            how: 10,
            registers: 11,
            length: 12,
            mode: 13,
            exact: true,
        }
    }

    #[test]
    fn each_field_of_a_report_has_its_own_in_the_record() {
        let (segment, records) = queue();
        push(&segment, &records, 14, &report(15));
        let r = &records[0];
        let long = [&r.time_ns, &r.from_ns, &r.line, &r.to_site, &r.from_site, &r.to_bytes];
        assert_eq!(long.map(|field| field.load(Relaxed)), [15, 1, 2, 3, 4, 5]);
        assert_eq!([&r.from_bytes, &r.period, &r.turn].map(|f| f.load(Relaxed)), [6, 14, 1]);
        let short = [&r.to, &r.from, &r.kind, &r.how, &r.registers, &r.length, &r.mode, &r.exact];
        assert_eq!(short.map(|field| field.load(Relaxed)), [7, 8, 9, 10, 11, 12, 13, 1]);
    }

    #[test]
    fn a_full_queue_loses_what_comes_until_the_reader_frees_a_record() {
        let (segment, records) = queue();
        (0..RECORDS as u64).for_each(|number| push(&segment, &records, 1, &report(number)));
        assert_eq!(segment.lost.load(Relaxed), 0);
        assert!(records.iter().all(|record| record.turn.load(Relaxed) == 1));
        push(&segment, &records, 1, &report(77_777));
        assert_eq!(segment.lost.load(Relaxed), 1);
        assert_eq!(segment.tail.load(Relaxed), RECORDS as u64);
        assert_eq!(records[0].time_ns.load(Relaxed), 0);
        // The reader frees the first one for the next lap.
        records[0].turn.store(2, Relaxed);
        push(&segment, &records, 1, &report(88_888));
        assert_eq!((records[0].turn.load(Relaxed), records[0].time_ns.load(Relaxed)), (3, 88_888));
        push(&segment, &records, 1, &report(99_999));
        assert_eq!(segment.lost.load(Relaxed), 2);
    }

    #[test]
    fn what_several_threads_push_is_read_once_each_or_counted_as_lost() {
        const EACH: u64 = 20_000;
        let (segment, records) = queue();
        let (mut seen, mut position) = (vec![0_u8; 3 * EACH as usize], 0_usize);
        let mut read = || {
            let (record, lap) = (&records[position % RECORDS], (position / RECORDS) as u64);
            let filled = record.turn.load(Acquire) == 2 * lap + 1;
            if filled {
                seen[record.time_ns.load(Relaxed) as usize] += 1;
                record.turn.store(2 * (lap + 1), Release);
                position += 1;
            }
            filled
        };
        std::thread::scope(|scope| {
            let write = |k: u64| {
                (0..EACH).for_each(|n| push(&segment, &records, 1, &report(k * EACH + n)));
            };
            let writers = [0, 1, 2].map(|k| scope.spawn(move || write(k)));
            while writers.iter().any(|writer| !writer.is_finished()) {
                read();
            }
            while read() {}
        });
        assert!(seen.iter().all(|count| *count <= 1));
        let lost = segment.lost.load(Relaxed);
        assert_eq!(seen.iter().map(|count| u64::from(*count)).sum::<u64>() + lost, 3 * EACH);
    }
}
