//! The cells of custom resources: columns that a definition names by JSONPath (spec api-surface §4.2).

use super::{
    age::Moment,
    cell::Row,
    node::{Node, Want},
    path::{self, Step},
    walk::walk,
    work::Work,
};
use crate::encode;
use model::PrinterColumn;

/// Bytes of the cells of one row, behind which no further cell has a value: thousands of columns may each show all of a large object.
const CELLS_BYTES_MAX: usize = 8 << 20;

/// The columns of one served version.
#[derive(Debug)]
pub(super) struct Columns(Vec<Column>);

#[derive(Debug)]
struct Column {
    steps: Vec<Step>,
    kind: Kind,
}

/// The types of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Date,
    /// A type that does not exist: its cells are null.
    Other,
}

impl Columns {
    /// Those that a definition names, up to the first path that is none; gives how many of them there are.
    pub(super) fn parse(named: &[PrinterColumn]) -> Self {
        let parsed = |column: &PrinterColumn| Some(Column { steps: path::parse(&column.path).ok()?, kind: Kind::of(&column.kind) });
        Self(named.iter().map_while(parsed).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The parts of an object that the cells are made of.
    pub(super) fn want(&self) -> Want {
        let mut want = Want::paths(&["metadata.name"]);
        for column in &self.0 {
            want.add(column.steps.iter().map_while(|step| match step {
                Step::Field(name) => Some(&**name),
                _ => None,
            }));
        }
        want
    }

    /// Writes the cells.
    pub(super) fn print(&self, object: &Node<'_>, row: &mut Row<'_>, work: &mut Work) {
        let start = row.bytes();
        row.name(object);
        for column in &self.0 {
            if row.bytes() - start > CELLS_BYTES_MAX || work.is_over() {
                row.null();
                continue;
            }
            match walk(object, &column.steps, work).ok().and_then(|found| found.first().copied()) {
                Some(value) => cell(column.kind, value, row),
                None => {
                    row.null();
                }
            }
        }
    }
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "string" => Self::Text,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            _ => Self::Other,
        }
    }
}

fn cell(kind: Kind, value: &Node<'_>, row: &mut Row<'_>) {
    match (kind, value) {
        (Kind::Text, value) => row.text(&printed(value)),
        (Kind::Integer, Node::Int(n)) => row.int(*n),
        (Kind::Integer, Node::Float(f)) => row.int(truncated(*f)),
        #[expect(clippy::cast_precision_loss, reason = "Go converts the int64 to a float64 as well")]
        (Kind::Number, Node::Int(n)) => row.float(*n as f64),
        (Kind::Number, Node::Float(f)) => row.float(*f),
        (Kind::Boolean, Node::Bool(value)) => row.flag(*value),
        (Kind::Date, Node::Text(text)) => {
            let age = date(text, row);
            row.text(&age)
        }
        _ => row.null(),
    };
}

/// Go's `int64(f)` on amd64: what does not fit becomes the smallest one.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range is tested")]
fn truncated(f: f64) -> i64 {
    if (i64::MIN as f64..i64::MAX as f64).contains(&f) { f as i64 } else { i64::MIN }
}

/// An empty text is Go's zero time.
fn date(text: &str, row: &Row<'_>) -> String {
    if matches!(text, "" | "null") {
        return row.elapsed(None).into_owned();
    }
    match Moment::parse(text) {
        Some(moment) => row.elapsed(Some(moment).filter(|moment| !moment.is_zero())).into_owned(),
        None => "<invalid>".to_owned(),
    }
}

/// A value as Go's `fmt.Fprint` tells it, arrays and objects as JSON.
fn printed(value: &Node<'_>) -> String {
    match value {
        Node::Null => "<no value>".to_owned(),
        Node::Bool(value) => value.to_string(),
        Node::Int(n) => n.to_string(),
        Node::Float(f) => fprint(*f),
        Node::Text(text) => text.to_string(),
        Node::Array(_) | Node::Object(_) => {
            let mut out = Vec::new();
            value.json_into(&mut out);
            String::from_utf8(out).expect("the encoder writes UTF-8")
        }
    }
}

