//! Signals that an instruction causes: what they say of it.

const SIGTRAP: u64 = 5;
const SIGSYS: u64 = 31;
/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV.
const OF_INSTRUCTIONS: [u64; 5] = [4, SIGTRAP, 7, 8, 11];
/// A debug register, set by a tracer of the program, or by the program in an event of its own.
const TRAP_HWBKPT: i32 = 4;
const TRAP_PERF: i32 = 6;
const PERF_TYPE_BREAKPOINT: u32 = 5;
/// Words of siginfo: the code, and of a signal from an event its type.
const CODE: usize = 2;
const EVENT_TYPE: usize = 8;
/// The address, in words of eight bytes.
const ADDRESS: usize = 2;

type Info = *const [u32; 4];

fn word(info: Info, k: usize) -> u32 {
    // SAFETY: the kernel's siginfo has 32 words.
    unsafe { *info.cast::<u32>().add(k) }
}

/// Whether an instruction has caused the signal, not a sender.
pub fn is_fault(signal: u64, info: Info) -> bool {
    OF_INSTRUCTIONS.contains(&signal) && word(info, CODE) as i32 > 0
}

/// Whether the agent's own code has touched what is watched for the program's sake: the program's
/// own instruction is about to do so, too.
pub fn is_of_program(signal: u64, info: Info) -> bool {
    signal == SIGTRAP
        && match word(info, CODE) as i32 {
            TRAP_HWBKPT => true,
            TRAP_PERF => word(info, EVENT_TYPE) == PERF_TYPE_BREAKPOINT,
            _ => false,
        }
}

/// Where the signal is about the instruction itself, as of one that is illegal or divides by zero,
/// or a system call that a filter has turned into a signal, its address is the program's, too.
/// Sandboxes compare it with the context's, and end the program if they differ.
pub fn correct_address(signal: u64, info: u64, in_cache: u64, pc: u64) {
    // SAFETY: the kernel's siginfo, on the stack on which the program's handler will run.
    let address = unsafe { (info as *mut u64).add(ADDRESS) };
    // SAFETY: as above.
    unsafe {
        if (is_fault(signal, info as Info) || signal == SIGSYS) && *address == in_cache {
            *address = pc;
        }
    }
}
