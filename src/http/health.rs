//! `/healthz`, `/livez`, `/readyz`: which checks there are, and what they say (spec api-surface §1.5).

use super::path::Health;
use go::{quote::quoted, url::Query};

/// A check and what is wrong, if anything.
pub(super) type Check = (&'static str, Option<Wrong>);

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    why: String,
    /// The endpoint fails with it; else it is only told.
    fails: bool,
}

impl Wrong {
    pub(super) fn fails(why: impl Into<String>) -> Self {
        Self { why: why.into(), fails: true }
    }

    pub(super) fn noted(why: impl Into<String>) -> Self {
        Self { why: why.into(), fails: false }
    }
}

/// An answer of a health endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) code: u16,
    pub(super) body: String,
}

/// The whole endpoint: `ok`, or the list of checks when asked for or when one fails.
pub(super) fn endpoint(endpoint: Health, checks: &[Check], query: &Query) -> Verdict {
    let name = match endpoint {
        Health::Healthz => "healthz",
        Health::Livez => "livez",
        Health::Readyz => "readyz",
    };
    let excluded: Vec<&str> = query.all("exclude").collect();
    let failed = checks.iter().any(|(check, wrong)| wrong.as_ref().is_some_and(|wrong| wrong.fails) && !excluded.contains(check));
    if !failed && query.first("verbose").is_none() {
        return Verdict { code: 200, body: "ok".to_owned() };
    }
    let mut body = String::new();
    for (check, wrong) in checks {
        body += &match wrong {
            _ if excluded.contains(check) => format!("[+]{check} excluded: ok\n"),
            None => format!("[+]{check} ok\n"),
            Some(Wrong { fails: true, .. }) => format!("[-]{check} failed: reason withheld\n"),
            Some(Wrong { fails: false, .. }) => format!("[-]{check} failed, the others stand without it: reason withheld\n"),
        };
    }
    let unknown: Vec<String> =
        excluded.iter().filter(|name| !checks.iter().any(|(check, _)| check == *name)).map(|name| quoted(name)).collect();
    if !unknown.is_empty() {
        body += &format!("warn: some health checks cannot be excluded: no matches for {}\n", unknown.join(", "));
    }
    body += &format!("{name} check {}\n", if failed { "failed" } else { "passed" });
    Verdict { code: if failed { 500 } else { 200 }, body }
}

/// One check of an endpoint; `None` when there is no such check.
pub(super) fn one(checks: &[Check], name: &str) -> Option<Verdict> {
    let (_, wrong) = checks.iter().find(|(check, _)| *check == name)?;
    Some(match wrong {
        None => Verdict { code: 200, body: "ok".to_owned() },
        Some(Wrong { why, .. }) => Verdict { code: 500, body: format!("internal server error: {why}\n") },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(wrong: bool) -> Vec<Check> {
        vec![("ping", None), ("etcd", wrong.then(|| Wrong::fails("it is away")))]
    }

    #[test]
    fn says_ok_or_lists() {
        let ask = |wrong, query| endpoint(Health::Readyz, &checks(wrong), &Query::parse(query));
        assert_eq!(ask(false, ""), Verdict { code: 200, body: "ok".to_owned() });
        assert_eq!(ask(false, "verbose").body, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n");
        assert_eq!(ask(true, "").body, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n");
        assert_eq!(ask(true, "exclude=etcd").code, 200);
        assert_eq!(
            ask(true, "verbose&exclude=etcd&exclude=zzz").body,
            "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"zzz\"\nreadyz check passed\n"
        );
        assert_eq!(one(&checks(true), "etcd").map(|v| v.body), Some("internal server error: it is away\n".to_owned()));
        assert_eq!(one(&checks(true), "nope"), None);
        let noted = [("ping", None), ("store", Some(Wrong::noted("full")))];
        let ask = |query| endpoint(Health::Readyz, &noted, &Query::parse(query));
        assert_eq!(ask(""), Verdict { code: 200, body: "ok".to_owned() });
        assert_eq!(ask("verbose").body, "[+]ping ok\n[-]store failed, the others stand without it: reason withheld\nreadyz check passed\n");
        assert_eq!(one(&noted, "store").map(|verdict| verdict.code), Some(500));
    }
}
