//! Rows of a table, as CSV or JSON: see `tables`.

use std::borrow::Cow;
use std::io::{self, Write};

/// A file format for a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableFormat {
    /// Comma-separated values.
    Csv,
    /// A JSON array of objects.
    Json,
}

/// One field.
pub(super) enum Field<'a> {
    Number(u64),
    Real(f64),
    Text(Cow<'a, str>),
    Nothing,
}

impl From<u64> for Field<'_> {
    fn from(number: u64) -> Self {
        Field::Number(number)
    }
}

impl From<u32> for Field<'_> {
    fn from(number: u32) -> Self {
        Field::Number(number.into())
    }
}

impl From<Option<u32>> for Field<'_> {
    fn from(number: Option<u32>) -> Self {
        number.map_or(Field::Nothing, Field::from)
    }
}

impl From<Option<u64>> for Field<'_> {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Field::Nothing, Field::Number)
    }
}

impl From<Option<f64>> for Field<'_> {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Field::Nothing, Field::Real)
    }
}

impl<'a> From<&'a str> for Field<'a> {
    fn from(text: &'a str) -> Self {
        Field::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Field<'a> {
    fn from(text: &'a String) -> Self {
        Field::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Field<'_> {
    fn from(text: String) -> Self {
        Field::Text(Cow::Owned(text))
    }
}

/// Writes rows in a format.
pub(super) struct Rows<'a> {
    names: &'static [&'static str],
    format: TableFormat,
    out: &'a mut dyn Write,
    written: u64,
}

impl<'a> Rows<'a> {
    /// Of columns with these names.
    pub(super) fn new(
        names: &'static [&'static str],
        format: TableFormat,
        out: &'a mut dyn Write,
    ) -> Self {
        Self { names, format, out, written: 0 }
    }

    pub(super) fn start(&mut self) -> io::Result<()> {
        match self.format {
            TableFormat::Csv => write!(self.out, "{}\r\n", self.names.join(",")),
            TableFormat::Json => write!(self.out, "["),
        }
    }

    pub(super) fn row(&mut self, fields: &[Field<'_>]) -> io::Result<()> {
        assert_eq!(fields.len(), self.names.len());
        match self.format {
            TableFormat::Csv => self.csv(fields),
            TableFormat::Json => self.json(fields),
        }?;
        self.written += 1;
        Ok(())
    }

    fn csv(&mut self, fields: &[Field<'_>]) -> io::Result<()> {
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                write!(self.out, ",")?;
            }
            match field {
                Field::Number(number) => write!(self.out, "{number}")?,
                Field::Real(number) => write!(self.out, "{number}")?,
                Field::Text(text) => write!(self.out, "{}", quoted(text))?,
                Field::Nothing => {}
            }
        }
        write!(self.out, "\r\n")
    }

    fn json(&mut self, fields: &[Field<'_>]) -> io::Result<()> {
        write!(self.out, "{}{{", if self.written == 0 { "\n" } else { ",\n" })?;
        for (index, (name, field)) in self.names.iter().zip(fields).enumerate() {
            if index > 0 {
                write!(self.out, ",")?;
            }
            write!(self.out, "\"{name}\":")?;
            match field {
                Field::Number(number) => write!(self.out, "{number}")?,
                Field::Real(number) => write!(self.out, "{number}")?,
                Field::Text(text) => serde_json::to_writer(&mut *self.out, text)?,
                Field::Nothing => write!(self.out, "null")?,
            }
        }
        write!(self.out, "}}")
    }

    pub(super) fn finish(self) -> io::Result<()> {
        if self.format == TableFormat::Json {
            write!(self.out, "\n]\n")?;
        }
        self.out.flush()
    }
}

/// A field of RFC 4180: in quotes where it needs them.
pub(super) fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\r', '\n']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}
