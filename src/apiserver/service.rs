//! The API as the server's service: what a connection brings with it, and what goes with an answer.

use std::{convert::Infallible, error::Error, future::Future, ops::Deref, pin::Pin, sync::Arc, time::SystemTime};

use axum::{Router, body::Body, response::Response};
use rustls::pki_types::CertificateDer;
use server::{Alone, Answer, Conn, Extras, Guard, Handshake, Host, LongRunning, Request, Service, budget::Reservation};
use tower::ServiceExt;

use super::inflight::Place;
use auth::authn::{Authenticator, CertificateTrust, PresentedChain, refused_certificate};

/// A connection, and what its client has proved by its certificate.
#[derive(Debug)]
pub struct ConnInfo {
    conn: Arc<Conn>,
    /// The certificate of its handshake.
    pub certificate: PresentedChain,
}

impl Deref for ConnInfo {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

/// Meets the clients of both listeners.
pub struct Clients {
    /// Judges their certificates.
    pub authenticator: Arc<Authenticator>,
    /// Answers their requests.
    pub router: Router,
}

/// Answers the requests of one connection.
pub struct Requests {
    router: Router,
    conn: Arc<ConnInfo>,
}

impl Host for Clients {
    type Service = Requests;

    fn refused_certificate(&self, error: &(dyn Error + Send + Sync + 'static)) -> Option<String> {
        error.downcast_ref().and_then(refused_certificate).map(|why| why.to_string())
    }

    fn connected(&self, conn: &Arc<Conn>, certificates: Option<&[CertificateDer<'static>]>) -> Requests {
        let certificate = match certificates {
            None => PresentedChain::none(),
            chain => {
                let now = SystemTime::now();
                let presented = self.authenticator.presented(chain, now);
                let certificate = self.authenticator.evaluated(&presented, now);
                if let Some(why) = certificate.untrusted() {
                    tracing::info!(peer = %conn.peer, why, "client certificate is not trusted");
                }
                if let CertificateTrust::Trusted { user, .. } = &certificate.trust {
                    conn.certified(&user.name);
                }
                presented
            }
        };
        Requests { router: self.router.clone(), conn: Arc::new(ConnInfo { conn: conn.clone(), certificate }) }
    }
}

impl Service for Requests {
    type Body = Body;
    // Boxed: hyper keeps room for this future as long as the connection lives, and most of them are idle watches.
    type Future = Pin<Box<dyn Future<Output = Answer<Body>> + Send>>;

    fn answer(&self, request: Request) -> Self::Future {
        let (router, conn) = (self.router.clone(), self.conn.clone());
        Box::pin(async move {
            let Request { http, head } = request;
            let mut request = http.map(Body::new);
            request.extensions_mut().insert(conn);
            request.extensions_mut().insert(head);
            let mut response = router.oneshot(request).await.unwrap_or_else(|never: Infallible| match never {});
            let extras = extras(&mut response);
            Answer { http: response, extras }
        })
    }
}

/// Takes out what handlers have put beside the head of an answer for the connection.
fn extras(response: &mut Response) -> Extras {
    let extensions = response.extensions_mut();
    Extras {
        made: extensions.remove::<Arc<Reservation>>(),
        alone: extensions.remove::<Alone>(),
        guard: extensions.remove::<Place>().map(Guard::of),
        long_running: extensions.remove::<LongRunning>(),
        upgrade: extensions.remove::<Handshake>(),
    }
}
