//! How many keys the pages of one list have: values are small or large, and nobody knows before they are there.

use super::{Etcd, EtcdError, RangeAnswer, RangeRequest};

/// Keys of the first page: so many of the largest values that etcd takes by default are 24 MB.
pub const PAGE_KEYS_FIRST: u32 = 16;
/// Most keys of a page (spec list-watch §0.2). etcd counts the whole remainder for every page, so small pages cost more.
pub const PAGE_KEYS_MAX: u32 = 10_000;
/// Bytes of values that a page should have.
pub const PAGE_BYTES: usize = 32 << 20;
/// A page has so many times the keys of the one before at most: after small values large ones may come.
pub const PAGE_GROWTH: u32 = 4;

/// The sizes of the pages of one list.
#[derive(Debug, Clone)]
pub struct Pages {
    keys: u32,
}

impl Default for Pages {
    fn default() -> Self {
        Self { keys: PAGE_KEYS_FIRST }
    }
}

impl Pages {
    /// Learns from a page, which had so many keys with so many bytes of values.
    fn saw(&mut self, keys: usize, bytes: usize) {
        let fit = PAGE_BYTES / (bytes / keys.max(1)).max(1);
        let grown = u32::try_from(keys).unwrap_or(u32::MAX).max(1).saturating_mul(PAGE_GROWTH);
        self.keys = u32::try_from(fit).unwrap_or(u32::MAX).min(grown).clamp(1, PAGE_KEYS_MAX);
    }

    /// A page of so many keys was too large. False: there is no smaller one.
    fn is_smaller_than(&mut self, keys: u32) -> bool {
        self.keys = (keys / PAGE_GROWTH).max(1);
        keys > 1
    }
}

impl Etcd {
    /// Reads the next page of a list: as many keys as fit, as far as the pages before tell, and no more than the request wants. One that is too large for an
    /// answer is read again with fewer keys.
    ///
    /// # Errors
    /// See [`EtcdError`].
    pub async fn page(&self, request: &RangeRequest, pages: &mut Pages) -> Result<RangeAnswer, EtcdError> {
        loop {
            let limit = if request.limit == 0 { pages.keys } else { request.limit.min(pages.keys) };
            match self.range(RangeRequest { limit, ..request.clone() }).await {
                Ok(answer) => {
                    pages.saw(answer.kvs.len(), answer.kvs.iter().map(|kv| kv.value.len()).sum());
                    return Ok(answer);
                }
                Err(EtcdError::TooLarge(_)) if pages.is_smaller_than(limit) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(keys: usize, bytes: usize) -> u32 {
        let mut pages = Pages::default();
        pages.saw(keys, bytes);
        pages.keys
    }

    #[test]
    fn a_page_has_as_many_keys_as_fit() {
        assert_eq!(after(5_000, 5_000 * 1_000), PAGE_KEYS_MAX);
        assert_eq!(after(100, 100 << 20), 32);
        assert_eq!((after(1, 100 << 20), after(0, 0)), (1, PAGE_GROWTH));
        assert_eq!(after(16, 16), 64, "what comes next may be larger");
    }

    #[test]
    fn a_page_that_is_too_large_becomes_smaller() {
        let mut pages = Pages::default();
        assert!(pages.is_smaller_than(10_000) && pages.keys == 2_500);
        assert!(pages.is_smaller_than(2) && pages.keys == 1);
        assert!(!pages.is_smaller_than(1));
    }

    /// Whatever the values before were: no page has more than four times their keys.
    #[test]
    fn pages_grow_slowly() {
        for (keys, bytes) in (0..20_000).step_by(7).flat_map(|keys| (0..40).step_by(5).map(move |shift| (keys, 1 << shift))) {
            let next = after(keys, bytes);
            assert!((1..=PAGE_KEYS_MAX).contains(&next) && next as usize <= PAGE_GROWTH as usize * keys.max(1), "{keys} {bytes}: {next}");
        }
    }
}
