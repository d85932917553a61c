//! A small HTTP/1.1 client, so that tests see the server's bytes as they came and no library hides a mistake. Knows no Kubernetes but JSON heads.

mod socket;
mod watch;
mod whole;
mod wire;
mod witness;

use std::{io, net::SocketAddr, sync::Arc, sync::Mutex};

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore,
    client::WantsClientCert,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use socket::{Frame as SocketFrame, Handshake, Socket};
pub(crate) use watch::{Frame, Watch, item_of};
pub(crate) use whole::Whole;
pub(crate) use wire::Head;
pub(crate) use witness::Witness;

use wire::Connection;

/// A user agent that gets compact JSON; `curl/…` gets the indented form (spec list-watch §1.2, `pretty`).
pub(crate) const COMPACT: &str = "watchcache-test/1";
/// A user agent that gets indented JSON.
pub(crate) const INDENTED: &str = "curl/8.0";

/// Unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One server, with idle connections kept for reuse. Clones share them.
#[derive(Clone)]
pub(crate) struct Client {
    server: Arc<Server>,
    agent: &'static str,
}

struct Server {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    token: Option<String>,
    idle: Mutex<Vec<Connection>>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// What is asked.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    /// Path and query, encoded.
    pub(crate) target: &'a str,
    /// A JSON body.
    pub(crate) body: Option<&'a [u8]>,
}

impl Client {
    /// Of a server that speaks plain HTTP and asks for no credentials.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self::new(address, None, None)
    }

    /// Of a server behind TLS whose certificate `authority` (DER) signed, with a bearer token; without one if it is empty.
    pub(crate) fn secure(address: SocketAddr, authority: CertificateDer<'static>, token: &str) -> Self {
        Self::new(
            address,
            Some(Arc::new(trusting(authority).with_no_client_auth())),
            Some(token.to_owned()).filter(|token| !token.is_empty()),
        )
    }

    /// HTTPS with a certificate and its key, which show who it is.
    pub(crate) fn certified(
        address: SocketAddr,
        authority: CertificateDer<'static>,
        own: (CertificateDer<'static>, PrivateKeyDer<'static>),
    ) -> Self {
        let tls = trusting(authority).with_client_auth_cert(vec![own.0], own.1).expect("a pair");
        Self::new(address, Some(Arc::new(tls)), None)
    }

    /// The same server, without a token.
    pub(crate) fn without_token(&self) -> Self {
        Self::new(self.server.address, self.server.tls.clone(), None)
    }

    fn new(address: SocketAddr, tls: Option<Arc<ClientConfig>>, token: Option<String>) -> Self {
        Self { server: Arc::new(Server { address, tls, token, idle: Mutex::default() }), agent: COMPACT }
    }

    /// The same server asked by another user agent.
    pub(crate) fn called(&self, agent: &'static str) -> Self {
        Self { server: Arc::clone(&self.server), agent }
    }

    /// GET, read to the end.
    pub(crate) async fn fetch(&self, target: &str) -> io::Result<Answer> {
        self.ask(&Request { method: "GET", target, body: None }).await
    }

    /// Any request, its answer read to the end. A kept connection that the server has closed meanwhile is replaced once.
    pub(crate) async fn ask(&self, request: &Request<'_>) -> io::Result<Answer> {
        let kept = self.server.idle.lock().expect("no holder panics").pop();
        if let Some(connection) = kept
            && let Ok(answer) = self.ask_on(connection, request).await
        {
            return Ok(answer);
        }
        let connection = self.connect().await?;
        self.ask_on(connection, request).await
    }

    async fn ask_on(&self, mut connection: Connection, request: &Request<'_>) -> io::Result<Answer> {
        let head = self.send(&mut connection, request).await?;
        let mut body = Vec::new();
        while connection.read_body(&mut body).await? {}
        if head.keep_alive {
            self.server.idle.lock().expect("no holder panics").push(connection);
        }
        Ok(Answer { status: head.status, body: body.into() })
    }

    /// Opens a watch on a connection of its own. An error answer is read to the end and returned as `Err`.
    pub(crate) async fn watch(&self, target: &str) -> io::Result<Result<Watch, Answer>> {
        let mut connection = self.connect().await?;
        let head = self.send(&mut connection, &Request { method: "GET", target, body: None }).await?;
        if head.status == 200 {
            return Ok(Ok(Watch::new(connection)));
        }
        let mut body = Vec::new();
        while connection.read_body(&mut body).await? {}
        Ok(Err(Answer { status: head.status, body: body.into() }))
    }

    /// Sends a request with these headers besides `Host`, the token and the body's length, and reads all that comes until the server closes.
    pub(crate) async fn whole(&self, method: &str, target: &str, headers: &[(String, String)], body: &[u8]) -> io::Result<Whole> {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.server.address);
        if let Some(token) = &self.server.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        Whole::read(&self.connect().await?.until_close(&request).await?)
    }

    /// A new connection, for what no client of HTTP does.
    pub(crate) async fn raw(&self) -> io::Result<impl AsyncRead + AsyncWrite + Send + use<>> {
        Ok(self.connect().await?.into_stream())
    }

    async fn connect(&self) -> io::Result<Connection> {
        Connection::open(self.server.address, self.server.tls.clone()).await
    }

    async fn send(&self, connection: &mut Connection, request: &Request<'_>) -> io::Result<Head> {
        let Request { method, target, body } = request;
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\n", self.server.address, self.agent);
        head.push_str("Accept: application/json\r\n");
        if let Some(token) = &self.server.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if let Some(body) = body {
            let media_type = match (*method, body.first()) {
                // A JSON patch is a list of operations, a merge patch an object.
                ("PATCH", Some(b'[')) => "application/json-patch+json",
                ("PATCH", _) => "application/merge-patch+json",
                _ => "application/json",
            };
            head.push_str(&format!("Content-Type: {media_type}\r\nContent-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        connection.exchange(head.as_bytes(), body.unwrap_or_default()).await
    }
}

/// A query string with its leading `?`, values encoded.
pub(crate) fn query(parameters: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = parameters.iter().map(|(k, v)| format!("{k}={}", utf8_percent_encode(v, ESCAPED))).collect();
    format!("?{}", pairs.join("&"))
}

/// One that trusts this authority.
fn trusting(authority: CertificateDer<'static>) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).expect("the test made this certificate");
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has TLS 1.2 and 1.3")
        .with_root_certificates(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_escapes_what_selectors_are_made_of() {
        assert_eq!(query(&[("labelSelector", "a in (b,c)"), ("x", "1")]), "?labelSelector=a%20in%20%28b%2Cc%29&x=1");
    }
}
