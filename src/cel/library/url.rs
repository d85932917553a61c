//! URLs of expressions.

use go::{quote::quoted, url};

/// A URL, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    scheme: String,
    /// Without escapes, with its port.
    host: String,
    /// With escapes.
    path: String,
    query: String,
    /// The text that two equal ones have in common.
    text: String,
}

impl Url {
    /// Reads a URL that is absolute, or a path.
    ///
    /// # Errors
    /// Kubernetes' text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const READ: &str = "URL parse error during conversion from string: ";
        if let Some(why) = problem(text) {
            return Err(format!("{READ}{why}"));
        }
        let parts = url::parse(text).map_err(|why| format!("{READ}{why}"))?;
        let host = url::decoded_host(parts.host, &parts.scheme).unwrap_or_default();
        let path = url::escaped_path(parts.path);
        let text = text_of(&parts, &host, &path);
        Ok(Self { scheme: parts.scheme, host, path, query: parts.query.to_owned(), text })
    }

    /// Returns whether a text is a URL, or the path of one.
    pub(crate) fn is(text: &str) -> bool {
        url::parse_request(text).is_ok()
    }

    pub(crate) fn scheme(&self) -> &str {
        &self.scheme
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the host without its port and the brackets of an address.
    pub(crate) fn hostname(&self) -> &str {
        let (name, _) = self.name_and_port();
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name)
    }

    pub(crate) fn port(&self) -> &str {
        self.name_and_port().1
    }

    pub(crate) fn escaped_path(&self) -> &str {
        &self.path
    }

    /// Returns the values of each parameter of the query, the parameters in order.
    pub(crate) fn query(&self) -> Vec<(String, Vec<String>)> {
        let mut all = std::collections::BTreeMap::<String, Vec<String>>::new();
        for (name, value) in url::Query::parse(&self.query).pairs() {
            all.entry(name.to_owned()).or_default().push(value.to_owned());
        }
        all.into_iter().collect()
    }

    fn name_and_port(&self) -> (&str, &str) {
        let port = self.host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        port.unwrap_or((&self.host, ""))
    }
}

impl PartialEq for Url {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Returns why a text is no URL and no path of one; nothing when it is.
pub(crate) fn problem(text: &str) -> Option<String> {
    url::parse_request(text).err().map(|why| format!("parse {}: {why}", quoted(text)))
}

/// `URL.String`.
fn text_of(parts: &url::Url<'_>, host: &str, path: &str) -> String {
    let mut text = if parts.scheme.is_empty() { String::new() } else { format!("{}:", parts.scheme) };
    if parts.opaque.is_empty() {
        let is_nobody = host.is_empty() && parts.user.is_none();
        if !is_nobody || !parts.scheme.is_empty() && parts.has_authority && !path.is_empty() {
            text.push_str("//");
        }
        text.extend(parts.user.map(|user| format!("{}@", url::escaped_user(user))));
        text.push_str(&url::escaped_host(host));
        if text.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
            text.push_str("./");
        }
        text.push_str(path);
    } else {
        text.push_str(parts.opaque);
    }
    if parts.asks_nothing || !parts.query.is_empty() {
        text.push('?');
        text.push_str(parts.query);
    }
    if !parts.fragment.is_empty() {
        text.push('#');
        text.push_str(&url::escaped_fragment(parts.fragment));
    }
    text
}
