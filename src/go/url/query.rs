//! The parameters of a query.

use std::borrow::Cow;

/// Most parameters that a query may have; with more, Go's server sees none at all.
const PARAMETERS_MAX: usize = 10_000;

/// The parameters of a query in order, decoded as Go's `url.ParseQuery` does: a pair with a bad escape or a `;` is dropped in silence. Bytes
/// that are not UTF-8 become U+FFFD here, where Go keeps them. One text for all of them: a client may send thousands that are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Names and values.
    text: String,
    /// Where each name and each value ends.
    ends: Vec<(u32, u32)>,
}

impl Query {
    /// Decodes a raw query string. Every text is a query.
    #[must_use]
    pub fn parse(raw_query: &str) -> Self {
        let mut query = Self::default();
        let pairs = raw_query.split('&');
        if pairs.clone().count() > PARAMETERS_MAX {
            return query;
        }
        for pair in pairs.filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(name), Some(value)) = (decoded(name), decoded(value)) {
                query.push(&name, &value);
            }
        }
        query
    }

    fn push(&mut self, name: &str, value: &str) {
        let end = |text: &str| u32::try_from(text.len()).expect("a head has few megabytes at most");
        self.text.push_str(name);
        let name_end = end(&self.text);
        self.text.push_str(value);
        self.ends.push((name_end, end(&self.text)));
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<(u32, u32)>()
    }

    /// Returns names and values in order.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end as usize));
        starts.zip(&self.ends).map(|(start, (name_end, end))| {
            let name_end = *name_end as usize;
            (&self.text[start..name_end], &self.text[name_end..*end as usize])
        })
    }

    /// The first value of a parameter: repetitions do not count (spec list-watch §1.2).
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs().filter(move |(n, _)| *n == name).map(|(_, value)| value)
    }

    /// A boolean parameter as Kubernetes reads it: `0` and any case of `false` are false; everything else, also nothing at all, is true (spec list-watch §1.2).
    #[must_use]
    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.first(name).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// Whether a boolean parameter is there and true.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        self.boolean(name) == Some(true)
    }
}

/// `%xx` and `+` decoded; `None` when an escape is broken.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    let hex = |bytes: &mut std::str::Bytes<'_>| bytes.next().and_then(|b| char::from(b).to_digit(16));
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => u8::try_from(hex(&mut bytes)? * 16 + hex(&mut bytes)?).ok()?,
            b'+' => b' ',
            byte => byte,
        });
    }
    Some(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decodes_as_go_does() {
        let query = Query::parse("a=b+c%2Cd&&e&a=x%ff&f=1;g=2&h=%zz&i=1%2&%6a=k=l");
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["b c,d", "x\u{fffd}"]);
        assert_eq!((query.first("e"), query.first("j")), (Some(""), Some("k=l")));
        assert_eq!(["f", "g", "h", "i", "A"].map(|name| query.first(name)), [None; 5]);
        let full = ["a=b"; PARAMETERS_MAX - 1].join("&");
        assert_eq!(Query::parse(&format!("{full}&limit=1")).first("limit"), Some("1"));
        assert_eq!(Query::parse(&format!("{full}&x&limit=1")), Query::default());
    }

    fn escaped(text: &str) -> String {
        text.bytes().map(|b| format!("%{b:02X}")).collect()
    }

    proptest! {
        #[test]
        fn every_text_is_a_query(text in any::<String>()) {
            let _ = Query::parse(&text);
        }

        #[test]
        fn decodes_what_was_escaped(name in any::<String>(), value in any::<String>()) {
            let query = Query::parse(&format!("{}={}&y", escaped(&name), escaped(&value)));
            prop_assert_eq!(query.first(&name), Some(value.as_str()));
        }
    }
}
