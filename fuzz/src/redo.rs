//! Redo records as a log keeps them (`atoll_storage::redo`), and their application to a table.
//!
//! Any bytes are refused, or decode to changes that encode to an equal record. A change is applied
//! like in a model of the table, or is refused without any effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use atoll_machine::Native;
use atoll_memory::{Memory, Store, StoreOptions, SwingConfig, SwingMalloc};
use atoll_storage::image::Plain;
use atoll_storage::redo::{self, Changes, Kind};
use atoll_storage::{
    Change, Column, DataType, Directory, RowId, SEGMENT_ROWS, Schema, SegmentBuffer, Shown, Table,
    TableSerial, Value,
};

use super::input::Input;

const SEGMENTS: u64 = 2;

/// Of each changed row: whether it is present, and its bytes.
type Model = BTreeMap<u64, (bool, Vec<Option<Vec<u8>>>)>;

/// See the module.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut payload = Vec::new();
    while !input.is_empty() && payload.len() < 1 << 16 {
        if input.byte() % 8 == 0 {
            payload.extend_from_slice(input.bytes(32));
        } else {
            change(&mut input, &mut payload);
        }
    }
    read_again(&payload);
    let (table, memory) = table();
    let mut member = memory.join().unwrap();
    let mut model = Model::new();
    let mut columns = table.first_columns();
    for read in Changes::new(&payload) {
        let Some(read) = read else { break };
        let section = member.enter();
        let change = Change::forward(section.inside());
        if read.head.kind == Kind::Column {
            if let Ok(known) = table.redo_column(columns, &read.cells) {
                assert_eq!(known, columns + 1);
                columns = known;
                check(&column_at(&table, known - 1).0, read.cells[1].1);
            }
        } else if table.redo(change, columns, read.head, &read.cells).is_ok() {
            apply(&mut model, (&table, columns), &read);
        }
        drop(section);
    }
    compare(&model, &table);
    let section = member.enter();
    let change = Change::forward(section.inside());
    assert_eq!(table.widen(change, 0).unwrap(), None);
    table.end_restore();
    drop(section);
    compare(&model, &table);
    // Rows that never got another value have that of the column.
    for at in table.first_columns()..columns {
        let (column, constant) = column_at(&table, at);
        for (row, (is_there, values)) in &model {
            if *is_there && values.len() <= at {
                assert_eq!(stored(&table, RowId(*row), at), as_stored(&column, constant.clone()));
            }
        }
    }
}

/// A column that was added, and the value with which it began.
fn column_at(table: &Table<Native>, at: usize) -> (Column, Option<Vec<u8>>) {
    let (column, constant) = table.columns_from(at).next().unwrap();
    (column.clone(), constant.map(<[u8]>::to_vec))
}

/// The columns of which a table has values.
fn columns_of(table: &Table<Native>, count: usize) -> Vec<Column> {
    let first = table.schema().columns().iter().take(table.first_columns());
    first.cloned().chain((table.first_columns()..count).map(|at| column_at(table, at).0)).collect()
}

fn stored(table: &Table<Native>, row: RowId, at: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    table.plain_into(table.slot(row), at, &mut bytes).then_some(bytes)
}

/// A value as a table gives it back.
fn as_stored(column: &Column, value: Option<Vec<u8>>) -> Option<Vec<u8>> {
    value.map(|bytes| match column.data_type {
        DataType::Bool => vec![u8::from(bytes[0] != 0)],
        _ => bytes,
    })
}

/// A column that is added, which may be valid.
fn new_column(input: &mut Input<'_>, out: &mut Vec<u8>) {
    let data_type = [DataType::Int64, DataType::Text, DataType::Bool][input.below(3)];
    let name = format!("new {}", input.below(4));
    let column = match input.flag() {
        true => Column::nullable(name, data_type),
        false => Column::new(name, data_type),
    };
    let bytes = match data_type {
        DataType::Text => b"abcdefghijklmnop"[..input.below(16)].to_vec(),
        _ => vec![input.byte() & 1; data_type.width().max(1)],
    };
    let at = schema().columns().len() + input.below(3);
    let plain = (!column.nullable || input.flag()).then_some(&bytes[..]);
    redo::column(out, TableSerial(0), at, &column, plain);
}

