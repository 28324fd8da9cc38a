//! Which functions allocate and free memory, by their names.
//!
//! The C library's, C++'s and Rust's, those of allocators under their own prefixes, and wrappers
//! that many programs have: the outermost call counts, so that a block belongs to who wanted it.

use how::{BYTES_FIRST, BYTES_SECOND, BYTES_THIRD, FREES, MOVES, MOVES_PRODUCT, PRODUCT};
use wire::objects::by::{ALIGNED, CALLOC, MALLOC, NEW, NEW_ARRAY, REALLOC};

/// What a hooked function does: where its arguments say how many bytes, or what else it is.
pub mod how {
    /// malloc(bytes).
    pub const BYTES_FIRST: u32 = 1;
    /// calloc(count, bytes).
    pub const PRODUCT: u32 = 2;
    /// memalign(alignment, bytes).
    pub const BYTES_SECOND: u32 = 3;
    /// posix_memalign(where, alignment, bytes).
    pub const BYTES_THIRD: u32 = 4;
    /// realloc(block, bytes).
    pub const MOVES: u32 = 5;
    /// reallocarray(block, count, bytes).
    pub const MOVES_PRODUCT: u32 = 6;
    /// free(block).
    pub const FREES: u32 = 7;
    /// Not a function: code that a call of one returns to.
    pub const RETURNED: u32 = 8;
}

/// A function that allocates or frees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// Where it begins in memory.
    pub address: u64,
    /// What it does: one of [`how`] in the low byte, one of
    /// [`wire::objects::by`] above it.
    pub what: u32,
    /// How long it is; 0: not known.
    pub bytes: u64,
}

const fn what(how: u32, by: u32) -> u32 {
    how | by << 8
}

const MALLOCS: u32 = what(BYTES_FIRST, MALLOC);
const CALLOCS: u32 = what(PRODUCT, CALLOC);
const REALLOCS: u32 = what(MOVES, REALLOC);
const FREE: u32 = what(FREES, 0);

/// Longest name that is looked at.
pub const MAX_NAME: usize = 64;

/// Prefixes of allocators that are linked beside another one.
const PREFIXES: [&[u8]; 6] = [b"je_", b"tc_", b"mi_", b"__libc_", b"jemalloc_", b"rpmalloc_"];

/// Whether code of the file may allocate: the loader has functions of these names for itself.
pub fn may_allocate(path: &[u8]) -> bool {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    path.first() == Some(&b'/')
        && !name.starts_with(b"ld-")
        && !name.starts_with(b"ld64")
        && !name.starts_with(b"libthreadtalk_")
}

/// What the function with this name does; 0 = nothing that we follow.
pub fn what_is(name: &[u8]) -> u32 {
    match name.first() {
        Some(b'_') if name.starts_with(b"_Z") => operator(name),
        Some(b'_') if name.starts_with(b"_R") => rust(name),
        Some(b'_' | b'a' | b'c' | b'd' | b'f' | b'g' | b'j' | b'm' | b'p' | b'r' | b's' | b't')
        | Some(b'v' | b'x' | b'z' | b'P' | b'M') => {
            let prefix = PREFIXES.iter().find(|prefix| name.starts_with(prefix));
            let rest = prefix.map_or(name, |prefix| &name[prefix.len()..]);
            match common(rest) {
                0 if prefix.is_some() => prefixed(rest),
                0 => wrapper(name),
                what => what,
            }
        }
        _ => 0,
    }
}

/// operator new and delete in all their forms.
fn operator(name: &[u8]) -> u32 {
    match name {
        _ if name.starts_with(b"_Znwm") => what(BYTES_FIRST, NEW),
        _ if name.starts_with(b"_Znam") => what(BYTES_FIRST, NEW_ARRAY),
        _ if name.starts_with(b"_ZdlPv") || name.starts_with(b"_ZdaPv") => FREE,
        _ => 0,
    }
}

/// What Rust's compiler emits calls of, under its newer mangling. Blocks that are reallocated are
/// followed by what that calls.
fn rust(name: &[u8]) -> u32 {
    let ends = |with: &[u8]| name.ends_with(with);
    match () {
        () if ends(b"12___rust_alloc") || ends(b"19___rust_alloc_zeroed") => MALLOCS,
        () if ends(b"14___rust_dealloc") => FREE,
        () => 0,
    }
}

