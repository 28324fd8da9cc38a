use super::*;
use topology::Topology;

const TWO_PACKAGES: &str =
    "pack:2 numa:1(memory=1GiB) l3:1(size=64KiB) core:2 l2:1(size=8KiB) l1d:1(size=2KiB) pu:1";

fn machine(spec: &str) -> Machine {
    Machine::new(&Topology::from_synthetic(spec).unwrap(), "it").unwrap()
}

fn source(caches: &mut Caches<'_>, pu: usize, line: u64, writes: bool) -> Source {
    let served = caches.access(pu, line, writes).source;
    assert_eq!(caches.contradictions(), [""; 0]);
    served
}

#[test]
fn a_line_goes_from_memory_into_the_caches() {
    let machine = machine(TWO_PACKAGES);
    let mut caches = Caches::new(&machine);
    assert_eq!(source(&mut caches, 0, 5, false), Source::Memory);
    assert_eq!(source(&mut caches, 0, 5, false), Source::Cache(1));
    assert_eq!(source(&mut caches, 0, 5, true), Source::Cache(1));
    // The other core of the package shares the L3, but the line was changed next door.
    let owner = machine.pus[0].domains[0];
    assert_eq!(source(&mut caches, 1, 5, false), Source::Transfer { from: owner });
    assert_eq!(source(&mut caches, 1, 5, false), Source::Cache(1));
    assert_eq!(source(&mut caches, 0, 5, false), Source::Cache(1));
    assert_eq!(caches.take_written().count(), 0);
}

#[test]
fn mesif_writes_back_what_another_package_reads() {
    let machine = machine(TWO_PACKAGES);
    let mut caches = Caches::new(&machine);
    source(&mut caches, 0, 5, true);
    let owner = machine.pus[0].domains[0];
    assert_eq!(source(&mut caches, 2, 5, false), Source::Transfer { from: owner });
    assert_eq!(caches.take_written().collect::<Vec<_>>(), [5]);
    // The L3 of the other package has it, too.
    let served = caches.access(0, 5, true);
    assert_eq!((served.source, served.invalidated), (Source::Cache(1), 2));
    assert_eq!(caches.contradictions(), [""; 0]);
}

#[test]
fn moesi_keeps_what_is_read_with_its_owner() {
    let mut topology = Topology::from_synthetic(TWO_PACKAGES).unwrap();
    topology.model = "AMD EPYC".into();
    let machine = Machine::new(&topology, "it").unwrap();
    let mut caches = Caches::new(&machine);
    source(&mut caches, 0, 5, true);
    let owner = machine.pus[0].domains[0];
    assert_eq!(source(&mut caches, 2, 5, false), Source::Transfer { from: owner });
    assert_eq!(source(&mut caches, 3, 5, false), Source::Transfer { from: owner });
    assert_eq!(caches.take_written().count(), 0);
}

#[test]
fn ping_pong_moves_the_line_every_time() {
    let machine = machine(TWO_PACKAGES);
    let mut caches = Caches::new(&machine);
    source(&mut caches, 0, 9, true);
    for turn in 0..10 {
        let (pu, other) = if turn % 2 == 0 { (3, 0) } else { (0, 3) };
        let from = machine.pus[other].domains[0];
        assert_eq!(source(&mut caches, pu, 9, true), Source::Transfer { from });
    }
    assert_eq!(caches.take_written().count(), 0);
}

#[test]
fn directory_and_caches_agree_whatever_happens() {
    for model in ["", "AMD EPYC", "Intel(R) Xeon(R)", "SiNUCA table 5.1"] {
        for spec in [
            TWO_PACKAGES,
            "pack:2 l2:1(size=4KiB) core:2 l1d:1(size=1KiB) pu:2",
            "pack:1 core:3 l1d:1(size=1KiB) pu:1",
        ] {
            let mut topology = Topology::from_synthetic(spec).unwrap();
            topology.model = model.into();
            let machine = Machine::new(&topology, "it").unwrap();
            let mut caches = Caches::new(&machine);
            let mut chance = 0x2545_f491_4f6c_dd1du64;
            let mut dirty = std::collections::HashSet::new();
            for step in 0..20_000 {
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                let (pu, line) = (chance as usize % machine.pus.len(), chance >> 8 & 0x3ff);
                let writes = chance >> 40 & 3 == 0;
                caches.access(pu, line, writes);
                if chance >> 50 & 7 == 0 {
                    caches.fetch_ahead(pu, line + 1, 1);
                }
                if writes {
                    dirty.insert(line);
                }
                caches.take_written().for_each(|line| {
                    assert!(dirty.contains(&line), "{line} was written back, but never written");
                });
                if step % 500 == 0 {
                    assert_eq!(caches.contradictions(), [""; 0], "{model} {spec} {step}");
                }
            }
        }
    }
}
