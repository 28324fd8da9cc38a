//! Flat Parquet files: columns in memory to bytes and back.
//!
//! One row group, Snappy, dictionary encoding where it pays (the writer's default), written with
//! the column API of the `parquet` crate. Knows nothing about what the columns mean. Neighbours:
//! `schema` describes the tables, `rows` fills them.

use crate::schema::{Column, ColumnType, Table};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::sync::Arc;

/// A text in a column. Cheap to copy: texts of a dictionary and fixed names share their bytes.
pub(crate) type Text = ByteArray;

/// A name that many rows have.
pub(crate) fn name(name: &'static str) -> Text {
    bytes::Bytes::from_static(name.as_bytes()).into()
}

/// The values of one column.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Data {
    U32(Vec<u32>),
    OptionalU32(Vec<Option<u32>>),
    U64(Vec<u64>),
    OptionalU64(Vec<Option<u64>>),
    Text(Vec<Text>),
}

impl Data {
    pub(crate) fn len(&self) -> usize {
        match self {
            Data::U32(values) => values.len(),
            Data::OptionalU32(values) => values.len(),
            Data::U64(values) => values.len(),
            Data::OptionalU64(values) => values.len(),
            Data::Text(values) => values.len(),
        }
    }
}

/// The Parquet file of `table` with these columns, in the order of the table's schema and of equal
/// length.
pub(crate) fn encode(table: &Table, columns: &[Data]) -> Result<Vec<u8>, ParquetError> {
    assert_eq!(columns.len(), table.columns.len(), "columns of {}", table.name);
    assert!(columns.iter().all(|c| c.len() == columns[0].len()), "lengths in {}", table.name);
    let fields = table.columns.iter().map(field).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder(table.name).with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for data in columns {
        write_column(&mut group, data)?;
    }
    group.close()?;
    file.into_inner()
}

fn field(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let unsigned = |bit_width| LogicalType::integer(bit_width, false);
    let (physical, logical) = match column.column_type {
        ColumnType::U32 | ColumnType::OptionalU32 => (Physical::INT32, unsigned(32)),
        ColumnType::U64 | ColumnType::OptionalU64 => (Physical::INT64, unsigned(64)),
        ColumnType::Text => (Physical::BYTE_ARRAY, LogicalType::String),
    };
    let repetition = match column.column_type {
        ColumnType::OptionalU32 | ColumnType::OptionalU64 => Repetition::OPTIONAL,
        _ => Repetition::REQUIRED,
    };
    let builder = Type::primitive_type_builder(column.name, physical);
    Ok(Arc::new(builder.with_repetition(repetition).with_logical_type(Some(logical)).build()?))
}

