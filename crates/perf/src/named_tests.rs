//! Names against a tree as the kernel lists it, with two kinds of cores.

use super::*;
use crate::event::Rate;
use perf_event_open_sys::bindings as b;
use test_support::Scratch;

/// Files of `/sys/bus/event_source/devices`: of Intel's cores (arch/x86/events/intel/core.c), of
/// AMD's L3.
const FILES: [(&str, &str); 19] = [
    ("cpu/type", "4\n"),
    ("cpu/format/event", "config:0-7,32-35\n"),
    ("cpu/format/umask", "config:8-15\n"),
    ("cpu/format/edge", "config:18\n"),
    ("cpu/format/offcore_rsp", "config1:0-63\n"),
    ("cpu/format/odd", "config9:0-3\n"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
    ("cpu/events/mem-stores", "event=0xd0,umask=0x82\n"),
    ("cpu/events/mem-stores.scale", "1\n"),
    ("cpu/format/ldlat", "config1:0-15\n"),
    ("cpu_core/type", "10\n"),
    ("cpu_core/cpus", "0-3\n"),
    ("cpu_core/format/event", "config:0-7\n"),
    ("amd_l3/type", "11\n"),
    ("amd_l3/cpumask", "0\n"),
    ("amd_l3/format/event", "config:0-7\n"),
    ("ibs_op/type", "12\n"),
    ("ibs_op/format/cnt_ctl", "config:19\n"),
    ("ibs_op/format/swfilt", "config2:0\n"),
];

fn names(scratch: &Scratch) -> Names {
    for (file, text) in FILES {
        let path = scratch.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let vendor = "AuthenticAMD".into();
    let processor = Processor { vendor, family: 25, model: 1, ..Processor::default() };
    Names { units: Units::of(scratch.path()), family: processor.events() }
}

fn configs(event: &Event) -> (u32, u64, u64, u64) {
    (event.kind, event.config, event.config1, event.config2)
}

#[test]
fn events_are_named_as_in_perf() {
    let scratch = Scratch::new();
    let names = names(&scratch);
    for (text, kind, config, config1) in [
        ("r1643", b::PERF_TYPE_RAW, 0x1643, 0),
        ("cpu/event=0x43,umask=0x16/", 4, 0x1643, 0),
        // Numbers of events that do not fit into a byte go on elsewhere.
        ("cpu/event=0x1c5,umask=22/", 4, 0x1_0000_16c5, 0),
        ("cpu/event=0xb7,umask=1,offcore_rsp=0x3f803c0001/", 4, 0x1b7, 0x3f_803c_0001),
        ("cpu/mem-loads,ldlat=30/pp", 4, 0x1cd, 30),
        ("cpu/config=0x1643,edge/", 4, 0x4_1643, 0),
        ("mem-stores", 4, 0x82d0, 0),
        ("cycles", b::PERF_TYPE_HARDWARE, 0, 0),
        ("page-faults:u", b::PERF_TYPE_SOFTWARE, 2, 0),
        ("LLC-load-misses", b::PERF_TYPE_HW_CACHE, 0x1_0002, 0),
        ("ls_dispatch", b::PERF_TYPE_RAW, 0x0729, 0),
    ] {
        let event = names.event(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(configs(&event), (kind, config, config1, 0), "{text}");
        assert_eq!(event.name, text);
    }
    let precise = |text| {
        let event = names.event(text).unwrap();
        (event.precise, event.supplies)
    };
    assert_eq!(precise("cpu/mem-loads,ldlat=30/pp"), (2, Supplies::Address));
    assert_eq!(precise("r04d2:ppp"), (3, Supplies::Address));
    assert_eq!(precise("r04d2:u"), (0, Supplies::Registers));
    // Where cores differ, only some processors have them.
    assert_eq!(names.event("cpu_core/event=0xd2/").unwrap().cpus, Some(vec![0, 1, 2, 3]));
    assert_eq!(names.event("r04d2").unwrap().cpus, Some(vec![0, 1, 2, 3]));
    assert_eq!(names.event("cycles").unwrap().cpus, Some(vec![0, 1, 2, 3]));
    assert_eq!(names.event("cpu/event=0xd2/").unwrap().cpus, None);
    assert_eq!(names.event("page-faults").unwrap().cpus, None);
}

#[test]
fn instruction_based_sampling_gives_addresses_and_leaves_the_kernel_out_where_it_can() {
    let scratch = Scratch::new();
    let names = names(&scratch);
    let ibs = names.event("ibs_op/cnt_ctl/").unwrap();
    assert_eq!(configs(&ibs), (12, 1 << 19, 0, 1));
    assert_eq!((ibs.supplies, ibs.user_only), (Supplies::Ibs, true));
    std::fs::remove_file(scratch.join("ibs_op/format/swfilt")).unwrap();
    let ibs = names.event("ibs_op//").unwrap();
    assert_eq!((configs(&ibs), ibs.user_only), ((12, 0, 0, 0), false));
}

#[test]
fn memory_is_watched_by_a_debug_register() {
    let scratch = Scratch::new();
    let names = names(&scratch);
    let watched = |text| names.event(text).unwrap().watched().unwrap();
    let expected = |bytes, watch| Watched { address: 0x404040, bytes, watch };
    assert_eq!(watched("mem:0x404040/8:w"), expected(8, Watch::Writes));
    assert_eq!(watched("mem:0x404040"), expected(4, Watch::All));
    assert_eq!(watched("mem:4210752/2:rw"), expected(2, Watch::All));
    let attributes = names.event("mem:0x404040/8:w").unwrap();
    let attributes = attributes.attributes(Rate::Period(7), Default::default());
    // Else the kernel would take a sample of each.
    assert_eq!(attributes.sample_type & u64::from(b::PERF_SAMPLE_PERIOD), 0);
    assert_eq!((attributes.type_, attributes.bp_type), (5, b::HW_BREAKPOINT_W));
    for (text, why) in [
        ("mem:0x404041/8:w", "multiple of its length"),
        ("mem:0x404040/3:w", "1, 2, 4 or 8 bytes"),
        ("mem:0x404040/8:r", "reads only"),
        ("mem:0x404040/8:x", "which accesses"),
        ("mem:counter:w", "does not say an address"),
        ("mem:0xffffffff81000000/8:w", "kernel's memory"),
    ] {
        let error = names.event(text).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("like mem:0x404040/8:w"), "{error}");
    }
}

#[test]
fn what_names_no_event_is_refused_with_what_is_near() {
    let scratch = Scratch::new();
    let names = names(&scratch);
    for (text, words) in [
        ("cycels", vec!["no event 'cycels'", ", but 'cycles'", "r1643"]),
        ("mem-load", vec![", but 'mem-loads'"]),
        ("int_cache", vec!["'ls_dmnd_fills_from_sys.int_cache+ext_cache_local+ext_cache_remote'"]),
        ("r12xy", vec!["no event 'r12xy'"]),
        ("", vec!["no event ''"]),
        ("cpu0/event=1/", vec!["no unit 'cpu0'", ", but 'cpu'", "event_source/devices"]),
        ("../cpu/event=1/", vec!["no unit '..'"]),
        ("cpu/events=1/", vec!["neither a field nor an event 'events'", ", but 'event'"]),
        ("cpu/umask=0x100/", vec!["'0x100' is no number for the field 'umask', which has 8 bits"]),
        ("cpu/umask=x/", vec!["'x' is no number"]),
        ("cpu/odd=1/", vec!["neither a field nor an event 'odd'"]),
        ("amd_l3/event=4/", vec!["for the machine as a whole"]),
        ("cycles:k", vec!["'k' cannot be asked for", "without the kernel"]),
        ("cycles:pppp", vec!["'pppp' cannot be asked for"]),
    ] {
        let error = names.event(text).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{text}: {word}: {error}");
        }
    }
}
