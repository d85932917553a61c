//! Which resource has which printer: the function that makes the cells of its rows. Facts of kubernetes' `pkg/printers/internalversion`, of
//! kube-aggregator and of apiserver's default convertor; the columns are recorded in `columns.txt`.

mod access;
mod admission;
mod cluster;
mod devices;
mod network;
mod pods;
mod storage;
mod workloads;

use super::{cell::Row, node::Node};

/// How the rows of a built-in resource are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printer {
    /// The parts of the object that it reads; none: everything but the managed fields.
    pub(super) paths: &'static [&'static str],
    /// Writes the cells. The object may be a zero one, of a bookmark.
    pub(super) print: fn(&Node<'_>, &mut Row<'_>),
}

/// The printer of a built-in resource; `None` for one that has apiserver's default instead.
pub(super) fn of(group: &str, resource: &str) -> Option<Printer> {
    let all = [
        pods::PRINTERS,
        workloads::PRINTERS,
        network::PRINTERS,
        storage::PRINTERS,
        cluster::PRINTERS,
        access::PRINTERS,
        admission::PRINTERS,
        devices::PRINTERS,
    ];
    let name = format!("{group}/{resource}");
    all.into_iter().flatten().find(|(known, _)| *known == name).map(|(_, printer)| *printer)
}

/// Apiserver's default: the time itself, and Go's zero time when there is none.
pub(super) const CREATED_AT: Printer = Printer { paths: NAME_AND_AGE, print: created_at };

fn created_at(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).text_or(object.path("metadata.creationTimestamp").text(), "0001-01-01T00:00:00Z");
}

/// Only a name and an age.
fn name_and_age(object: &Node<'_>, row: &mut Row<'_>) {
    row.name(object).age(object);
}

/// What `name_and_age` reads.
const NAME_AND_AGE: &[&str] = &["metadata.name", "metadata.creationTimestamp"];
