//! Starting programs: with an injected library, under a plan, or to be sampled.
//!
//! [`target`] finds and checks the program (`sanitizers`: what it was built with), [`inject`]
//! finds the library, [`child`] starts it and passes signals on (`closed`: streams that we were
//! given closed; `guard`: what ends it when we are killed; `early` and [`signals`]: signals that
//! come for it; `words`: its arguments and environment). [`launch`] starts it under a plan
//! (`rebuilt`: of another build), whose [`phases`] may each have a placement; [`data`] is the
//! plan's data.
//!
//! Neighbours: [`exact`](crate::exact) and [`sampled`](crate::sampled) record what runs.

pub mod child;
pub(crate) mod closed;
pub mod data;
pub(crate) mod early;
pub(crate) mod guard;
pub mod inject;
pub mod launch;
pub mod phases;
pub(crate) mod rebuilt;
pub(crate) mod sanitizers;
pub mod signals;
pub mod target;
pub(crate) mod words;
