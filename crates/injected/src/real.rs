//! The functions that we stand in front of: the next definition after ours, looked up once each.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function that the hook of the same name forwards to.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    /// The next function called `name`.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address; null when no library has it.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: a NUL-terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Relaxed);
        found
    }
}

/// `next!(name: fn type)` is the next function of that name as `Option` of that type. `None` can
/// only happen in a program without that library; the hook then reports ENOSYS.
#[macro_export]
macro_rules! next {
    ($name:literal : $type:ty) => {{
        static NEXT: $crate::real::Next = $crate::real::Next::new($name);
        let address = NEXT.address();
        // SAFETY: a function of the C library, whose type is as its header declares; a null
        // address is `None`.
        unsafe { core::mem::transmute::<*mut core::ffi::c_void, Option<$type>>(address) }
    }};
}
pub use next;
