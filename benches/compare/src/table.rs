//! The figures of a run and the table they become. Knows rows and units, not how a figure was taken.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::header::Header;
use crate::peers::Side;

/// One figure's meaning.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Names the row in the JSON output.
    pub(crate) key: String,
    /// What was done.
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    /// Whether the quotient of the two subjects says something: not for the cost of the load generator, nor for latencies around zero.
    pub(crate) ratio: bool,
}

/// All figures of a run, in the order of their first appearance.
#[derive(Default)]
pub(crate) struct Figures {
    rows: Vec<Row>,
    values: BTreeMap<(String, bool), Vec<f64>>,
    notes: Vec<String>,
    /// Stands before titles and keys of the rows that are added.
    scope: Option<String>,
}

impl Figures {
    /// Adds one round's value; the row's place is where it was first seen.
    pub(crate) fn add(&mut self, side: Side, mut row: Row, value: f64) {
        if let Some(scope) = &self.scope {
            row.key = format!("{scope}: {}", row.key);
            row.title = format!("{scope}: {}", row.title);
        }
        self.values.entry((row.key.clone(), side == Side::Ours)).or_default().push(value);
        if !self.rows.iter().any(|known| known.key == row.key) {
            self.rows.push(row);
        }
    }

    /// All rows added from now on belong to this.
    pub(crate) fn scope(&mut self, scope: &str) {
        self.scope = Some(scope.to_owned());
    }

    /// Adds a remark below the table, once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The mean of a row's rounds, by its key with the scope.
    pub(crate) fn mean(&self, side: Side, key: &str) -> Option<f64> {
        mean(self.values.get(&(key.to_owned(), side == Side::Ours))?)
    }

    /// The header and one table, in Markdown.
    pub(crate) fn markdown(&self, header: &Header) -> String {
        let [theirs, ours] = &header.subjects;
        let mut text = format!("{header}\n");
        let _ = writeln!(text, "| what | unit | {theirs} | {ours} | ratio |\n|---|---|---:|---:|---:|");
        for row in &self.rows {
            let (theirs, ours) = (self.of(row, Side::Theirs), self.of(row, Side::Ours));
            let _ =
                writeln!(text, "| {} | {} | {} | {} | {} |", row.title, row.unit, cell(theirs), cell(ours), quotient(row, theirs, ours));
        }
        for note in &self.notes {
            let _ = write!(text, "\n- {note}");
        }
        text
    }

    /// The header and every value of every round.
    pub(crate) fn json(&self, header: &Header) -> serde_json::Value {
        let rows = self.rows.iter().map(|row| {
            let (theirs, ours) = (self.of(row, Side::Theirs), self.of(row, Side::Ours));
            serde_json::json!({"key": row.key, "title": row.title, "unit": row.unit, "theirs": theirs, "ours": ours})
        });
        serde_json::json!({"header": header, "rows": rows.collect::<Vec<_>>(), "notes": self.notes})
    }

    fn of(&self, row: &Row, side: Side) -> &[f64] {
        self.values.get(&(row.key.clone(), side == Side::Ours)).map_or(&[], Vec::as_slice)
    }
}

/// The mean of the rounds, and their range when there are several that differ.
fn cell(values: &[f64]) -> String {
    let Some(mean) = mean(values) else { return "–".to_owned() };
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let (low, high, shown) = (rounded(low), rounded(high), rounded(mean));
    if low == high { shown } else { format!("{shown} ({low}–{high})") }
}

/// How many times less the second subject takes: below 1 it takes more.
fn quotient(row: &Row, theirs: &[f64], ours: &[f64]) -> String {
    match (mean(theirs), mean(ours)) {
        (Some(theirs), Some(ours)) if row.ratio && theirs > 0.0 && ours > 0.0 => format!("{} ×", rounded(theirs / ours)),
        _ => String::new(),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "rounds are few")]
    let count = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}

/// Three digits, as far as that means decimals.
pub(crate) fn rounded(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, ratio: bool) -> Row {
        Row { key: key.to_owned(), title: format!("do {key}"), unit: "µs", ratio }
    }

    #[test]
    fn rows_show_mean_range_and_ratio() {
        let mut figures = Figures::default();
        figures.add(Side::Theirs, row("x", true), 20.0);
        figures.add(Side::Ours, row("x", true), 10.0);
        figures.add(Side::Theirs, row("x", true), 22.0);
        figures.add(Side::Ours, row("x", true), 11.0);
        figures.add(Side::Theirs, row("y", false), 0.5);
        figures.note("once".to_owned());
        figures.note("once".to_owned());
        let header = Header::of_this_run("a load".to_owned(), ["a".to_owned(), "b".to_owned()]);
        let text = figures.markdown(&header);
        assert!(text.contains("| do x | µs | 21.0 (20.0–22.0) | 10.5 (10.0–11.0) | 2.00 × |"), "{text}");
        assert!(text.contains("| do y | µs | 0.500 | – |  |"), "{text}");
        assert_eq!(text.matches("once").count(), 1);
        assert_eq!(figures.json(&header)["rows"][0]["ours"], serde_json::json!([10.0, 11.0]));
    }

    #[test]
    fn three_digits_are_shown() {
        assert_eq!([1234.5, 21.04, 9.999, 2.345, 0.0561, -1.5].map(rounded), ["1234", "21.0", "10.0", "2.35", "0.056", "-1.50"]);
    }
}
