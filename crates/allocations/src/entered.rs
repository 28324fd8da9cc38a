//! Functions of the C library's names that note where they were entered, and go on in Rust.

/// Defines functions with this number of arguments; `$rust` gets two more: the address of its
/// return address, and %rbp. Each begins with two instructions that note them.
#[macro_export]
macro_rules! entered {
    (@one $name:ident, $rust:ident, $stack:literal, $rbp:literal) => {
        /// # Safety
        /// As for the C library's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                concat!("mov ", $stack, ", rsp"),
                concat!("mov ", $rbp, ", rbp"),
                "jmp {rust}",
                rust = sym $rust,
            )
        }
    };
    (6: $($name:ident = $rust:ident),*) => {
        $(
            /// # Safety
            /// As for the C library's function of this name.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                // The two more do not fit into registers.
                core::arch::naked_asm!(
                    "mov r10, rsp",
                    "sub rsp, 8",
                    "push rbp",
                    "push r10",
                    "call {rust}",
                    "add rsp, 24",
                    "ret",
                    rust = sym $rust,
                )
            }
        )*
    };
    (1: $($name:ident = $rust:ident),*) => {
        $($crate::entered!(@one $name, $rust, "rsi", "rdx");)*
    };
    (2: $($name:ident = $rust:ident),*) => {
        $($crate::entered!(@one $name, $rust, "rdx", "rcx");)*
    };
    (3: $($name:ident = $rust:ident),*) => {
        $($crate::entered!(@one $name, $rust, "rcx", "r8");)*
    };
}
