//! What was asked, what differed, what explains it: counted and printed.

use std::collections::BTreeMap;

use super::{answer::Explained, operation::Operation};
use crate::readable::readable;

/// Counts of a run.
#[derive(Debug, Default)]
pub(super) struct Report {
    asked: BTreeMap<&'static str, usize>,
    told: BTreeMap<&'static str, usize>,
    refused: BTreeMap<String, usize>,
    explained: BTreeMap<Explained, usize>,
    differences: usize,
}

impl Report {
    pub(super) fn operations(&self) -> usize {
        self.asked.values().sum()
    }

    pub(super) fn differences(&self) -> usize {
        self.differences
    }

    pub(super) fn count(&mut self, operation: &Operation) {
        *self.asked.entry(operation.name()).or_default() += 1;
    }

    /// Something that watches of both sides were told.
    pub(super) fn told(&mut self, kind: &'static str) {
        *self.told.entry(kind).or_default() += 1;
    }

    /// An error that both answered: the coverage of the random operations shows in them.
    pub(super) fn refused(&mut self, message: &str) {
        *self.refused.entry(message.to_owned()).or_default() += 1;
    }

    pub(super) fn explained(&mut self, why: Explained) {
        *self.explained.entry(why).or_default() += 1;
    }

    /// Prints a difference.
    pub(super) fn differs(&mut self, operation: &Operation, etcd: &str, store: &str) {
        self.differences += 1;
        println!("difference {} at operation {}: {}", self.differences, self.operations(), readable(&format!("{operation:?}")));
        println!("  etcd:  {}", readable(etcd));
        println!("  store: {}", readable(store));
    }

    /// Prints what was asked before, the last of it.
    pub(super) fn explain(&self, asked: &[String]) {
        /// Lines shown.
        const SHOWN: usize = 12;
        for line in &asked[asked.len().saturating_sub(SHOWN)..] {
            println!("    asked {}", readable(line));
        }
    }

    pub(super) fn print(&self) {
        let list = |counts: &BTreeMap<&str, usize>| counts.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ");
        println!("{} operations: {}", self.operations(), list(&self.asked));
        println!("watches were told: {}", list(&self.told));
        println!("refused by both:");
        for (message, count) in &self.refused {
            println!("  {count} × {message}");
        }
        println!("explained: {:?}", self.explained);
        println!("differences: {}", self.differences);
    }
}
