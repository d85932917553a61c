//! The static token file: CSV in, users out; comparison in constant time.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::user::User;

/// The tokens of `--token-auth-file`, as digests: a dump of memory shows no token, and lengths do not differ.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    entries: Vec<([u8; 32], Arc<User>)>,
}

impl Tokens {
    /// Reads `token,user,uid[,"group1,group2"]` lines (spec api-surface §12). An empty token is skipped, a repeated one replaces, as in kube-apiserver.
    ///
    /// # Errors
    /// What is wrong and in which record; never the token.
    pub(super) fn from_csv(bytes: &[u8]) -> Result<Tokens, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
        let mut tokens = Tokens::default();
        for (index, record) in records(text)?.into_iter().enumerate() {
            let [token, name, uid, more @ ..] = record.as_slice() else {
                return Err(format!(
                    "record {} must have at least 3 columns (token, user name, user uid), found {}",
                    index + 1,
                    record.len()
                ));
            };
            if token.is_empty() {
                continue;
            }
            let groups = more.first().map(|groups| groups.split(',').filter(|g| !g.is_empty()).map(str::to_owned).collect());
            let user = User { name: name.clone(), uid: uid.clone(), groups: groups.unwrap_or_default(), extra: Vec::new() };
            let user = Arc::new(user.authenticated());
            let digest = digest(token.as_bytes());
            tokens.entries.retain(|(known, _)| *known != digest);
            tokens.entries.push((digest, user));
        }
        Ok(tokens)
    }

    /// The user of the token with this digest. Looks at every entry whatever matches, so that time tells nothing.
    pub(super) fn user(&self, digest: &[u8; 32]) -> Option<Arc<User>> {
        let mut found = u64::MAX;
        for (index, (known, _)) in self.entries.iter().enumerate() {
            found.conditional_assign(&(index as u64), known.as_slice().ct_eq(digest.as_slice()));
        }
        let (_, user) = self.entries.get(usize::try_from(found).ok()?)?;
        Some(Arc::clone(user))
    }
}

/// What a token is known by.
pub(super) fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// CSV as Go's `encoding/csv` reads it: quoted fields may hold commas, newlines and doubled quotes; empty lines are skipped.
fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
            rest = after;
            continue;
        }
        let (record, after) = record(rest).map_err(|what| format!("record {}: {what}", records.len() + 1))?;
        records.push(record);
        rest = after;
    }
    Ok(records)
}

fn record(mut rest: &str) -> Result<(Vec<String>, &str), &'static str> {
    let mut fields = Vec::new();
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => bare_field(rest)?,
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None => return Ok((fields, after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')).unwrap_or(after))),
        }
    }
}

fn bare_field(text: &str) -> Result<(String, &str), &'static str> {
    let end = text.find([',', '\n']).unwrap_or(text.len());
    let (field, after) = text.split_at(end);
    let (field, after) = match field.strip_suffix('\r') {
        Some(field) if !after.starts_with(',') => (field, after),
        _ => (field, after),
    };
    if field.contains('"') { Err("bare \" in a field without quotes") } else { Ok((field.to_owned(), after)) }
}

fn quoted_field(mut rest: &str) -> Result<(String, &str), &'static str> {
    let mut field = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or("a quoted field has no end")?;
        field.push_str(part);
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
        } else if after.is_empty() || after.starts_with([',', '\n']) || after.starts_with("\r\n") {
            return Ok((field, after));
        } else {
            return Err("text after the closing quote of a field");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_quotes_and_groups() {
        let tokens = Tokens::from_csv(b"t1,alice,1\r\n\n\"t,\"\"2\",\"bob\",2,\"a,,b\"\n,skipped,3\nt1,carol,4,\"\"").expect("valid");
        let user = |token: &[u8]| tokens.user(&digest(token)).map(|user| (user.name.clone(), user.groups.join(" ")));
        assert_eq!(user(b"t1"), Some(("carol".into(), "system:authenticated".into())));
        assert_eq!(user(b"t,\"2"), Some(("bob".into(), "a b system:authenticated".into())));
        assert_eq!(user(b""), None);
        assert_eq!(user(b"t3"), None);
    }

    #[test]
    fn refuses_what_it_cannot_read_without_showing_tokens() {
        for bad in ["secret,user", "a,b,c\nsecret", "sec\"ret,u,1", "\"secret,u,1", "\"secret\"x,u,1"] {
            let error = Tokens::from_csv(bad.as_bytes()).expect_err(bad);
            assert!(!error.contains("secret") && error.contains("record"), "{error}");
        }
        assert!(Tokens::from_csv(&[0xff]).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a,\"\n\r ]{0,40}") {
            let _ = records(&text);
        }

        #[test]
        fn quoted_fields_come_back(rows in prop::collection::vec(prop::collection::vec("[ab,\"\n]{0,6}", 1..4), 0..4)) {
            let text: String = rows
                .iter()
                .map(|row| row.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect::<Vec<_>>().join(",") + "\n")
                .collect();
            prop_assert_eq!(records(&text), Ok(rows));
        }
    }
}
