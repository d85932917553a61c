//! Which headers of front proxies a kube-apiserver trusts, as it publishes it in the ConfigMap `kube-system/extension-apiserver-authentication`.

use serde_json::Value;

/// Where it tells.
pub const CONFIG_MAP: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// The headers in which we name somebody: what they tell, the member of the ConfigMap that should have them, and what it means if it does not.
const OURS: [(&str, &str, Lack, &str); 4] = [
    ("users", "requestheader-username-headers", Lack::Fails, "x-remote-user"),
    ("groups", "requestheader-group-headers", Lack::Fails, "x-remote-group"),
    // Nobody has it by default, and no right rests on it.
    ("uids", "requestheader-uid-headers", Lack::IsUsual, "x-remote-uid"),
    ("extra", EXTRA, Lack::IsTold, "x-remote-extra-"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    Fails,
    IsTold,
    IsUsual,
}

const EXTRA: &str = "requestheader-extra-headers-prefix";

/// What a server believes besides the usual headers, all names in lower case and with `-`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    names: Vec<String>,
    prefixes: Vec<String>,
    missing: Vec<String>,
    unheard: Vec<String>,
}

/// A header's name as a server may take it that makes variables of headers.
pub(crate) fn folded(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

impl Trusted {
    /// Of the ConfigMap as JSON.
    ///
    /// # Errors
    /// It is not readable.
    pub fn read(config_map: &[u8]) -> Result<Trusted, String> {
        let config_map: Value = serde_json::from_slice(config_map).map_err(|error| error.to_string())?;
        let mut trusted = Trusted::default();
        for (what, member, lack, ours) in OURS {
            let names: Vec<String> = match config_map["data"][member].as_str() {
                None => Vec::new(),
                Some(text) => serde_json::from_str(text).map_err(|error| format!("{member}: {error}"))?,
            };
            let names: Vec<String> = names.iter().map(|name| folded(name.trim())).filter(|name| !name.is_empty()).collect();
            if !names.iter().any(|name| name == ours) {
                match lack {
                    Lack::Fails => trusted.missing.push(format!("{what} in {ours}")),
                    Lack::IsTold => trusted.unheard.push(format!("{what} in {ours}")),
                    Lack::IsUsual => {}
                }
            }
            let kept = if member == EXTRA { &mut trusted.prefixes } else { &mut trusted.names };
            kept.extend(names.into_iter().filter(|name| name != ours));
        }
        Ok(trusted)
    }

    /// Whether a client could name somebody with this header.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_none = self.names.is_empty() && self.prefixes.is_empty();
        if is_none {
            return false;
        }
        let name = folded(name);
        self.names.contains(&name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }

    /// What rights depend on and it does not take from our headers; none when there is nothing.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        (!self.missing.is_empty()).then(|| self.missing.join(", "))
    }

    /// What else of what we tell is lost; none when there is nothing.
    #[must_use]
    pub fn unheard(&self) -> Option<String> {
        (!self.unheard.is_empty()).then(|| self.unheard.join(", "))
    }

    /// Which headers it believes besides ours, that are taken out of what clients send; none when there are none.
    #[must_use]
    pub fn besides(&self) -> Option<String> {
        let prefixes = self.prefixes.iter().map(|prefix| format!("{prefix}*"));
        let all: Vec<String> = self.names.iter().cloned().chain(prefixes).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(data: &Value) -> Result<Trusted, String> {
        Trusted::read(json!({"data": data}).to_string().as_bytes())
    }

    #[test]
    fn the_usual_headers_are_nothing_more() {
        let usual = of(&json!({
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-uid-headers": "[]",
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
        }));
        assert_eq!(usual, Ok(Trusted::default()));
    }

    #[test]
    fn other_headers_are_known_however_they_are_written() {
        let other = of(&json!({
            "requestheader-username-headers": r#"["X-Remote-User", "X-User"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group","X-Other_Group"]"#,
            "requestheader-extra-headers-prefix": r#"["X-More-"]"#,
        }))
        .expect("readable");
        for (name, is_one) in
            [("x-user", true), ("X_User", true), ("x-other-group", true), ("x-more-a", true), ("x-users", false), ("x-mor", false)]
        {
            assert_eq!(other.has(name), is_one, "{name}");
        }
        assert_eq!(other.besides().as_deref(), Some("x-user, x-other-group, x-more-*"));
        assert_eq!((other.missing(), other.unheard().as_deref()), (None, Some("extra in x-remote-extra-")));
        let nothing = of(&json!({})).expect("readable");
        assert_eq!(nothing.missing().as_deref(), Some("users in x-remote-user, groups in x-remote-group"));
        assert!(of(&json!({"requestheader-group-headers": "X-Group"})).is_err() && Trusted::read(b"[").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,60}", list in prop::collection::vec("[ -~]{0,12}", 0..4)) {
            let _ = Trusted::read(text.as_bytes());
            let _ = of(&json!({"requestheader-group-headers": text}));
            let trusted = of(&json!({"requestheader-group-headers": json!(list).to_string()})).expect("a list");
            for name in list.iter().filter(|name| !name.trim().is_empty()) {
                prop_assert!(trusted.has(name.trim()) || folded(name.trim()) == "x-remote-group");
            }
        }
    }
}
