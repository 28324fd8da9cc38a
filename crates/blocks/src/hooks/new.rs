//! C++'s operator new and delete. Those of libstdc++ and libc++ call malloc and free, which are
//! followed; other allocators have their own.

use super::allocation::{due, goes};
use crate::follow;
use crate::pace::Due;
use allocations::chain::Entry;
use allocations::entered;
use allocations::real::real;
use core::ffi::{CStr, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use wire::objects::by;

type Block = *mut u8;
type New = unsafe extern "C-unwind" fn(usize, usize, usize) -> Block;
type Delete = unsafe extern "C-unwind" fn(Block, usize, usize);

/// Libraries whose operators are built on malloc and free.
const STANDARD: [&CStr; 2] = [c"libstdc++.so.6", c"libc++.so.1"];

/// An operator behind ours.
struct Operator {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    /// 1: it is not built on malloc, so that its blocks are to be followed here.
    allocates: AtomicU32,
}

impl Operator {
    const fn new(name: &'static CStr) -> Self {
        let (address, allocates) = (AtomicPtr::new(null_mut()), AtomicU32::new(0));
        Self { name, address, allocates }
    }

    #[inline(always)]
    fn address(&self) -> *mut c_void {
        let known = self.address.load(Acquire);
        if known.is_null() { self.find() } else { known }
    }

    /// Null where the program has no C++ library, not even one that it has loaded for itself.
    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: NUL-terminated names; a library that is there already is not loaded.
        let found = unsafe {
            let next = libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr());
            let hidden = STANDARD.iter().map(|library| {
                let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
                let library = libc::dlopen(library.as_ptr(), flags);
                match library.is_null() {
                    true => null_mut(),
                    false => libc::dlsym(library, self.name.as_ptr()),
                }
            });
            core::iter::once(next).chain(hidden).find(|found| !found.is_null())
        };
        let Some(found) = found else { return null_mut() };
        self.allocates.store(u32::from(!is_standard(found)), Relaxed);
        self.address.store(found, Release);
        found
    }
}

/// Whether a function is of a library that builds it on malloc.
fn is_standard(function: *mut c_void) -> bool {
    // SAFETY: zeroes are a valid `Dl_info`, which the call fills.
    let path = unsafe {
        let mut found: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(function, &mut found) == 0 || found.dli_fname.is_null() {
            return false;
        }
        CStr::from_ptr(found.dli_fname).to_bytes()
    };
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libstdc++") || name.starts_with(b"libc++")
}

/// Calls an operator new, which may throw through here.
#[inline(always)]
unsafe fn allocate(operator: &Operator, arguments: [usize; 3], by: u32, entry: Entry) -> Block {
    let [bytes, a, b] = arguments;
    let address = operator.address();
    if address.is_null() {
        return without_library(bytes);
    }
    // SAFETY: an operator new; arguments that it has not are ignored.
    let call = unsafe { core::mem::transmute::<*mut c_void, New>(address) };
    let allocates = operator.allocates.load(Relaxed) != 0;
    let due = if allocates { due(bytes, entry.stack) } else { Due::Not };
    if due == Due::Not {
        // SAFETY: the program's own call.
        return unsafe { call(bytes, a, b) };
    }
    // SAFETY: the program's own call.
    let block = unsafe { call(bytes, a, b) };
    follow::begins(block, bytes, by, (entry, due));
    block
}

/// No exception can be thrown without a library to do it.
#[cold]
fn without_library(bytes: usize) -> Block {
    let malloc = real!(MALLOC as unsafe extern "C" fn(usize) -> Block);
    // SAFETY: the program's own call.
    let block = malloc.map_or(null_mut(), |malloc| unsafe { malloc(bytes.max(1)) });
    if block.is_null() {
        // SAFETY: no arguments.
        unsafe { libc::abort() };
    }
    block
}

macro_rules! news {
    ($count:tt: $by:expr; $($name:ident = $rust:ident),*) => {
        entered!($count: $($name = $rust),*);
        $(news!(@body $count $name $rust $by);)*
    };
    (@body 1 $name:ident $rust:ident $by:expr) => {
        unsafe extern "C-unwind" fn $rust(bytes: usize, stack: u64, rbp: u64) -> Block {
            news!(@call $name, [bytes, 0, 0], $by, stack, rbp)
        }
    };
    (@body 2 $name:ident $rust:ident $by:expr) => {
        unsafe extern "C-unwind" fn $rust(bytes: usize, a: usize, stack: u64, rbp: u64) -> Block {
            news!(@call $name, [bytes, a, 0], $by, stack, rbp)
        }
    };
    (@body 3 $name:ident $rust:ident $by:expr) => {
        unsafe extern "C-unwind" fn $rust(
            bytes: usize,
            a: usize,
            b: usize,
            stack: u64,
            rbp: u64,
        ) -> Block {
            news!(@call $name, [bytes, a, b], $by, stack, rbp)
        }
    };
    (@call $name:ident, $arguments:expr, $by:expr, $stack:ident, $rbp:ident) => {{
        static OPERATOR: Operator = Operator::new(name!($name));
        // SAFETY: the program's own call.
        unsafe { allocate(&OPERATOR, $arguments, $by, Entry { stack: $stack, rbp: $rbp }) }
    }};
}

/// The name of a function, NUL-terminated.
macro_rules! name {
    ($name:ident) => {
        match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        }
    };
}

news!(1: by::NEW; _Znwm = new_from);
news!(1: by::NEW_ARRAY; _Znam = new_array_from);
news!(2: by::NEW; _ZnwmRKSt9nothrow_t = new_nothrow_from, _ZnwmSt11align_val_t = new_aligned_from);
news!(2: by::NEW_ARRAY; _ZnamRKSt9nothrow_t = array_nothrow_from, _ZnamSt11align_val_t = array_aligned_from);
news!(3: by::NEW; _ZnwmSt11align_val_tRKSt9nothrow_t = new_aligned_nothrow_from);
news!(3: by::NEW_ARRAY; _ZnamSt11align_val_tRKSt9nothrow_t = array_aligned_nothrow_from);

macro_rules! deletes {
    ($($name:ident),*) => {$(
        /// # Safety
        /// As for the operator.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(non_snake_case, reason = "C++'s name")]
        pub unsafe extern "C-unwind" fn $name(block: Block, a: usize, b: usize) {
            static OPERATOR: Operator = Operator::new(name!($name));
            goes(block);
            let address = OPERATOR.address();
            if address.is_null() {
                let free = real!(FREE as unsafe extern "C" fn(Block));
                // SAFETY: where there is no library, malloc has given it.
                return free.map_or((), |free| unsafe { free(block) });
            }
            // SAFETY: an operator delete; arguments that it has not are ignored.
            unsafe { core::mem::transmute::<*mut c_void, Delete>(address)(block, a, b) }
        }
    )*};
}

deletes!(
    _ZdlPv,
    _ZdaPv,
    _ZdlPvm,
    _ZdaPvm,
    _ZdlPvRKSt9nothrow_t,
    _ZdaPvRKSt9nothrow_t,
    _ZdlPvSt11align_val_t,
    _ZdaPvSt11align_val_t,
    _ZdlPvmSt11align_val_t,
    _ZdaPvmSt11align_val_t,
    _ZdlPvSt11align_val_tRKSt9nothrow_t,
    _ZdaPvSt11align_val_tRKSt9nothrow_t
);
