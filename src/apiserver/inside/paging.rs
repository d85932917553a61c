//! How much of a long list is shown, and in which order: `limit`, `offset`, `sort` and `filter` of a query.

use std::borrow::Cow;

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
pub(super) enum Key<'t> {
    Number(u64),
    Text(Cow<'t, str>),
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
        self.filter.is_empty() || texts.any(|text| contains(text, &self.filter))
    }

    /// Returns the page of these rows. Equal ones are in the order in which they came, which must be the same each time.
    pub(super) fn page<'t, T>(&self, rows: &'t [T], key: impl Fn(&'t T) -> Key<'t>) -> Vec<&'t T> {
        let mut keys: Vec<(Key<'t>, usize)> = rows.iter().enumerate().map(|(at, row)| (key(row), at)).collect();
        let order = |a: &(Key<'t>, usize), b: &(Key<'t>, usize)| {
            let by_key = a.0.cmp(&b.0);
            (if self.descends { by_key.reverse() } else { by_key }).then(a.1.cmp(&b.1))
        };
        // Of a long list only what is shown, and what comes before it, is put in order.
        let end = self.offset.saturating_add(self.limit);
        if end < keys.len() {
            keys.select_nth_unstable_by(end, order);
            keys.truncate(end);
        }
        keys.sort_unstable_by(order);
        keys.into_iter().skip(self.offset).map(|(_, at)| &rows[at]).collect()
    }
}

/// Whether a text contains another one, which is in lower case. Most are ASCII: for them nothing is copied.
fn contains(text: &str, lower: &str) -> bool {
    match text.is_ascii() {
        true => text.as_bytes().windows(lower.len()).any(|part| part.eq_ignore_ascii_case(lower.as_bytes())),
        false => text.to_lowercase().contains(lower),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SORTS: &[&str] = &["name", "size"];

    type Sort = for<'t> fn(&'t (&'static str, u64)) -> Key<'t>;

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
            |query: &str, sort: Sort| -> String { read(query).expect("a query").page(&rows(), sort).iter().map(|row| row.0).collect() };
        let by_name: Sort = |row| Key::Text(row.0.into());
        let by_size: Sort = |row| Key::Number(row.1);
        assert_eq!((page("", by_name), page("sort=-name", by_name)), ("abc".to_owned(), "cba".to_owned()));
        assert_eq!((page("sort=-size", by_size), page("sort=-size&offset=1&limit=1", by_size)), ("acb".to_owned(), "c".to_owned()));
        assert_eq!(page("offset=9", by_name), "");
        assert_eq!((page("limit=2", by_name), page("limit=2&offset=1", by_name)), ("ab".to_owned(), "bc".to_owned()));
        let of = read("filter=ub").expect("a query");
        assert!(of.finds(["x", "KUBE"].into_iter()) && !of.finds(["x"].into_iter()));
        let found = |filter: &str, text: &str| contains(text, &filter.to_lowercase());
        assert!(found("K\u{212a}", "xkkx") && found("\u{c4}B", "\u{e4}b") && found("b", "\u{e4}b") && found("ab", "AB"));
        assert!(!found("\u{e4}", "ab") && !found("abc", "ab") && !found("ab", "") && !found("\u{202e}", "a"));
    }
}
