//! Records by the kernel's ABI: recorded ones, constructed ones, damaged ones.

use super::*;
use crate::event::{Event, Supplies};
use crate::sample::From;
use access::AccessKind;
use std::path::Path;

/// What a ring held while a shell ran that started another program: `cpu-clock` every 2 ms, Linux
/// 6.18 on AMD Zen 5. Each record with its header, as the kernel wrote it.
#[cfg(target_arch = "x86_64")]
const RECORDED: &[u8] = include_bytes!("../fixtures/cpu_clock.bin");

/// Headers and bodies of records that follow each other.
fn split(mut bytes: &[u8]) -> Vec<(u32, u16, &[u8])> {
    let mut records = Vec::new();
    while let Some((header, _)) = bytes.split_first_chunk::<8>() {
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let misc = u16::from_ne_bytes([header[4], header[5]]);
        let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
        records.push((kind, misc, &bytes[8..size]));
        bytes = &bytes[size..];
    }
    records
}

fn layouts(events: &[Event]) -> Layouts {
    let events: Vec<_> = events.iter().map(|event| (event.clone(), Rate::Period(1))).collect();
    let mut layouts = Layouts::new(&events);
    (0..events.len()).for_each(|event| layouts.add(70 + event as u64, event));
    layouts
}

#[cfg(target_arch = "x86_64")]
#[test]
fn recorded_records_are_read() {
    let layouts = layouts(&[Event::cpu_clock()]);
    let (mut samples, mut named, mut paths) = (0, Vec::new(), Vec::new());
    let (mut forked, mut exited, mut last) = (0, 0, 0);
    for (kind, misc, body) in split(RECORDED) {
        let Some((time, record)) = layouts.parse(kind, misc, body).unwrap() else { continue };
        assert!(time >= last);
        last = time;
        match record {
            Record::Sample(sample) => {
                samples += 1;
                assert_eq!((sample.period, sample.event), (2_000_000, 0));
                assert_eq!(sample.registers.unwrap().ip(), sample.ip);
                assert!(sample.ip < 1 << 47 && sample.tid >= sample.pid && sample.cpu < 2);
            }
            Record::Named { name, exec: true, .. } => named.push(name),
            Record::Mapped { path, inode, bytes, .. } => {
                assert!(
                    bytes >= 4096 && (inode != 0) == path.as_bytes().starts_with(b"/"),
                    "{path:?}"
                );
                paths.push(path);
            }
            Record::Forked { pid, parent_pid, .. } => {
                assert_ne!(pid, parent_pid);
                forked += 1;
            }
            Record::Exited { .. } => exited += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(named, ["sh", "true"]);
    assert_eq!((samples, forked, exited), (8, 0, 1));
    assert!(
        paths.iter().any(|p| Path::new(p).ends_with("libc.so.6"))
            && paths.iter().any(|p| p == "[vdso]")
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn recorded_records_that_are_cut_off_or_changed_do_no_harm() {
    let layouts = layouts(&[Event::cpu_clock()]);
    for (kind, misc, body) in split(RECORDED).into_iter().take(40) {
        for end in 0..body.len() {
            let _ = layouts.parse(kind, misc, &body[..end]);
        }
        let mut changed = body.to_vec();
        for at in 0..body.len() {
            changed[at] ^= 0xff;
            let _ = layouts.parse(kind, misc, &changed);
            let _ = layouts.parse(kind ^ 9, misc, &changed);
        }
    }
}

/// Bytes of 64-bit words.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from_ne_bytes([low.to_ne_bytes(), high.to_ne_bytes()].concat().try_into().unwrap())
}

const USER: u16 = b::PERF_RECORD_MISC_USER as u16;
const KERNEL: u16 = b::PERF_RECORD_MISC_KERNEL as u16;

/// The registers' part of a sample: each register holds its kernel's number + 0x100.
fn registers_part() -> Vec<u64> {
    if REGISTERS == 0 {
        return Vec::new();
    }
    let values = (0..24).filter(|bit| REGISTERS >> bit & 1 != 0).map(|bit| 0x100 + bit);
    std::iter::once(u64::from(b::PERF_SAMPLE_REGS_ABI_64)).chain(values).collect()
}

fn sample(layouts: &Layouts, misc: u16, body: &[u8]) -> Option<Sample> {
    match layouts.parse(b::PERF_RECORD_SAMPLE, misc, body).unwrap() {
        Some((_, Record::Sample(sample))) => Some(sample),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sample_in_the_kernel_is_where_the_program_was() {
    let layouts = layouts(&[Event::cpu_clock()]);
    let mut all = vec![70, 0xffff_ffff_8100_0000, pair(11, 12), 5000, pair(3, 0), 1000];
    all.extend(registers_part());
    let read = sample(&layouts, KERNEL, &words(&all)).unwrap();
    assert_eq!((read.pid, read.tid, read.cpu, read.time_ns, read.period), (11, 12, 3, 5000, 1000));
    #[cfg(target_arch = "x86_64")]
    {
        assert_eq!(read.ip, 0x108);
        let registers = read.registers.unwrap().for_addresses();
        // rax rcx rdx rbx rsp rbp rsi rdi r8 … r15 in the kernel's numbers.
        let kernels = [0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23];
        assert_eq!(registers.general, kernels.map(|k| 0x100 + k));
        assert_eq!((registers.flags, registers.fs_base), (0x109, None));
    }
    // A thread of the kernel has none.
    let mut none = vec![70, 0xffff_ffff_8100_0000, pair(2, 2), 5000, pair(3, 0), 1000];
    if REGISTERS != 0 {
        none.push(u64::from(b::PERF_SAMPLE_REGS_ABI_NONE));
    }
    assert_eq!(sample(&layouts, KERNEL, &words(&none)).unwrap().registers, None);
}

#[test]
fn samples_of_several_events_are_told_apart() {
    let mut load = Event::raw("loads", 0x81d0);
    (load.precise, load.supplies) = (2, Supplies::Address);
    let layouts = layouts(&[Event::cpu_clock(), load]);
    // PEBS on Intel: HITM in another core's cache, 321 cycles.
    let source = u64::from(b::PERF_MEM_OP_LOAD)
        | u64::from(b::PERF_MEM_LVL_L3 | b::PERF_MEM_LVL_HIT) << b::PERF_MEM_LVL_SHIFT
        | u64::from(b::PERF_MEM_SNOOP_HITM) << b::PERF_MEM_SNOOP_SHIFT;
    let mut all = vec![71, 0x40_1000, pair(11, 12), 5000, 0x7fff_1238, pair(3, 0), 1000];
    all.extend(registers_part());
    all.extend([321, source]);
    let read = sample(&layouts, USER, &words(&all)).unwrap();
    let expected = Precise {
        address: 0x7fff_1238,
        bytes: None,
        kind: Some(AccessKind::Load),
        latency: 321,
        from: From::OtherCoreModified,
    };
    assert_eq!((read.event, read.ip, read.precise), (1, 0x40_1000, Some(expected)));
    // What the event could not leave out.
    assert_eq!(sample(&layouts, KERNEL, &words(&all)), None);
    // Of no event of ours.
    all[0] = 99;
    assert_eq!(layouts.parse(b::PERF_RECORD_SAMPLE, USER, &words(&all)), Err(Damaged));
}

#[test]
fn instruction_based_samples_are_read() {
    let mut ibs = Event::plain("ibs_op", 9, 0);
    ibs.supplies = Supplies::Ibs;
    let layouts = layouts(&[ibs]);
    // IbsOpCtl, IbsOpRip, IbsOpData, IbsOpData2 (far cache: 5), IbsOpData3 (store, L1 and L2
    // missed, 8 bytes, address valid), IbsDcLinAd, IbsDcPhysAd. Where data came from is not said of
    // stores.
    let data3 = 2 | 1 << 7 | 1 << 17 | 1 << 20 | 4 << 22 | 77 << 32;
    let registers = [0, 0x40_2000, 0, 5, data3, 0x7fff_5678, 0];
    let body = |capabilities: u32, registers: &[u64]| {
        let mut all = words(&[70, 0x40_2004, pair(11, 12), 5000, pair(3, 0), 1000]);
        all.extend((4 + 8 * registers.len() as u32).to_ne_bytes());
        all.extend(capabilities.to_ne_bytes());
        all.extend(words(registers));
        all.extend(words(&registers_part()));
        all
    };
    let zen4 = sample(&layouts, USER, &body(1 << 11, &registers)).unwrap();
    let expected = Precise {
        address: 0x7fff_5678,
        bytes: Some(8),
        kind: Some(AccessKind::Store),
        latency: 0,
        from: From::Unknown,
    };
    assert_eq!((zen4.ip, zen4.precise), (0x40_2000, Some(expected)));
    // Before Zen 4, 5 means nothing; a load has a latency; the address of the instruction is not
    // valid.
    let mut load = registers;
    (load[2], load[4]) = (1 << 38, data3 ^ 3);
    let read = sample(&layouts, USER, &body(0, &load)).unwrap();
    let expected =
        Precise { kind: Some(AccessKind::Load), latency: 77, from: From::Unknown, ..expected };
    assert_eq!((read.ip, read.precise), (0x40_2004, Some(expected)));
    // No access to memory; a prefetch; cut off.
    load[4] = 1 << 17;
    let read = sample(&layouts, USER, &body(0, &load)).unwrap();
    assert_eq!((read.precise, read.registers), (None, None));
    load[4] = data3 | 1 << 21;
    assert_eq!(sample(&layouts, USER, &body(0, &load)).unwrap().precise, None);
    assert_eq!(sample(&layouts, USER, &body(0, &load[..3])).unwrap().precise, None);
}

/// IbsOpData2 and IbsOpData3 against `perf_ibs_get_mem_lvl` and `perf_ibs_get_mem_snoop` of Linux.
#[test]
fn where_instruction_based_samples_had_their_data_from() {
    const ZEN4: u32 = 1 << 11;
    let (miss, joined, uncached) = (1 << 7 | 1 << 20, 1 << 16, 1 << 14);
    let from = |capabilities: u32, data2: u64, more: u64| {
        // A load of 8 bytes with a valid address.
        let data3: u64 = 1 | 1 << 17 | 4 << 22 | more;
        let registers = [0, 0x40_2000, 0, data2, data3, 0x7fff_5678, 0];
        let raw = [capabilities.to_ne_bytes().to_vec(), words(&registers)].concat();
        ibs::precise(&raw).unwrap().1.from
    };
    for (source, expected) in [
        // The L3, or another core that has it in common: not known.
        (1, From::Unknown),
        // Caches of a near and a far complex, which had changed the line (bit 5: no).
        (2, From::OtherCoreModified),
        (2 | 1 << 5, From::OtherCore),
        (5, From::OtherCoreModified),
        (5 | 1 << 5, From::OtherCore),
        // DRAM, memory that keeps what it holds, a device's, and extended memory (bit 6 is one of
        // the number).
        (3, From::Memory),
        (6, From::Memory),
        (7, From::Unknown),
        (1 << 6, From::Memory),
    ] {
        assert_eq!(from(ZEN4, source, miss), expected, "{source:#x}");
    }
    for (source, expected) in
        [(2, From::Unknown), (3, From::Memory), (4, From::OtherCore), (5, From::Unknown)]
    {
        assert_eq!(from(0, source, miss), expected, "{source:#x}");
    }
    // The L2, the L1; what Zen 3 says wrong; what is not cached.
    assert_eq!([from(ZEN4, 2, 1 << 7), from(ZEN4, 2, 1 << 20)], [From::Own, From::Own]);
    assert_eq!([from(0, 4, miss | joined), from(0, 0, 1 << 7 | joined)], [From::Unknown; 2]);
    assert_eq!(from(ZEN4, 5, miss | joined), From::OtherCoreModified);
    assert_eq!([from(ZEN4, 5, miss | uncached), from(0, 0, uncached)], [From::Unknown; 2]);
}

#[test]
fn losses_and_throttling_are_told() {
    let layouts = layouts(&[Event::cpu_clock()]);
    let trailer = [pair(11, 12), 6000, pair(3, 0), 70];
    let mut lost = vec![70, 17];
    lost.extend(trailer);
    let read = layouts.parse(b::PERF_RECORD_LOST, 0, &words(&lost));
    assert_eq!(read, Ok(Some((6000, Record::Lost { count: 17 }))));
    let mut throttled = vec![5990, 70, 70];
    throttled.extend(trailer);
    let read = layouts.parse(b::PERF_RECORD_THROTTLE, 0, &words(&throttled));
    assert_eq!(read, Ok(Some((6000, Record::Throttled { time_ns: 6000 }))));
    let read = layouts.parse(b::PERF_RECORD_UNTHROTTLE, 0, &words(&throttled));
    assert_eq!(read, Ok(None));
}

#[test]
fn sources_of_data_have_the_kernels_bits() {
    let at = |level: u32, snoop: u32| {
        let level = u64::from(level) << b::PERF_MEM_LVL_SHIFT;
        source_bits::from(level | u64::from(snoop) << b::PERF_MEM_SNOOP_SHIFT)
    };
    assert_eq!(at(b::PERF_MEM_LVL_L1 | b::PERF_MEM_LVL_HIT, b::PERF_MEM_SNOOP_NONE), From::Own);
    assert_eq!(at(b::PERF_MEM_LVL_L3 | b::PERF_MEM_LVL_HIT, b::PERF_MEM_SNOOP_NONE), From::Shared);
    assert_eq!(at(b::PERF_MEM_LVL_REM_CCE1, b::PERF_MEM_SNOOP_HIT), From::OtherCore);
    assert_eq!(at(b::PERF_MEM_LVL_LOC_RAM, b::PERF_MEM_SNOOP_MISS), From::Memory);
    let number = |number: u32| source_bits::from(u64::from(number) << b::PERF_MEM_LVLNUM_SHIFT);
    assert_eq!(number(b::PERF_MEM_LVLNUM_L3), From::Shared);
    assert_eq!(number(b::PERF_MEM_LVLNUM_RAM), From::Memory);
    for own in [b::PERF_MEM_LVLNUM_L2, b::PERF_MEM_LVLNUM_L2_MHB, b::PERF_MEM_LVLNUM_L0] {
        assert_eq!(number(own), From::Own);
    }
    for memory in [b::PERF_MEM_LVLNUM_MSC, b::PERF_MEM_LVLNUM_CXL, b::PERF_MEM_LVLNUM_PMEM] {
        assert_eq!(number(memory), From::Memory);
    }
    assert_eq!(number(b::PERF_MEM_LVLNUM_NA), From::Unknown);
    assert_eq!(source_bits::from(0), From::Unknown);
    assert_eq!(source_bits::kind(b::PERF_MEM_OP_STORE.into()), Some(AccessKind::Store));
    assert_eq!(source_bits::kind(b::PERF_MEM_OP_NA.into()), None);
}
