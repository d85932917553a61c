//! How much of a long list is shown, and in which order: `limit`, `offset`, `sort` and `filter` of a query.

use std::cmp::Reverse;

use super::super::status::Status;
use go::url::Query;

/// Rows of one answer.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 500;

/// Bytes of a filter.
const FILTER_BYTES_MAX: usize = 256;

/// Which part of a list is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paging {
    pub(super) limit: usize,
    pub(super) offset: usize,
    /// By which member, and whether the largest comes first.
    pub(super) sort: &'static str,
    pub(super) descends: bool,
    /// What a row must contain, in lower case; empty: anything.
    pub(super) filter: String,
}

/// What a row is sorted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Number(u64),
    Text(String),
}

impl Paging {
    /// Reads a query. `sorts` are the members that there is an order by; the first one is what is meant without `sort`.
    ///
    /// # Errors
    /// The 400.
    pub(super) fn of(query: &Query, sorts: &'static [&'static str]) -> Result<Self, Status> {
        let number = |name: &str, least: usize, most: usize, default: usize| match query.first(name).filter(|text| !text.is_empty()) {
            None => Ok(default),
            Some(text) => {
                let number = text.parse::<usize>().ok().filter(|number| (least..=most).contains(number));
                number.ok_or_else(|| Status::bad_request(format!("{name} must be a number from {least} to {most}")))
            }
        };
        let sort = query.first("sort").filter(|text| !text.is_empty()).unwrap_or(sorts[0]);
        let (name, descends) = sort.strip_prefix('-').map_or((sort, false), |name| (name, true));
        let Some(sort) = sorts.iter().find(|known| **known == name) else {
            return Err(Status::bad_request(format!("sort must be one of {}, with a - before it for the largest first", sorts.join(", "))));
        };
        let filter = query.first("filter").unwrap_or("");
        if filter.len() > FILTER_BYTES_MAX {
            return Err(Status::bad_request(format!("filter may have {FILTER_BYTES_MAX} bytes")));
        }
        let (limit, offset) = (number("limit", 1, LIMIT_MAX, LIMIT)?, number("offset", 0, u32::MAX as usize, 0)?);
        Ok(Self { limit, offset, sort, descends, filter: filter.to_lowercase() })
    }

    /// Returns the question that this is, for who shares answers.
    pub(super) fn question(&self, of: &str) -> String {
        let Self { limit, offset, sort, descends, filter } = self;
        format!("{of} {limit} {offset} {descends} {sort} {filter}")
    }

    /// Whether one of these texts contains what is asked for.
    pub(super) fn finds<'t>(&self, mut texts: impl Iterator<Item = &'t str>) -> bool {
        self.filter.is_empty() || texts.any(|text| text.to_lowercase().contains(&self.filter))
    }

    /// Returns the page of these rows. Equal ones are in the order in which they came, which must be the same each time.
    pub(super) fn page<T>(&self, rows: Vec<T>, key: impl Fn(&T) -> Key) -> Vec<T> {
        let mut rows: Vec<(Key, usize, T)> = rows.into_iter().enumerate().map(|(at, row)| (key(&row), at, row)).collect();
        match self.descends {
            true => rows.sort_unstable_by(|a, b| (Reverse(&a.0), a.1).cmp(&(Reverse(&b.0), b.1))),
            false => rows.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1))),
        }
        rows.into_iter().skip(self.offset).take(self.limit).map(|(_, _, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SORTS: &[&str] = &["name", "size"];

    type Sort = fn(&(&str, u64)) -> Key;

    fn read(query: &str) -> Result<Paging, String> {
        Paging::of(&Query::parse(query), SORTS).map_err(|status| String::from_utf8(status.to_json()).expect("JSON"))
    }

    #[test]
    fn a_query_says_which_part() {
        let default = Paging { limit: 100, offset: 0, sort: "name", descends: false, filter: String::new() };
        assert_eq!(read(""), Ok(default.clone()));
        assert_eq!(
            read("limit=7&offset=3&sort=-size&filter=KuBe"),
            Ok(Paging { limit: 7, offset: 3, sort: "size", descends: true, filter: "kube".to_owned() })
        );
        let long = format!("filter={}", "x".repeat(257));
        for wrong in ["limit=0", "limit=501", "limit=x", "offset=-1", "sort=weight", "sort=-", &long] {
            assert!(read(wrong).is_err_and(|told| told.contains("BadRequest")), "{wrong}");
        }
    }

    #[test]
    fn pages_are_in_order() {
        let rows = || vec![("b", 1), ("a", 2), ("c", 2)];
        let page =
            |query: &str, sort: Sort| -> String { read(query).expect("a query").page(rows(), sort).iter().map(|row| row.0).collect() };
        let by_name: Sort = |row| Key::Text(row.0.to_owned());
        let by_size: Sort = |row| Key::Number(row.1);
        assert_eq!((page("", by_name), page("sort=-name", by_name)), ("abc".to_owned(), "cba".to_owned()));
        assert_eq!((page("sort=-size", by_size), page("sort=-size&offset=1&limit=1", by_size)), ("acb".to_owned(), "c".to_owned()));
        assert_eq!(page("offset=9", by_name), "");
        let of = read("filter=ub").expect("a query");
        assert!(of.finds(["x", "KUBE"].into_iter()) && !of.finds(["x"].into_iter()));
    }
}
