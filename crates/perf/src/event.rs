//! What can be sampled: events as the kernel is asked for them, and how often.
//!
//! Neighbours: `families` names events of processors, `named` those that users name, `probe` says
//! which detector uses which.

use crate::sys::Attributes;
use perf_event_open_sys::bindings as b;

/// How a sample of an event comes to the address that was accessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Supplies {
    /// The program's registers: the address is computed from the code.
    Registers,
    /// The address itself (PEBS), and the registers.
    Address,
    /// AMD's instruction-based sampling: a record of registers of the processor.
    Ibs,
}

/// One event of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// As shown to users.
    pub name: String,
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`.
    pub config1: u64,
    /// `perf_event_attr.config2`.
    pub config2: u64,
    /// `precise_ip`: 0 … 3.
    pub precise: u8,
    /// What its samples hold beside the registers.
    pub supplies: Supplies,
    /// Whether the kernel can be left out. What cannot do that needs more permission.
    pub user_only: bool,
    /// What a debug register counts: `config1` and `config2` hold address and length, as the
    /// kernel's `bp_addr` and `bp_len` share their places.
    pub watch: Option<Watch>,
    /// The processors that have the event; `None`: all.
    pub cpus: Option<Vec<i32>>,
}

/// Which accesses a debug register notices. There are none for reads alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Watch {
    /// Writes only.
    Writes,
    /// Reads and writes.
    All,
}

/// Memory that a debug register watches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Watched {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes: 1, 2, 4 or 8.
    pub bytes: u32,
    /// Which accesses are noticed.
    pub watch: Watch,
}

impl Event {
    /// An event whose samples carry registers only.
    pub fn plain(name: &str, kind: u32, config: u64) -> Self {
        Self {
            name: name.to_string(),
            kind,
            config,
            config1: 0,
            config2: 0,
            precise: 0,
            supplies: Supplies::Registers,
            user_only: true,
            watch: None,
            cpus: None,
        }
    }

    /// Accesses to `watched`, noticed by a debug register of each thread.
    pub fn watching(name: &str, watched: Watched) -> Self {
        Self {
            config1: watched.address,
            config2: watched.bytes.into(),
            watch: Some(watched.watch),
            ..Self::plain(name, b::PERF_TYPE_BREAKPOINT, 0)
        }
    }

    /// The memory that a debug register watches, if the event is of that kind.
    pub fn watched(&self) -> Option<Watched> {
        let watch = self.watch?;
        Some(Watched { address: self.config1, bytes: self.config2 as u32, watch })
    }

    /// Time on a processor, in nanoseconds; there wherever perf_event is.
    pub fn cpu_clock() -> Self {
        Self::plain("cpu-clock", b::PERF_TYPE_SOFTWARE, u64::from(b::PERF_COUNT_SW_CPU_CLOCK))
    }

    /// Page faults of programs, with the address that was accessed.
    pub fn page_faults() -> Self {
        let code = u64::from(b::PERF_COUNT_SW_PAGE_FAULTS);
        let event = Self::plain("page-faults", b::PERF_TYPE_SOFTWARE, code);
        Self { supplies: Supplies::Address, ..event }
    }

    /// Nothing: for what happens to threads, processes and mappings, while other events are paused.
    pub fn notes() -> Self {
        Self::plain("dummy", b::PERF_TYPE_SOFTWARE, u64::from(b::PERF_COUNT_SW_DUMMY))
    }

    /// Instructions, by whatever counts them here.
    pub fn instructions() -> Self {
        let config = u64::from(b::PERF_COUNT_HW_INSTRUCTIONS);
        Self::plain("instructions", b::PERF_TYPE_HARDWARE, config)
    }

    /// Cycles of the processor.
    pub fn cycles() -> Self {
        let config = u64::from(b::PERF_COUNT_HW_CPU_CYCLES);
        Self::plain("cycles", b::PERF_TYPE_HARDWARE, config)
    }

    /// An event by its raw code, as in the processor's manual.
    pub fn raw(name: &str, config: u64) -> Self {
        Self::plain(name, b::PERF_TYPE_RAW, config)
    }

    /// Whether the event counts nanoseconds: only the clocks do.
    pub fn is_clock(&self) -> bool {
        let clocks = [b::PERF_COUNT_SW_CPU_CLOCK, b::PERF_COUNT_SW_TASK_CLOCK];
        self.kind == b::PERF_TYPE_SOFTWARE && clocks.map(u64::from).contains(&self.config)
    }

    /// Whether it is one of the processor's cores, without saying of which kind of them.
    pub(crate) fn is_of_cores(&self) -> bool {
        [b::PERF_TYPE_RAW, b::PERF_TYPE_HARDWARE, b::PERF_TYPE_HW_CACHE].contains(&self.kind)
    }

    /// Whether it comes the more often, the longer a thread runs, whatever that does.
    pub fn is_time(&self) -> bool {
        let clocks = [
            b::PERF_COUNT_HW_CPU_CYCLES,
            b::PERF_COUNT_HW_INSTRUCTIONS,
            b::PERF_COUNT_HW_BUS_CYCLES,
            b::PERF_COUNT_HW_REF_CPU_CYCLES,
        ];
        let hardware = self.kind == b::PERF_TYPE_HARDWARE;
        self.is_clock() || hardware && clocks.map(u64::from).contains(&self.config)
    }

    /// Whether the kernel itself counts the event, one by one, and takes a sample of each where
    /// samples are to say their period and that is fixed (`perf_swevent_event` in
    /// kernel/events/core.c). Hence these do not say it.
    fn hides_period(&self, rate: Rate) -> bool {
        let one_by_one = [b::PERF_TYPE_SOFTWARE, b::PERF_TYPE_TRACEPOINT, b::PERF_TYPE_BREAKPOINT];
        one_by_one.contains(&self.kind) && !self.is_clock() && !matches!(rate, Rate::PerSecond(_))
    }

    /// Whether a processor has the event.
    pub fn is_on(&self, cpu: i32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }
}

/// How often to sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// One sample per that many events, or nanoseconds of a clock: what samples are worth is known.
    Period(u64),
    /// That many samples a second and thread, by the kernel's own regulation.
    PerSecond(u64),
    /// Count only.
    Never,
}

/// What else an event is to deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extras {
    /// Threads and processes that the observed thread starts are observed as well.
    pub inherit: bool,
    /// Of those, threads only.
    pub threads_only: bool,
    /// Begin when the observed process executes another program.
    pub on_exec: bool,
    /// Deliver what happens to threads, processes and mappings.
    pub notes: bool,
    /// Wake a sleeping reader when that many bytes wait.
    pub watermark: u32,
}

/// A period that no event reaches: days of accesses.
const HARDLY_EVER: u64 = 1 << 48;

/// General registers, rip and rflags in the kernel's order (`enum perf_event_x86_regs`).
#[cfg(target_arch = "x86_64")]
pub(crate) const REGISTERS: u64 = 0xff_03ff;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const REGISTERS: u64 = 0;

impl Event {
    /// The attributes to open it with; disabled, unless `on_exec` enables it.
    pub(crate) fn attributes(&self, rate: Rate, extras: Extras) -> Attributes {
        let mut a = Attributes {
            type_: self.kind,
            size: size_of::<Attributes>() as u32,
            config: self.config,
            ..Attributes::default()
        };
        a.config1 = self.config1;
        a.config2 = self.config2;
        a.bp_type = match self.watch {
            None => b::HW_BREAKPOINT_EMPTY,
            Some(Watch::Writes) => b::HW_BREAKPOINT_W,
            Some(Watch::All) => b::HW_BREAKPOINT_RW,
        };
        a.set_precise_ip(self.precise.into());
        a.read_format =
            u64::from(b::PERF_FORMAT_TOTAL_TIME_ENABLED | b::PERF_FORMAT_TOTAL_TIME_RUNNING);
        match rate {
            Rate::Period(period) => a.sample_period = period.max(1),
            Rate::PerSecond(frequency) => {
                a.set_freq(1);
                a.sample_freq = frequency.max(1);
            }
            // Events with addresses cannot be had without sampling (`x86_pmu_hw_config` in
            // arch/x86/events/core.c, `perf_ibs_init` in arch/x86/events/amd/ibs.c), so hardly
            // ever.
            Rate::Never if self.supplies != Supplies::Registers => a.sample_period = HARDLY_EVER,
            Rate::Never => {}
        }
        a.sample_type = self.sample_type(rate);
        a.sample_regs_user =
            if a.sample_type & u64::from(b::PERF_SAMPLE_REGS_USER) != 0 { REGISTERS } else { 0 };
        a.set_disabled(1);
        a.set_enable_on_exec(extras.on_exec.into());
        a.set_inherit(extras.inherit.into());
        a.set_inherit_thread((extras.inherit && extras.threads_only).into());
        a.set_exclude_kernel(self.user_only.into());
        a.set_exclude_hv(self.user_only.into());
        a.set_sample_id_all(1);
        a.set_use_clockid(1);
        a.clockid = libc::CLOCK_MONOTONIC;
        a.set_watermark(1);
        a.wakeup_watermark = extras.watermark.max(1);
        for set in [
            Attributes::set_task,
            Attributes::set_comm,
            Attributes::set_comm_exec,
            Attributes::set_mmap,
            Attributes::set_mmap2,
        ] {
            set(&mut a, extras.notes.into());
        }
        a
    }

    /// `PERF_SAMPLE_*`: what `record.rs` reads.
    pub(crate) fn sample_type(&self, rate: Rate) -> u64 {
        let period = if self.hides_period(rate) { 0 } else { b::PERF_SAMPLE_PERIOD };
        let common = b::PERF_SAMPLE_IDENTIFIER
            | b::PERF_SAMPLE_IP
            | b::PERF_SAMPLE_TID
            | b::PERF_SAMPLE_TIME
            | b::PERF_SAMPLE_CPU
            | period;
        let registers = if REGISTERS == 0 { 0 } else { b::PERF_SAMPLE_REGS_USER };
        let more = match self.supplies {
            Supplies::Registers => registers,
            Supplies::Address => {
                registers | b::PERF_SAMPLE_ADDR | b::PERF_SAMPLE_DATA_SRC | b::PERF_SAMPLE_WEIGHT
            }
            Supplies::Ibs => registers | b::PERF_SAMPLE_RAW,
        };
        u64::from(common | more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_addresses_is_counted_by_sampling_it_hardly_ever() {
        let period = |event: &Event, rate| event.attributes(rate, Extras::default()).sample_period;
        let mut precise = Event::raw("loads", 0x81d0);
        assert_eq!(period(&precise, Rate::Never), 0);
        (precise.precise, precise.supplies) = (2, Supplies::Address);
        assert_eq!(period(&precise, Rate::Never), HARDLY_EVER);
        assert_eq!(period(&precise, Rate::Period(1000)), 1000);
    }

    #[test]
    fn a_fixed_period_is_said_by_the_samples_of_processors_and_clocks_only() {
        let says =
            |event: Event, rate| event.sample_type(rate) & u64::from(b::PERF_SAMPLE_PERIOD) != 0;
        let faults = || {
            let code = b::PERF_COUNT_SW_PAGE_FAULTS;
            Event::plain("page-faults", b::PERF_TYPE_SOFTWARE, code.into())
        };
        assert!(
            says(Event::cpu_clock(), Rate::Period(9)) && says(Event::cycles(), Rate::Period(9))
        );
        assert!(!says(faults(), Rate::Period(9)) && says(faults(), Rate::PerSecond(9)));
    }
}
