//! Why the agent could not start, in [`Header::failure`](crate::session::Header::failure), or why a
//! process is not recorded.

/// It could.
pub const NONE: u32 = 0;
/// No room for the shadow memory (address-space limit or strict overcommit).
pub const NO_SHADOW: u32 = 1;
/// No room for the code cache near the program.
pub const NO_CODE_CACHE: u32 = 2;
/// The processor or kernel lacks something (`arch_prctl`).
pub const NO_GS: u32 = 3;
/// Agent and recorder are of different versions.
pub const VERSION: u32 = 4;
/// The program has a shadow stack that cannot be switched off any more.
pub const SHADOW_STACK: u32 = 5;

// Why a program that a recorded process executes runs natively.
/// Statically linked: nothing can be injected.
pub const STATIC: u32 = 16;
/// Setuid, setgid or with file capabilities: the loader injects nothing.
pub const PRIVILEGED: u32 = 17;
/// For another processor, or 32-bit.
pub const FOREIGN: u32 = 18;
/// With another loader than glibc's.
pub const NOT_GLIBC: u32 = 19;
/// The engine or the recording cannot be opened from where the process is (chroot, namespaces,
/// another user).
pub const UNREACHABLE: u32 = 20;
/// The process has forbidden itself system calls that the engine needs to start.
pub const FORBIDDEN: u32 = 21;
/// Another recorder records the program: a recorder that is recorded.
pub const ANOTHER_RECORDING: u32 = 22;
/// Recorded processes of the same program were all alone ([`lone`](crate::lone)).
pub const LONE: u32 = 23;