/// A loaded segment that may be valid for the table; some of its bytes may be others.
fn segment(input: &mut Input<'_>, out: &mut Vec<u8>) {
    let mut rows = SegmentBuffer::new(&schema());
    for number in 0..input.below(20) {
        let text = "abcdefg €".repeat(input.below(4));
        let or_null = |value, is_null| if is_null { Value::Null } else { value };
        rows.push(&[
            Value::Int64(number as i64),
            or_null(Value::Text(text.clone()), input.flag()),
            or_null(Value::Bool(input.flag()), input.flag()),
            Value::Float64(1.5),
            Value::Binary(vec![input.byte(); 3]),
            or_null(Value::Binary(text.into_bytes()), input.flag()),
        ]);
    }
    let from = out.len();
    rows.write_down(TableSerial(0), input.below(3) as u64, out);
    if input.flag() {
        let at = from + input.below(out.len() - from);
        out[at] = input.byte();
    }
}

/// A change that may be valid for the table.
fn change(input: &mut Input<'_>, out: &mut Vec<u8>) {
    let schema = schema();
    match input.below(16) {
        0 | 1 => return segment(input, out),
        2 => return new_column(input, out),
        _ => {}
    }
    let kind = [Kind::Put, Kind::Put, Kind::Update, Kind::Delete][input.below(4)];
    let row = match input.byte() {
        byte @ 0..240 => u64::from(byte % 8) + u64::from(byte / 120) * SEGMENT_ROWS as u64,
        _ => input.number(),
    };
    if kind == Kind::Delete {
        return redo::delete(out, TableSerial(0), RowId(row));
    }
    let begun = redo::begin(out, TableSerial(0), RowId(row), kind);
    let odd = input.byte();
    let more = (0..input.below(3)).map(|at| Column::nullable(format!("{at}"), DataType::Text));
    let columns: Vec<Column> = schema.columns().iter().cloned().chain(more).collect();
    for (at, column) in columns.iter().enumerate() {
        if at < 6 && odd >> at & 1 == 1 && input.flag() {
            let at = input.below(8);
            redo::cell(out, at, Some(input.bytes(40)));
            continue;
        }
        let len = match column.data_type.width() {
            _ if column.data_type.is_view() => input.below(40),
            width => width.max(1),
        };
        let byte = input.byte();
        let bytes: Vec<u8> = (0..len).map(|at| b'a' ^ byte & 7 ^ at as u8 & 1).collect();
        let plain = (!column.nullable || byte & 8 == 0).then_some(&bytes[..]);
        redo::cell(out, at, plain);
    }
    redo::end(out, begun);
}

fn read_again(payload: &[u8]) {
    let changes: Vec<_> = Changes::new(payload).collect();
    let whole: Vec<_> = changes.iter().flatten().collect();
    let mut again = Vec::new();
    for change in &whole {
        if change.head.kind == Kind::Delete {
            redo::delete(&mut again, change.head.table, change.head.row);
            continue;
        }
        let begun = redo::begin(&mut again, change.head.table, change.head.row, change.head.kind);
        change.cells.iter().for_each(|(at, plain)| redo::cell(&mut again, *at, *plain));
        redo::end(&mut again, begun);
    }
    let read: Vec<_> = Changes::new(&again).map(Option::unwrap).collect();
    assert!(read.iter().eq(whole), "what was read is written as something else");
}

fn schema() -> Schema {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::nullable("text", DataType::Text),
        Column::nullable("flag", DataType::Bool),
        Column::new("price", DataType::Float64),
        Column::new("tag", DataType::FixedBinary(3)),
        Column::nullable("bytes", DataType::Binary),
    ];
    Schema::new(columns, &["id"]).unwrap()
}