/// `%v` of a float: the shortest digits, an exponent of two digits below 1e-4 and from 1e21 on.
fn fprint(f: f64) -> String {
    if f == 0.0 || (1e-4..1e21).contains(&f.abs()) {
        return format!("{f}");
    }
    let text = format!("{f:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// One column definition as JSON.
pub(super) fn definition(column: &PrinterColumn) -> String {
    let told = format!("Custom resource definition column (in JSONPath format): {}", column.path);
    let description = if column.description.is_empty() { &told } else { &column.description };
    let mut out = Vec::new();
    for (name, value) in
        [("{\"name\":", &column.name), (",\"type\":", &column.kind), (",\"format\":", &column.format), (",\"description\":", description)]
    {
        out.extend_from_slice(name.as_bytes());
        encode::string_into(value, &mut out);
    }
    out.extend_from_slice(format!(",\"priority\":{}}}", column.priority).as_bytes());
    String::from_utf8(out).expect("the encoder writes UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{age::Moment, work::OfAnswer};

    /// Each of thousands of columns showed the whole object.
    #[test]
    fn the_cells_of_a_row_are_bounded() {
        let column = PrinterColumn { name: "All".into(), kind: "string".into(), path: ".spec".into(), ..PrinterColumn::default() };
        let columns = Columns::parse(&vec![column; 1_000]);
        let json = format!(r#"{{"metadata":{{"name":"a"}},"spec":"{}"}}"#, "x".repeat(1 << 20));
        let mut out = Vec::new();
        let mut row = Row::open(Moment::since_epoch(std::time::Duration::ZERO), &mut out);
        columns.print(&Node::read(json.as_bytes(), &columns.want()).expect("JSON"), &mut row, &mut Work::new(None));
        row.close();
        let cells: Vec<serde_json::Value> = serde_json::from_slice(&out).expect("JSON");
        let shown = cells.iter().filter(|cell| !cell.is_null()).count();
        assert_eq!((cells.len(), shown), (1_001, 9));
        assert!(out.len() < CELLS_BYTES_MAX + (2 << 20));
    }

    fn cells(columns: &Columns, json: &str, work: &mut Work) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        let mut row = Row::open(Moment::since_epoch(std::time::Duration::ZERO), &mut out);
        columns.print(&Node::read(json.as_bytes(), &columns.want()).expect("JSON"), &mut row, work);
        row.close();
        serde_json::from_slice(&out).expect("JSON")
    }

    fn column(path: &str) -> PrinterColumn {
        PrinterColumn { name: "All".into(), kind: "string".into(), path: path.into(), ..PrinterColumn::default() }
    }

    /// Each of hundreds of columns looked at as much as one may, and each row of an answer at as much as one row may.
    #[test]
    fn what_the_columns_of_an_answer_look_at_is_counted_in_all() {
        let json = format!(r#"{{"metadata":{{"name":"a"}},"spec":{}1{}}}"#, r#"{"a":"#.repeat(60), "}".repeat(60));
        let union = format!(".spec{}", "['a','a','a','a']".repeat(40));
        for path in [".spec..a..a", ".spec..a.*..a", &union] {
            let columns = Columns::parse(&vec![column(path); 800]);
            let answer = OfAnswer::of_rows(3);
            let mut last = Vec::new();
            for _ in 0..4 {
                last = cells(&columns, &json, &mut Work::new(Some(&answer)));
                assert_eq!(last.len(), 801, "{path}");
                assert!(last[800].is_null(), "{path}: there is no room for so many");
            }
            assert!(last[0].is_string() && last[1..].iter().all(serde_json::Value::is_null), "{path}: the answer has had its part");
            assert!(Work::new(Some(&answer)).is_over(), "{path}");
        }
    }

    #[test]
    fn a_large_object_is_looked_through() {
        let items: Vec<String> = (0..10_000).map(|at| format!(r#"{{"t":"x{at}","v":{at}}}"#)).collect();
        let json = format!(r#"{{"metadata":{{"name":"a"}},"spec":[{}]}}"#, items.join(","));
        let columns = Columns::parse(&[column(r#".spec[?(@.t=="x9999")].v"#), column(".spec[-1].v")]);
        let cells = cells(&columns, &json, &mut Work::new(None));
        assert_eq!(cells[1..], ["9999", "9999"]);
    }
}
