//! Writes the header that the slow paths share with Rust, compiles them, and fixes how the library
//! is linked.

/// Declarations in C of the variables that Rust knows of.
macro_rules! variables {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        pub fn declare_variables(header: &mut crate::header::Header) {
            $(header.variable::<$type>(stringify!($name));)*
        }
    };
}

#[path = "build/blocks.rs"]
mod blocks;
#[path = "build/header.rs"]
mod header;
#[path = "src/layouts.rs"]
#[allow(dead_code)]
mod layouts;
#[path = "src/tracked/note.rs"]
mod note;
#[path = "build/shared.rs"]
mod shared;

fn main() {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    std::fs::write(out.join("layouts.h"), shared::header())
        .expect("cargo's directory can be written");
    cc::Build::new()
        .include(&out)
        .file("src/slow/slow.c")
        .file("src/slow/usual.c")
        .file("src/slow/windowed.c")
        .file("src/slow/matrix.c")
        // The slow paths run with the program's SIMD registers in place and its thread pointer.
        .flag("-mgeneral-regs-only")
        .flag("-O2")
        // GCC clears structures of 50 bytes by "rep stos", which takes 30 cycles to begin.
        .flag_if_supported("-mmemset-strategy=unrolled_loop:512:noalign,rep_8byte:-1:noalign")
        .flag("-fPIC")
        .flag("-fvisibility=hidden")
        .flag("-fno-stack-protector")
        .flag("-fcf-protection=none")
        .flag("-fno-builtin")
        .flag("-ffreestanding")
        .warnings(true)
        .compile("slow");
    for source in ["build.rs", "build", "src/layouts.rs", "src/layouts", "src/slow"] {
        println!("cargo:rerun-if-changed={source}");
    }
    for arg in [
        // Nothing of the program's libc: an undefined symbol is a link error.
        "-nostdlib",
        "-Wl,-z,defs",
        // Before all other constructors, so that they are seen.
        "-Wl,-z,initfirst",
        "-Wl,-z,now",
        "-Wl,-Bsymbolic",
    ] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
}
