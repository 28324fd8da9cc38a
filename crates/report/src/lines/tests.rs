use super::*;
use crate::samples::{sample, shared};

fn found(most: usize) -> Lines {
    lines(&shared(), most).unwrap()
}

#[test]
fn a_profile_without_lines_has_none() {
    assert_eq!(lines(&sample(3, &[(0, 1, 5)]).profile(), 10), None);
}

#[test]
fn the_hottest_come_first_and_shares_are_of_everything() {
    let all = found(10);
    assert_eq!((all.all, all.events, all.elsewhere), (3, 5125, 20));
    let list: Vec<_> = all.list.iter().map(|line| (line.address.as_str(), line.events)).collect();
    assert_eq!(list, [("0x4040c0", 4400), ("0x404100", 700), ("0x7f0000001000", 5)]);
    assert_eq!(all.list[0].share, 4400.0 / 5125.0);
    assert_eq!(all.listed_share, (4400.0 + 700.0 + 5.0) / 5125.0);
    let one = found(1);
    assert_eq!(one.list, all.list[..1]);
    assert_eq!((one.all, one.listed_share), (3, 4400.0 / 5125.0));
    assert_eq!(
        all.list.iter().map(HotLine::name).collect::<Vec<_>>()[1..],
        ["queue+0x0..0x40 (app)", "heap"]
    );
}

#[test]
fn instructions_of_one_source_line_are_one_access() {
    let all = found(10);
    let line = &all.list[0];
    assert_eq!(line.raw, Split { truly: 0, falsely: 4000, unknown: 0 });
    assert_eq!(line.waw, Split { truly: 0, falsely: 400, unknown: 0 });
    let [access] = &line.accesses[..] else { panic!("{:?}", line.accesses) };
    assert_eq!(access.place.short(), "a.c:31 bump(long*)");
    assert_eq!(access.kind, AccessKind::Update);
    assert_eq!((access.takes, access.takes_false), (4400, 4400));
    assert_eq!((access.gives, access.gives_false), (4400, 4400));
    assert_eq!((&access.readers[..], &access.writers[..]), (&[1, 2, 3, 4][..], &[1, 2, 3, 4][..]));
    assert_eq!(access.bytes.ranges(), "0-31");
    let second = &line.threads[1];
    assert_eq!((second.thread, second.takes, second.gives), (2, 1100, 1100));
    assert_eq!((second.written.ranges(), second.read.ranges()), ("8-15".into(), "8-15".into()));
}

#[test]
fn givers_and_takers_are_told_apart() {
    let all = found(10);
    let [giver, taker] = &all.list[1].accesses[..] else { panic!() };
    assert_eq!(giver.place.short(), "libx.so.1+0x99");
    assert_eq!((giver.kind, giver.takes, giver.gives), (AccessKind::Write, 0, 700));
    assert_eq!((&giver.readers[..], &giver.writers[..]), (&[][..], &[0][..]));
    assert_eq!(giver.bytes.ranges(), "0-15");
    assert_eq!((taker.kind, taker.takes, taker.gives), (AccessKind::Read, 700, 0));
    assert_eq!(taker.bytes.ranges(), "0-3");
    let unknown = &all.list[2];
    assert_eq!(unknown.raw, Split { truly: 0, falsely: 0, unknown: 5 });
    assert_eq!(unknown.accesses[0].place.short(), "unknown code");
    assert_eq!(unknown.threads[1].read.mask(), "0x0000000000000001");
}