/// Names that every allocator has.
fn common(name: &[u8]) -> u32 {
    match name {
        b"malloc" | b"valloc" | b"pvalloc" => MALLOCS,
        b"calloc" => CALLOCS,
        b"realloc" => REALLOCS,
        b"reallocarray" => what(MOVES_PRODUCT, REALLOC),
        b"aligned_alloc" | b"memalign" => what(BYTES_SECOND, ALIGNED),
        b"posix_memalign" => what(BYTES_THIRD, ALIGNED),
        b"free" | b"cfree" | b"free_sized" | b"free_aligned_sized" => FREE,
        b"mallocx" => MALLOCS,
        b"rallocx" => REALLOCS,
        b"dallocx" | b"sdallocx" => FREE,
        _ => 0,
    }
}

/// Names that allocators have under their prefixes only.
fn prefixed(name: &[u8]) -> u32 {
    match name {
        b"new" | b"new_nothrow" | b"new_aligned" | b"new_aligned_nothrow" => what(BYTES_FIRST, NEW),
        b"newarray" | b"newarray_nothrow" | b"newarray_aligned" => what(BYTES_FIRST, NEW_ARRAY),
        b"new_n" => what(PRODUCT, NEW_ARRAY),
        b"zalloc" | b"malloc_small" | b"zalloc_small" => MALLOCS,
        b"malloc_aligned" | b"zalloc_aligned" => what(BYTES_FIRST, ALIGNED),
        b"mallocn" | b"calloc_aligned" => CALLOCS,
        b"realloc_aligned" | b"rezalloc" => REALLOCS,
        b"reallocn" => what(MOVES_PRODUCT, REALLOC),
        b"free_size" | b"free_size_aligned" | b"free_aligned" | b"cfree" => FREE,
        _ if name.starts_with(b"delete") => FREE,
        _ => 0,
    }
}

/// Wrappers with names of their own: of GLib, Python, Redis, PostgreSQL, GNU's programs, Rust.
fn wrapper(name: &[u8]) -> u32 {
    match name {
        b"g_malloc" | b"g_malloc0" | b"g_try_malloc" | b"g_try_malloc0" => MALLOCS,
        b"g_malloc_n" | b"g_malloc0_n" => CALLOCS,
        b"g_realloc" | b"g_try_realloc" => REALLOCS,
        b"g_realloc_n" => what(MOVES_PRODUCT, REALLOC),
        b"g_free" => FREE,
        b"PyMem_Malloc" | b"PyMem_RawMalloc" | b"PyObject_Malloc" => MALLOCS,
        b"PyMem_Calloc" | b"PyMem_RawCalloc" | b"PyObject_Calloc" => CALLOCS,
        b"PyMem_Realloc" | b"PyMem_RawRealloc" | b"PyObject_Realloc" => REALLOCS,
        b"PyMem_Free" | b"PyMem_RawFree" | b"PyObject_Free" => FREE,
        b"zmalloc" | b"ztrymalloc" => MALLOCS,
        b"zcalloc" | b"ztrycalloc" => MALLOCS,
        b"zrealloc" | b"ztryrealloc" => REALLOCS,
        b"zfree" => FREE,
        b"palloc" | b"palloc0" => MALLOCS,
        b"MemoryContextAlloc" | b"MemoryContextAllocZero" => what(BYTES_SECOND, MALLOC),
        b"repalloc" => REALLOCS,
        b"pfree" => FREE,
        b"xmalloc" | b"xzalloc" | b"xcharalloc" => MALLOCS,
        b"xcalloc" | b"xnmalloc" => CALLOCS,
        b"xrealloc" => REALLOCS,
        b"xreallocarray" | b"xnrealloc" => what(MOVES_PRODUCT, REALLOC),
        b"__rust_alloc" | b"__rust_alloc_zeroed" => MALLOCS,
        b"__rust_dealloc" => FREE,
        _ => 0,
    }
}
