//! The query parameters of LIST and WATCH become options; defaulting and validation (spec list-watch §1.2, §2.1, §4.2).

use go::{
    quote::quoted,
    strconv::{parse_int, parse_uint},
    url::Query,
};
use model::{Revision, invalid::FieldError};

/// What a LIST or WATCH asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `watch`
    pub watch: bool,
    /// `allowWatchBookmarks`
    pub allow_bookmarks: bool,
    /// `sendInitialEvents`
    pub send_initial_events: Option<bool>,
    /// `resourceVersion` as sent; empty when unset. `revision` reads it.
    pub resource_version: String,
    /// `resourceVersionMatch`; `validate` tells whether it is one that exists.
    pub resource_version_match: Option<String>,
    /// `limit`, in items; zero and less is no limit.
    pub limit: i64,
    /// `continue`, still encoded.
    pub continue_token: Option<String>,
    /// `labelSelector`, not parsed.
    pub label_selector: String,
    /// `fieldSelector`, not parsed.
    pub field_selector: String,
    /// `shardSelector`, not parsed; without its gate nobody looks at it (spec list-watch §11).
    pub shard_selector: Option<String>,
    /// `timeoutSeconds`; zero counts as unset.
    pub timeout_seconds: Option<i64>,
}

impl ListOptions {
    /// Reads the options from a query.
    ///
    /// # Errors
    /// The message of the 400 when a number is none (spec list-watch §1.2).
    pub fn of(query: &Query) -> Result<Self, String> {
        let text = |name| query.first(name).unwrap_or("").to_owned();
        let set = |name| query.first(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let timeout_seconds = query.first("timeoutSeconds").map(parse_int).transpose()?;
        Ok(Self {
            watch: query.is_true("watch"),
            allow_bookmarks: query.is_true("allowWatchBookmarks"),
            send_initial_events: query.boolean("sendInitialEvents"),
            resource_version: text("resourceVersion"),
            resource_version_match: set("resourceVersionMatch"),
            limit: query.first("limit").map_or(Ok(0), parse_int)?,
            continue_token: set("continue"),
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            shard_selector: set("shardSelector"),
            timeout_seconds: timeout_seconds.filter(|seconds| *seconds != 0),
        })
    }

    /// Turns an old-style watch for "any" or "the newest" state into a streaming list (spec list-watch §4.2).
    pub fn default_watch(&mut self) {
        let legacy = matches!(self.resource_version.as_str(), "" | "0");
        if self.watch && legacy && self.send_initial_events.is_none() && self.resource_version_match.is_none() {
            self.send_initial_events = Some(true);
            self.resource_version_match = Some(NOT_OLDER_THAN.to_owned());
        }
    }

    /// Everything that is wrong with the combination of options, in the order of the 422: spec list-watch §2.1, or §4.2 when `watch` is true.
    #[must_use]
    pub fn validate(&self) -> Vec<FieldError> {
        if self.watch { self.wrong_for_watch() } else { self.wrong_for_list() }
    }

    /// The `resourceVersion` as a number.
    ///
    /// # Errors
    /// When it is none; what that becomes depends on the request (spec list-watch §2.8).
    pub fn revision(&self) -> Result<Rv, RvSyntax> {
        Rv::parse(&self.resource_version)
    }

    fn wrong_for_list(&self) -> Vec<FieldError> {
        let mut wrong = Vec::new();
        if let Some(matching) = &self.resource_version_match {
            if self.resource_version.is_empty() {
                wrong.push(FieldError::forbidden(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            if self.continue_token.is_some() {
                wrong.push(FieldError::forbidden(MATCH, MATCH_WITH_CONTINUE));
            }
            if !matches!(matching.as_str(), EXACT | NOT_OLDER_THAN) {
                wrong.push(FieldError::not_supported(MATCH, &matching.as_str().into(), &[EXACT, NOT_OLDER_THAN, ""]));
            }
            if matching == EXACT && self.resource_version == "0" {
                wrong.push(FieldError::forbidden(MATCH, r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#));
            }
        }
        if self.send_initial_events.is_some() {
            wrong.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        wrong
    }

    fn wrong_for_watch(&self) -> Vec<FieldError> {
        let mut wrong = Vec::new();
        let matching = self.resource_version_match.as_deref();
        if self.send_initial_events.is_some() && matching != Some(NOT_OLDER_THAN) {
            wrong.push(FieldError::forbidden(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if let Some(matching) = matching {
            if self.send_initial_events.is_none() {
                wrong
                    .push(FieldError::forbidden(MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
            }
            if matching != NOT_OLDER_THAN {
                wrong.push(FieldError::not_supported(MATCH, &matching.into(), &[NOT_OLDER_THAN]));
            }
            if self.continue_token.is_some() {
                wrong.push(FieldError::forbidden(MATCH, MATCH_WITH_CONTINUE));
            }
        }
        wrong
    }
}

/// `resourceVersionMatch` for a state at a revision.
pub(crate) const EXACT: &str = "Exact";
/// `resourceVersionMatch` for a state at a revision or after it.
pub(crate) const NOT_OLDER_THAN: &str = "NotOlderThan";

const MATCH: &str = "resourceVersionMatch";
const MATCH_WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

/// A `resourceVersion`, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rv {
    /// Not given, or empty.
    Unset,
    /// The literal `0`: any state will do.
    Zero,
    /// A number; leading zeros do not count, so this may be revision 0 (`00`), which has not the meaning of `Zero`.
    At(Revision),
}

impl Rv {
    /// Reads a `resourceVersion`.
    ///
    /// # Errors
    /// When it is not an unsigned 64-bit decimal (spec list-watch §2.8).
    pub fn parse(text: &str) -> Result<Self, RvSyntax> {
        match text {
            "" => Ok(Self::Unset),
            "0" => Ok(Self::Zero),
            text => match parse_uint(text) {
                Ok(number) => Ok(Self::At(Revision(number))),
                Err(why) => Err(RvSyntax { text: text.to_owned(), why }),
            },
        }
    }
}

/// A `resourceVersion` that is no number; prints as `resourceVersion: Invalid value: …` (spec list-watch §2.8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resourceVersion: Invalid value: {}: {why}", quoted(.text))]
pub struct RvSyntax {
    text: String,
    why: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options(query: &str) -> ListOptions {
        ListOptions::of(&Query::parse(query)).unwrap_or_else(|e| panic!("{query}: {e}"))
    }

    /// Spec list-watch §1.2 and case 34 of §12.
    #[test]
    fn reads_booleans() {
        for query in ["watch", "watch=", "watch=no", "watch=2", "watch=true", "watch=1&watch=0", "wa%74ch=1", "a=b&&watch"] {
            assert!(options(query).watch, "{query}");
        }
        for query in ["", "watch=0", "watch=FALSE", "watch=false&watch=1", "WATCH=1", "watch=%zz", "watch=1;a=b", "watch=1%2"] {
            assert!(!options(query).watch, "{query}");
        }
        assert_eq!(options("").send_initial_events, None);
        assert_eq!(options("sendInitialEvents=").send_initial_events, Some(true));
        assert_eq!(options("sendInitialEvents=0").send_initial_events, Some(false));
        assert!(options("allowWatchBookmarks=t").allow_bookmarks);
    }

    #[test]
    fn reads_numbers() {
        assert_eq!(options("limit=-5").limit, -5);
        assert_eq!(options("limit=%2B5").limit, 5);
        assert_eq!(options("limit=-9223372036854775808").limit, i64::MIN);
        assert_eq!(options("timeoutSeconds=0").timeout_seconds, None);
        assert_eq!(options("timeoutSeconds=7").timeout_seconds, Some(7));
        let cases = [
            ("limit=", r#"strconv.ParseInt: parsing "": invalid syntax"#),
            ("limit=abc", r#"strconv.ParseInt: parsing "abc": invalid syntax"#),
            ("limit=-", r#"strconv.ParseInt: parsing "-": invalid syntax"#),
            ("limit=+5", r#"strconv.ParseInt: parsing " 5": invalid syntax"#),
            ("limit=1_0", r#"strconv.ParseInt: parsing "1_0": invalid syntax"#),
            ("limit=9223372036854775808", r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#),
            ("limit=9223372036854775808x", r#"strconv.ParseInt: parsing "9223372036854775808x": invalid syntax"#),
            ("limit=99999999999999999999x", r#"strconv.ParseInt: parsing "99999999999999999999x": value out of range"#),
            ("limit=x&timeoutSeconds=a%22", r#"strconv.ParseInt: parsing "a\"": invalid syntax"#),
        ];
        for (query, want) in cases {
            assert_eq!(ListOptions::of(&Query::parse(query)).expect_err(query), want);
        }
    }

    #[test]
    fn reads_text() {
        let got = options(
            "labelSelector=a+in+(b%2Cc)&fieldSelector=x%3Dy%ff&continue=&resourceVersionMatch=&resourceVersion=5&resourceVersion=6",
        );
        assert_eq!(got.label_selector, "a in (b,c)");
        assert_eq!(got.field_selector, "x=y\u{fffd}");
        assert_eq!(got.resource_version, "5");
        assert_eq!((got.continue_token, got.resource_version_match), (None, None));
    }

    /// Spec list-watch §2.8.
    #[test]
    fn reads_resource_versions() {
        let read = |text: &str| Rv::parse(text).map_err(|e| e.to_string());
        assert_eq!(read(""), Ok(Rv::Unset));
        assert_eq!(read("0"), Ok(Rv::Zero));
        assert_eq!(read("00"), Ok(Rv::At(Revision(0))));
        assert_eq!(read("085"), Ok(Rv::At(Revision(85))));
        assert_eq!(read("18446744073709551615"), Ok(Rv::At(Revision(u64::MAX))));
        for text in ["abc", "-1", "+1", "1.5", " 1", "1_0", "0x1"] {
            let want = format!(r#"resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax"#);
            assert_eq!(read(text), Err(want));
        }
        let big = "18446744073709551616";
        assert_eq!(
            read(big),
            Err(format!(r#"resourceVersion: Invalid value: "{big}": strconv.ParseUint: parsing "{big}": value out of range"#))
        );
    }

    fn check(query: &str, want: &[(&str, &str)]) {
        let mut got = options(query);
        got.default_watch();
        let got = got.validate();
        let got: Vec<_> = got.iter().map(|e| (e.field.as_str(), e.message.as_str())).collect();
        assert_eq!(got, want, "{query}");
    }

    /// Spec list-watch §2.1.
    #[test]
    fn validates_lists() {
        let unless = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
        let with = "Forbidden: resourceVersionMatch is forbidden when continue is provided";
        let foo = r#"Unsupported value: "Foo\u003c": supported values: "Exact", "NotOlderThan", """#;
        let zero = r#"Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
        let sie = ("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list");
        let m = "resourceVersionMatch";
        for fine in [
            "",
            "resourceVersion=0&resourceVersionMatch=NotOlderThan",
            "resourceVersion=5&resourceVersionMatch=Exact",
            "continue=x&resourceVersion=5",
        ] {
            check(fine, &[]);
        }
        check("resourceVersionMatch=Exact", &[(m, unless)]);
        check("resourceVersionMatch=Foo%3C&continue=x&sendInitialEvents=0", &[(m, unless), (m, with), (m, foo), sie]);
        check("resourceVersionMatch=Exact&resourceVersion=0", &[(m, zero)]);
        check("sendInitialEvents", &[sie]);
        let kinds: Vec<_> = options("resourceVersionMatch=exact").validate().iter().map(|e| e.kind.cause()).collect();
        assert_eq!(kinds, ["FieldValueForbidden", "FieldValueNotSupported"]);
    }

    /// Spec list-watch §4.2.
    #[test]
    fn validates_watches() {
        let requires = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        let unless = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        let exact = r#"Unsupported value: "Exact": supported values: "NotOlderThan""#;
        let with = "Forbidden: resourceVersionMatch is forbidden when continue is provided";
        let m = "resourceVersionMatch";
        for fine in ["watch", "watch&resourceVersion=5&continue=x", "watch&sendInitialEvents&resourceVersionMatch=NotOlderThan"] {
            check(fine, &[]);
        }
        check("watch&sendInitialEvents", &[(m, requires)]);
        check("watch&resourceVersionMatch=NotOlderThan", &[(m, unless)]);
        check("watch&resourceVersionMatch=Exact&continue=x", &[(m, unless), (m, exact), (m, with)]);
        check("watch&sendInitialEvents&resourceVersionMatch=Exact", &[(m, requires), (m, exact)]);
        check("watch&resourceVersion=0&continue=x", &[(m, with)]);
    }

    #[test]
    fn defaults_old_watches() {
        let defaulted = |query: &str| {
            let mut got = options(query);
            got.default_watch();
            (got.send_initial_events, got.resource_version_match.is_some())
        };
        for query in ["watch", "watch&resourceVersion=0"] {
            assert_eq!(defaulted(query), (Some(true), true), "{query}");
        }
        for query in ["", "resourceVersion=0", "watch&resourceVersion=5", "watch&resourceVersion=00"] {
            assert_eq!(defaulted(query), (None, false), "{query}");
        }
        assert_eq!(defaulted("watch&sendInitialEvents=0"), (Some(false), false));
        assert_eq!(defaulted("watch&resourceVersionMatch=Exact"), (None, true));
    }

    proptest! {
        #[test]
        fn every_text_is_a_query(text in any::<String>()) {
            let _ = ListOptions::of(&Query::parse(&text));
        }

        #[test]
        fn every_likely_text_is_a_query(text in "((watch|limit|continue|a)=?[0-9%;+=é]{0,4}&?){0,6}") {
            if let Ok(mut options) = ListOptions::of(&Query::parse(&text)) {
                options.default_watch();
                let _ = (options.validate(), options.revision());
            }
        }
    }
}
