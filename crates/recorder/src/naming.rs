//! What lies at addresses, in words: of exact recordings and of sampled ones.
//!
//! `places` names code and data (`regions`: kinds of memory; `thread_memory`: whose stack;
//! `stack_variables`: what is on it; `static_lines`: static data;
//! `frames`: functions on the way up), `objects` what memory was for (`allocated`: as it is told;
//! `object_texts`: in words; `alike`: in which order;
//! `elements`: what it consists of), `pages` makes rows of pages, `unnamed` tells what has no
//! names.
//!
//! Neighbours: `symbols` reads debugging information, [`kept`](crate::kept) has names of earlier
//! recordings.

pub(crate) mod alike;
pub(crate) mod allocated;
pub(crate) mod elements;
pub(crate) mod frames;
pub(crate) mod object_texts;
pub(crate) mod objects;
pub(crate) mod pages;
pub(crate) mod places;
pub(crate) mod regions;
pub(crate) mod stack_variables;
pub(crate) mod static_lines;
pub(crate) mod thread_memory;
pub(crate) mod unnamed;
