//! Compiles the slow paths and fixes how the library is linked.

fn main() {
    cc::Build::new()
        .file("src/slow/slow.c")
        .file("src/slow/usual.c")
        .file("src/slow/matrix.c")
        // The slow paths run with the program's SIMD registers in place and its thread pointer.
        .flag("-mgeneral-regs-only")
        .flag("-O2")
        .flag("-fPIC")
        .flag("-fvisibility=hidden")
        .flag("-fno-stack-protector")
        .flag("-fcf-protection=none")
        .flag("-fno-builtin")
        .flag("-ffreestanding")
        .warnings(true)
        .compile("slow");
    println!("cargo:rerun-if-changed=src/slow");
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
