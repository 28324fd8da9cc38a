//! Writes a C header from Rust's types and constants.

use std::ffi::c_void;
use std::fmt::Write;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// A type that C has, too.
pub trait InC {
    /// A declaration with this declarator: `u32 name[4]`.
    fn declaration(declarator: &str) -> String;
}

macro_rules! in_c {
    ($($rust:ty: $c:literal),* $(,)?) => {
        $(impl InC for $rust {
            fn declaration(declarator: &str) -> String {
                format!("{} {declarator}", $c)
            }
        })*
    };
}
pub(crate) use in_c;

in_c! {
    u8: "uint8_t", u16: "uint16_t", u32: "uint32_t", u64: "uint64_t", i32: "int32_t",
    AtomicU16: "uint16_t", AtomicU32: "uint32_t", AtomicU64: "uint64_t", c_void: "void",
}

impl<T: InC, const N: usize> InC for [T; N] {
    fn declaration(declarator: &str) -> String {
        T::declaration(&format!("{declarator}[{N}]"))
    }
}

impl<T: InC> InC for *mut T {
    fn declaration(declarator: &str) -> String {
        T::declaration(&format!("*{declarator}"))
    }
}

impl<T: InC> InC for *const T {
    fn declaration(declarator: &str) -> String {
        format!("const {}", T::declaration(&format!("*{declarator}")))
    }
}

/// A constant's value as C writes it: of the same width and sign where that matters.
pub trait Literal: Copy {
    fn literal(self) -> String;
}

macro_rules! literal {
    ($($rust:ty: $suffix:literal),*) => {
        $(impl Literal for $rust {
            fn literal(self) -> String {
                format!("{self}{}", $suffix)
            }
        })*
    };
}

literal!(u8: "", u32: "u", u64: "ull", i32: "", i64: "ll");

impl Literal for usize {
    /// Counts and distances, which C takes as `int`.
    fn literal(self) -> String {
        i32::try_from(self).expect("fits an int").to_string()
    }
}

/// The header so far.
#[derive(Default)]
pub struct Header {
    text: String,
}

impl Header {
    pub fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("memory takes it");
    }

    pub fn constant(&mut self, name: &str, value: impl Literal) {
        self.line(&format!("#define {name} {}", value.literal()));
    }

    pub fn variable<T: InC>(&mut self, name: &str) {
        self.line(&format!("extern {};", T::declaration(name)));
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

/// A structure whose fields are added one after the other.
pub struct Structure<'a, T> {
    header: &'a mut Header,
    name: &'a str,
    checks: Vec<String>,
    end: usize,
    of: PhantomData<T>,
}

impl<'a, T> Structure<'a, T> {
    pub fn begin(header: &'a mut Header, name: &'a str) -> Self {
        // Without alignment Rust has packed it.
        let packed = if align_of::<T>() == 1 { "__attribute__((packed)) " } else { "" };
        header.line(&format!("struct {packed}{name} {{"));
        Self { header, name, checks: Vec::new(), end: 0, of: PhantomData }
    }

    /// `_place` only tells the field's type.
    pub fn field<F: InC>(&mut self, name: &str, offset: usize, _place: fn(*const T) -> *const F) {
        assert_eq!(offset, self.end, "{}.{name}: padding must be a field of its own", self.name);
        self.end += size_of::<F>();
        self.header.line(&format!("    {};", F::declaration(name)));
        self.checks.push(format!("offsetof(struct {}, {name}) == {offset}", self.name));
    }

    pub fn end(self) {
        let Self { header, name, mut checks, end, .. } = self;
        assert_eq!(end, size_of::<T>(), "{name}: padding must be a field of its own");
        checks.push(format!("sizeof(struct {name}) == {end}"));
        header.line("};");
        for check in checks {
            header.line(&format!("_Static_assert({check}, \"as in Rust\");"));
        }
    }
}

/// Declares a structure of Rust's in C. All its fields must be named, in their order: one that is
/// left out, or is not there any more, does not compile.
macro_rules! structure {
    ($header:expr, $name:literal = $rust:path { $($field:ident),* $(,)? }) => {{
        let _all_fields = |s: $rust| {
            let $rust { $($field: _),* } = s;
        };
        let mut structure = Structure::<$rust>::begin($header, $name);
        $(
            // SAFETY: only computes the address of a field; it is never called.
            structure.field(stringify!($field), core::mem::offset_of!($rust, $field), |s| unsafe {
                &raw const (*s).$field
            });
        )*
        structure.end();
    }};
}
pub(crate) use structure;

/// Declares constants of Rust's in C.
macro_rules! constants {
    ($header:expr, $($name:ident = $value:expr),* $(,)?) => {
        $($header.constant(stringify!($name), $value);)*
    };
}
pub(crate) use constants;