fn table() -> (Table<Native>, Arc<Memory>) {
    let config = SwingConfig { buddy_bytes: 64 << 20, ..SwingConfig::default() };
    let capacity_bytes = SwingMalloc::capacity_for(&config);
    let options = StoreOptions { capacity_bytes, limit_bytes: 64 << 20, huge_pages: false };
    let store = Arc::new(Store::create_memfd("atoll-fuzz", &options).unwrap());
    let swing = SwingMalloc::create(Arc::clone(&store), &config).unwrap();
    let memory = Arc::new(Memory::new(store, swing));
    let directory = Arc::new(Directory::create(Arc::clone(&memory)).unwrap());
    let mut member = memory.join().unwrap();
    let section = member.enter();
    let change = Change::forward(section.inside());
    let table =
        Table::create(&directory, change, (TableSerial(0), Shown::Yes), "table", (schema(), &[]))
            .unwrap();
    table.add_segments(change, SEGMENTS).unwrap();
    drop(section);
    drop(member);
    (table, memory)
}

fn apply(model: &mut Model, (table, known): (&Table<Native>, usize), change: &redo::Change<'_>) {
    assert!(change.head.row.segment() < SEGMENTS);
    let columns = columns_of(table, known);
    if change.head.kind == Kind::Segment {
        for row in (0..SEGMENT_ROWS).map(|slot| RowId::new(change.head.row.segment(), slot)) {
            let before = model.get(&row.0);
            assert!(before.is_none_or(|(is_there, _)| !is_there), "a load replaces no row");
            if !table.is_present(row) {
                continue;
            }
            let values: Vec<_> = (0..known).map(|at| stored(table, row, at)).collect();
            columns.iter().zip(&values).for_each(|(column, one)| check(column, one.as_deref()));
            model.insert(row.0, (true, values));
        }
        return;
    }
    let (is_there, values) =
        model.entry(change.head.row.0).or_insert_with(|| (false, vec![None; columns.len()]));
    if change.head.kind == Kind::Put {
        values.clear();
        values.resize(known, None);
        let mut given: Vec<usize> = change.cells.iter().map(|(at, _)| *at).collect();
        given.sort_unstable();
        assert!(given.into_iter().eq(0..columns.len()), "a row has each column once: {change:?}");
    }
    // The row is older than some columns.
    for at in values.len()..known {
        values.push(column_at(table, at).1);
    }
    for (at, plain) in &change.cells {
        check(&columns[*at], *plain);
        values[*at] = plain.map(<[u8]>::to_vec);
    }
    match change.head.kind {
        Kind::Put => *is_there = true,
        Kind::Update => {}
        Kind::Delete => *is_there = false,
        Kind::Segment | Kind::Column => unreachable!("it was handled above"),
    }
}

/// Checks that a value is valid for a column.
fn check(column: &Column, plain: Plain<'_>) {
    let Some(bytes) = plain else { return assert!(column.nullable) };
    match column.data_type {
        DataType::Text => assert!(std::str::from_utf8(bytes).is_ok()),
        DataType::Binary => {}
        data_type => assert_eq!(bytes.len(), data_type.width().max(1)),
    }
}

fn compare(model: &Model, table: &Table<Native>) {
    let count = model.values().filter(|(is_there, _)| *is_there).count();
    assert_eq!(table.row_count(), count as u64);
    let columns = columns_of(table, table.stored_columns());
    for (row, (is_there, values)) in model {
        let row = RowId(*row);
        assert_eq!(table.is_present(row), *is_there);
        if !is_there {
            continue;
        }
        for (at, wanted) in values.iter().enumerate() {
            let wanted = as_stored(&columns[at], wanted.clone());
            assert_eq!(stored(table, row, at), wanted, "{row:?}, column {at}");
        }
    }
}