/// Parquet has no unsigned physical types: the casts keep the bits, the logical type says so.
fn write_column(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    data: &Data,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("the schema has one column per Data");
    match data {
        Data::U32(values) => {
            let values: Vec<i32> = values.iter().map(|&v| v as i32).collect();
            column.typed::<Int32Type>().write_batch(&values, None, None)?;
        }
        Data::OptionalU32(values) => {
            let present: Vec<i32> = values.iter().flatten().map(|&v| v as i32).collect();
            column.typed::<Int32Type>().write_batch(&present, Some(&levels(values)), None)?;
        }
        Data::OptionalU64(values) => {
            let present: Vec<i64> = values.iter().flatten().map(|&v| v as i64).collect();
            column.typed::<Int64Type>().write_batch(&present, Some(&levels(values)), None)?;
        }
        Data::U64(values) => {
            let values: Vec<i64> = values.iter().map(|&v| v as i64).collect();
            column.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Data::Text(values) => {
            column.typed::<ByteArrayType>().write_batch(values, None, None)?;
        }
    }
    column.close()
}

/// Definition levels: 1 where there is a value.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

/// The values of an optional column at their rows.
fn spread<T>(values: impl IntoIterator<Item = T>, levels: &[i16]) -> Vec<Option<T>> {
    let mut values = values.into_iter();
    levels.iter().map(|&level| if level > 0 { values.next() } else { None }).collect()
}

/// The columns of `table` in a Parquet file; columns that the schema does not know are ignored.
/// Errors are phrases.
pub(crate) fn decode(table: &Table, bytes: Vec<u8>) -> Result<Vec<Data>, String> {
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(phrase)?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let mut columns = Vec::new();
    for column in table.columns {
        let index = (0..schema.num_columns()).find(|&i| schema.column(i).name() == column.name);
        let index = index.ok_or_else(|| format!("it has no column '{}'", column.name))?;
        if field(column).map_err(phrase)?.as_ref() != schema.column(index).self_type() {
            return Err(format!("its column '{}' has another type", column.name));
        }
        columns.push(read_column(&file, index, column.column_type)?);
    }
    Ok(columns)
}

fn phrase(error: ParquetError) -> String {
    error.to_string()
}

fn read_column(
    file: &SerializedFileReader<bytes::Bytes>,
    index: usize,
    column_type: ColumnType,
) -> Result<Data, String> {
    let (mut ints, mut longs, mut texts, mut levels) = (vec![], vec![], vec![], vec![]);
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).map_err(phrase)?;
        let group = group.as_ref();
        match column_type {
            ColumnType::U32 => read_values::<Int32Type>(group, index, &mut ints, None),
            ColumnType::OptionalU32 => {
                read_values::<Int32Type>(group, index, &mut ints, Some(&mut levels))
            }
            ColumnType::U64 => read_values::<Int64Type>(group, index, &mut longs, None),
            ColumnType::OptionalU64 => {
                read_values::<Int64Type>(group, index, &mut longs, Some(&mut levels))
            }
            ColumnType::Text => read_values::<ByteArrayType>(group, index, &mut texts, None),
        }
        .map_err(phrase)?;
    }
    Ok(match column_type {
        ColumnType::U32 => Data::U32(ints.into_iter().map(|v| v as u32).collect()),
        ColumnType::OptionalU32 => {
            Data::OptionalU32(spread(ints.into_iter().map(|v| v as u32), &levels))
        }
        ColumnType::OptionalU64 => {
            Data::OptionalU64(spread(longs.into_iter().map(|v| v as u64), &levels))
        }
        ColumnType::U64 => Data::U64(longs.into_iter().map(|v| v as u64).collect()),
        ColumnType::Text => {
            texts.iter().try_for_each(|text: &Text| text.as_utf8().map(drop)).map_err(phrase)?;
            Data::Text(texts)
        }
    })
}

fn read_values<T: DataType>(
    group: &dyn RowGroupReader,
    index: usize,
    values: &mut Vec<T::T>,
    levels: Option<&mut Vec<i16>>,
) -> Result<(), ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(index)?);
    let (read, _, _) = reader.read_records(rows, levels, None, values)?;
    if read != rows {
        return Err(ParquetError::General(format!("{read} of {rows} rows could be read")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table {
        name: "mixed",
        doc: "",
        columns: &[
            Column { name: "a", column_type: ColumnType::U32, doc: "" },
            Column { name: "b", column_type: ColumnType::OptionalU32, doc: "" },
            Column { name: "c", column_type: ColumnType::U64, doc: "" },
            Column { name: "d", column_type: ColumnType::Text, doc: "" },
            Column { name: "e", column_type: ColumnType::OptionalU64, doc: "" },
        ],
    };

    fn columns(rows: u32) -> Vec<Data> {
        vec![
            Data::U32((0..rows).map(|i| u32::MAX - i).collect()),
            Data::OptionalU32((0..rows).map(|i| (i % 3 != 0).then_some(i)).collect()),
            Data::U64((0..rows).map(|i| u64::MAX - u64::from(i) * 7919).collect()),
            Data::Text((0..rows).map(|i| format!("é{}", i % 5).as_str().into()).collect()),
            Data::OptionalU64((0..rows).map(|i| (i % 2 == 0).then_some(u64::MAX)).collect()),
        ]
    }

    #[test]
    fn columns_come_back_as_they_were() {
        for rows in [0, 1, 100_000] {
            let bytes = encode(&TABLE, &columns(rows)).unwrap();
            assert_eq!(decode(&TABLE, bytes).unwrap(), columns(rows));
        }
    }

    #[test]
    fn missing_and_changed_columns_are_named() {
        let bytes = encode(&TABLE, &columns(2)).unwrap();
        let more = Table {
            columns: &[Column { name: "z", column_type: ColumnType::U32, doc: "" }],
            ..TABLE
        };
        assert_eq!(decode(&more, bytes.clone()).unwrap_err(), "it has no column 'z'");
        let other = Table {
            columns: &[Column { name: "a", column_type: ColumnType::U64, doc: "" }],
            ..TABLE
        };
        assert_eq!(decode(&other, bytes).unwrap_err(), "its column 'a' has another type");
    }

    #[test]
    fn other_bytes_are_an_error() {
        assert!(decode(&TABLE, b"PAR1 and not more".to_vec()).is_err());
    }
}
