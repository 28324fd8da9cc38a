//! Options whose values are a closed set: the set, its names and their meanings come from the crate
//! that defines it, so help, errors and completions list exactly what there is.

use analysis::{MatrixKind, PageSize};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};
use daemon::sense::Wish;
use placement::{DataPolicy, Effort, PolicyKind};
use report::GroupedBy;
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;

/// A value of a closed set.
pub trait Choice: Copy + Send + Sync + 'static {
    /// The whole set, in the order of the help.
    fn all() -> Vec<Self>;
    fn name(self) -> &'static str;
    /// What it means, as a phrase.
    fn summary(self) -> &'static str;
    /// Why `text` is none of them; `None`: in clap's words.
    fn refusal(_text: &str) -> Option<String> {
        None
    }
}

/// Sets that have their values, names and meanings under the same names, and maybe a refusal.
macro_rules! choices {
    ($($set:ty $(, $refusal:item)?;)*) => {$(
        impl Choice for $set {
            fn all() -> Vec<Self> {
                Self::ALL.to_vec()
            }
            fn name(self) -> &'static str {
                self.name()
            }
            fn summary(self) -> &'static str {
                self.summary()
            }
            $($refusal)?
        }
    )*};
}

/// In the words of the set's own parser.
fn refused<T: FromStr<Err: ToString>>(text: &str) -> Option<String> {
    text.parse::<T>().err().map(|error| error.to_string())
}

choices! {
    PolicyKind, fn refusal(text: &str) -> Option<String> { refused::<Self>(text) };
    Effort, fn refusal(text: &str) -> Option<String> { refused::<Self>(text) };
    DataPolicy;
    MatrixKind;
    GroupedBy;
    PageSize;
    Wish;
}

/// Parses a value of `T` by its name. Help does not show some of them.
pub struct OneOf<T>(PhantomData<T>, &'static [&'static str]);

/// The parser for a closed set.
pub fn one_of<T: Choice>() -> OneOf<T> {
    OneOf(PhantomData, &[])
}

/// The same where the verb refuses some of them, in its own words.
pub fn one_of_but<T: Choice>(refused: &'static [&'static str]) -> OneOf<T> {
    OneOf(PhantomData, refused)
}

impl<T> Clone for OneOf<T> {
    fn clone(&self) -> Self {
        Self(PhantomData, self.1)
    }
}

fn values<T: Choice>(hidden: &[&str]) -> Vec<PossibleValue> {
    let value = |one: T| {
        PossibleValue::new(one.name()).help(one.summary()).hide(hidden.contains(&one.name()))
    };
    T::all().into_iter().map(value).collect()
}

impl<T: Choice> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let parse = |text: &str| -> Result<T, String> {
            let found = T::all().into_iter().find(|one| one.name() == text);
            found.ok_or_else(|| T::refusal(text).unwrap_or_default())
        };
        let own_words = value.to_str().is_none_or(|text| T::refusal(text).is_some());
        if !own_words {
            PossibleValuesParser::new(values::<T>(self.1)).parse_ref(command, arg, value)?;
        }
        parse.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(values::<T>(self.1).into_iter()))
    }
}

/// Cost models. Any text passes: besides the names there are numbers and files, and the verb says
/// what is wrong with them. The names are here for completions.
#[derive(Clone)]
pub struct CostNames;

impl TypedValueParser for CostNames {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        clap::builder::StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(topology::CostModel::NAMES.into_iter().map(PossibleValue::new)))
    }
}
