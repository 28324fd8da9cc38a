use super::*;
use crate::samples::paged;

const TABLES: [ProfileTable; 12] = [
    ProfileTable::Threads,
    ProfileTable::Slices,
    ProfileTable::Activity,
    ProfileTable::Comm,
    ProfileTable::Sites,
    ProfileTable::Lines,
    ProfileTable::Events,
    ProfileTable::Pages,
    ProfileTable::Accesses,
    ProfileTable::Touched,
    ProfileTable::Returns,
    ProfileTable::Footprints,
];

fn written(table: ProfileTable, format: TableFormat) -> String {
    let mut out = Vec::new();
    write_table(&paged(), table, format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The rows of an RFC 4180 file, read back by its grammar.
fn parsed(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (vec![], vec![], String::new());
    let mut quoted = false;
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {
                assert_eq!(chars.next(), Some('\n'));
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(row.is_empty() && field.is_empty() && !quoted, "the last line has no end");
    rows
}

#[test]
fn csv_word_for_word() {
    assert_eq!(
        written(ProfileTable::Slices, TableFormat::Csv),
        "slice,start_ns,end_ns\r\n0,0,1000000000\r\n1,1000000000,2000000000\r\n"
    );
    let sites = written(ProfileTable::Sites, TableFormat::Csv);
    let lines: Vec<&str> = sites.split("\r\n").collect();
    assert_eq!(lines[0], "site,address,module,offset,function,file,line,inlined");
    assert_eq!(lines[1], "0,0x0,,0x0,,,0,");
    assert_eq!(
        lines[3],
        "2,0x401138,/home/user/app,0x1138,bump(long*),/home/user/src/a.c,31,\
        worker(int) at /home/user/src/a.c:40; start at /home/user/src/a.c:50"
    );
    assert_eq!(lines[5], "4,0x402000,/home/user/app,0x2000,\"take, \"\"quoted\"\"\",b.c,7,");
    let hottest = written(ProfileTable::Lines, TableFormat::Csv);
    let lines: Vec<&str> = hottest.split("\r\n").collect();
    assert_eq!(lines[1], "0x4040c0,static,counters+0x40..0x80 (app),4,4,0,4000,0,0,400,0,0,exact");
    assert_eq!(lines[3], "0x0,unknown,,1,1,0,0,20,0,0,0,0,exact");
    let events = written(ProfileTable::Events, TableFormat::Csv);
    assert_eq!(
        events.split("\r\n").nth(3),
        Some(
            "0x4040c0,2,3,raw,false,1,2,1000,8-15,0x000000000000ff00,16-23,0x0000000000ff0000,0,\
             exact,0,0,0"
        )
    );
}

#[test]
fn json_word_for_word() {
    assert_eq!(
        written(ProfileTable::Slices, TableFormat::Json),
        "[\n{\"slice\":0,\"start_ns\":0,\"end_ns\":1000000000},\n\
         {\"slice\":1,\"start_ns\":1000000000,\"end_ns\":2000000000}\n]\n"
    );
    let mut empty = paged();
    empty.lines.clear();
    let mut out = Vec::new();
    write_table(&empty, ProfileTable::Lines, TableFormat::Json, &mut out).unwrap();
    assert_eq!(out, b"[\n]\n");
}

#[test]
fn both_formats_say_the_same_of_every_table() {
    for table in TABLES {
        let rows = parsed(&written(table, TableFormat::Csv));
        assert_eq!(rows[0], table.names());
        let json: Vec<serde_json::Map<String, serde_json::Value>> =
            serde_json::from_str(&written(table, TableFormat::Json)).unwrap();
        assert_eq!(json.len(), rows.len() - 1, "{table:?}");
        for (object, row) in json.iter().zip(&rows[1..]) {
            assert_eq!(object.len(), row.len());
            for (name, text) in table.names().iter().zip(row) {
                let value = match &object[*name] {
                    serde_json::Value::String(text) => text.clone(),
                    serde_json::Value::Null => String::new(),
                    number => number.to_string(),
                };
                assert_eq!(value, *text, "{table:?} {name}");
            }
        }
    }
}

#[test]
fn columns_are_those_of_the_schema() {
    for (table, schema) in TABLES.iter().zip([
        &profile::schema::THREADS,
        &profile::schema::SLICES,
        &profile::schema::ACTIVITY,
        &profile::schema::COMM,
        &profile::schema::SITES,
        &profile::schema::LINES,
        &profile::schema::EVENTS,
        &profile::schema::PAGES,
        &profile::schema::ACCESSES,
        &profile::schema::TOUCHED,
        &profile::schema::RETURNS,
        &profile::schema::FOOTPRINTS,
    ]) {
        let mut ours: Vec<_> = table.names().iter().filter(|n| !n.ends_with("_mask")).collect();
        let mut theirs: Vec<_> = schema.columns.iter().map(|column| &column.name).collect();
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{}", schema.name);
    }
}
