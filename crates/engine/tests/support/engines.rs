//! A second engine for the same program, which only counts, and threads that change between both.

use super::host::{REGIONS, TestHost, map};
use super::{Machine, Running};
use engine::cache::Stubs;
use engine::indirect::Tables;
use engine::recovery::Registers;
use engine::{Engine, Options, Resolved};

impl Machine {
    /// The engine, and the one that only counts, if there is one.
    pub(super) fn engines(&self, stubs: Stubs) -> (Engine, Option<Engine>) {
        let Some(leave) = self.polls else {
            return (Engine::new(self.options, stubs, self.tables), None);
        };
        let low = map(0, 4096, libc::MAP_32BIT);
        REGIONS.with(|r| r.borrow_mut().push((low, 4096)));
        // SAFETY: just mapped.
        unsafe { std::ptr::write_bytes(low as *mut u8, leave.into(), 2) };
        let count = self.tables.count / 2;
        let Options { loops, tallies, .. } = self.options;
        let light = Options { loops, tallies, ..self.options.without_checks(low as i32 + 1, 0) };
        let options = Options { poll: low as i32, ..self.options };
        let light = Engine::new(light, stubs, Tables { first: count, count, ..self.tables });
        (Engine::new(options, stubs, Tables { count, ..self.tables }), Some(light))
    }
}

impl Running {
    /// Rebuilds the program's registers from those of a thread in the cache of either engine.
    pub(super) fn recover(
        &self,
        registers: &mut Registers,
        slot: &dyn Fn(i32) -> u64,
    ) -> Option<()> {
        let mut engines = std::iter::once(&self.engine).chain(&self.light);
        engines.find(|engine| engine.contains(registers.pc))?.recover(registers, slot)
    }

    /// The thread comes to the dispatcher, which lets it go on in the other engine.
    pub(super) fn change(&mut self, link: i64, target: u64, host: &mut TestHost) -> u64 {
        let light = self.light.as_mut().expect("there are two");
        let mut engines = [&mut self.engine, light];
        let wanted = (self.dispatches % 2) as usize;
        // SAFETY: the program is about to execute the target.
        let (target, resolved) = unsafe {
            match link {
                0.. => {
                    let mut left = engines.iter_mut();
                    let target = left.find_map(|e| e.leave(link as usize, host));
                    let target = target.expect("a link of one of them");
                    (target, engines[wanted].enter(target, host))
                }
                -1 => (target, engines[wanted].look_up(target, host)),
                site => (target, engines[wanted].learn(!site as usize, target, host)),
            }
        };
        for code in engines[wanted].returning() {
            // SAFETY: one thread.
            unsafe { engines[1 - wanted].add_returning(code) };
        }
        match resolved {
            Resolved::Cache(address) => address,
            Resolved::Native => target,
        }
    }
}
