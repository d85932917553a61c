//! What a server says of itself in the ConfigMap `extension-apiserver-authentication`: whom it believes, for others who shall believe the same.

use std::collections::BTreeMap;
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::CertificateDer;

use super::host::HostAuthorities;
use super::x509::Authorities;
use super::{Authenticator, RequestHeaders};

/// Characters of a line of PEM.
const LINE: usize = 64;

impl Authenticator {
    /// Returns the data of the ConfigMap when this server adds what it believes to what is there: certificates that are valid and not yet there, headers and
    /// names. Several servers share the ConfigMap, so nothing but what has expired is taken out.
    ///
    /// # Errors
    /// What is there cannot be read; it stays as it is then, as with kube-apiserver.
    pub fn published(&self, there: &BTreeMap<String, String>, now: SystemTime) -> Result<BTreeMap<String, String>, String> {
        let theirs = HostAuthorities::from_data(there)?;
        let mut data = BTreeMap::new();
        let clients = pem([theirs.clients.as_deref(), self.client_authorities().as_deref()], now);
        if !clients.is_empty() {
            data.insert("client-ca-file".to_owned(), clients);
        }
        let ours = self.with_proxy(|authorities, names, headers| (authorities.clone(), names.to_vec(), headers.clone()));
        let theirs = theirs.proxy.map(|proxy| (proxy.authorities, proxy.names, proxy.headers));
        let both = [theirs.as_ref(), ours.as_ref()];
        let proxies = pem(both.map(|one| one.map(|(authorities, _, _)| &**authorities)), now);
        if proxies.is_empty() {
            return Ok(data);
        }
        let of = |texts: fn(&RequestHeaders) -> &Vec<String>| union(both.iter().flatten().map(|(_, _, headers)| texts(headers)));
        data.insert("requestheader-client-ca-file".to_owned(), proxies);
        let uids = of(|headers| &headers.uid);
        if uids != "[]" {
            data.insert("requestheader-uid-headers".to_owned(), uids);
        }
        for (name, texts) in [
            ("requestheader-username-headers", of(|headers| &headers.user)),
            ("requestheader-group-headers", of(|headers| &headers.group)),
            ("requestheader-extra-headers-prefix", of(|headers| &headers.extra_prefix)),
            ("requestheader-allowed-names", union(both.iter().flatten().map(|(_, names, _)| names))),
        ] {
            data.insert(name.to_owned(), texts);
        }
        Ok(data)
    }
}

/// Each text once, as a JSON list.
fn union<'t>(lists: impl Iterator<Item = &'t Vec<String>>) -> String {
    let mut all: Vec<&String> = Vec::new();
    for text in lists.flatten() {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    serde_json::to_string(&all).unwrap_or_default()
}

/// Each certificate that has not expired once.
fn pem(authorities: [Option<&Authorities>; 2], now: SystemTime) -> String {
    let mut all: Vec<&CertificateDer<'_>> = Vec::new();
    for certificate in authorities.into_iter().flatten().flat_map(|authorities| authorities.certificates(now)) {
        if !all.contains(&certificate) {
            all.push(certificate);
        }
    }
    all.into_iter().map(|certificate| block(certificate)).collect()
}

fn block(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: String = text.as_bytes().chunks(LINE).map(|line| String::from_utf8_lossy(line).into_owned() + "\n").collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::authn::Config;

    /// A certificate that is valid until this day, as Go writes PEM.
    fn authority(year: i32) -> String {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.self_signed(&KeyPair::generate().expect("a key")).expect("signed").pem().replace("\r\n", "\n")
    }

    #[test]
    fn what_is_believed_is_added_to_what_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("written");
            Some(path)
        };
        let [clients, proxies, theirs, expired] = [2090, 2091, 2092, 2001].map(authority);
        let proxy_headers = RequestHeaders { user: vec!["X-Remote-User".to_owned(), "X-Other".to_owned()], ..RequestHeaders::default() };
        let config = Config {
            client_ca_file: file("ca.crt", &(expired.clone() + &clients.replace('\n', "\r\n"))),
            proxy_ca_file: file("proxy.crt", &proxies),
            proxy_names: vec!["front".to_owned()],
            proxy_headers,
            ..Config::default()
        };
        let authenticator = Authenticator::load(&config).expect("good files");
        let now = UNIX_EPOCH + Duration::from_secs(1_795_000_000);
        let alone = authenticator.published(&BTreeMap::new(), now).expect("nothing there");
        let of = |data: &BTreeMap<String, String>, name: &str| data.get(name).cloned().unwrap_or_default();
        assert_eq!(of(&alone, "client-ca-file"), clients, "what has expired is not told, and lines end as Go ends them");
        assert_eq!(
            (of(&alone, "requestheader-client-ca-file"), of(&alone, "requestheader-allowed-names")),
            (proxies.clone(), r#"["front"]"#.to_owned())
        );
        assert_eq!((of(&alone, "requestheader-group-headers"), alone.get("requestheader-uid-headers")), ("[]".to_owned(), None));
        assert_eq!(authenticator.published(&alone, now).as_ref(), Ok(&alone), "once is enough");
        let there: BTreeMap<String, String> = [
            ("client-ca-file", theirs.clone()),
            ("requestheader-client-ca-file", proxies),
            ("requestheader-username-headers", r#"["X-Other","X-Third"]"#.to_owned()),
            ("another", "x".to_owned()),
        ]
        .map(|(name, text)| (name.to_owned(), text))
        .into();
        let both = authenticator.published(&there, now).expect("it can be read");
        assert_eq!(of(&both, "client-ca-file"), theirs + &clients);
        assert_eq!(of(&both, "requestheader-username-headers"), r#"["X-Other","X-Third","X-Remote-User"]"#);
        assert!(authenticator.published(&[("client-ca-file".to_owned(), "x".to_owned())].into(), now).is_err());
        let nobody = Authenticator::load(&Config::default()).expect("no files");
        assert_eq!(nobody.published(&BTreeMap::new(), now), Ok(BTreeMap::new()));
    }
}
