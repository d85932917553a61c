//! The API as the server's service: what a connection brings with it, and what goes with an answer.

use std::{error::Error, future::Future, pin::Pin, sync::Arc, time::SystemTime};

use axum::body::Body;
use rustls::pki_types::CertificateDer;
use server::{Answer, Conn, Host, Request, Service};

use super::{conn::ConnInfo, extras, stages::Stages};
use auth::authn::{Authenticator, CertificateTrust, PresentedChain, refused_certificate};

/// Meets the clients of both listeners.
pub struct Clients {
    /// Judges their certificates.
    pub authenticator: Arc<Authenticator>,
    /// Answers their requests.
    pub stages: Arc<Stages>,
}

/// Answers the requests of one connection.
pub struct Requests {
    stages: Arc<Stages>,
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
        Requests { stages: self.stages.clone(), conn: Arc::new(ConnInfo::new(conn.clone(), certificate)) }
    }
}

impl Service for Requests {
    type Body = Body;
    // Boxed: hyper keeps room for this future as long as the connection lives, and most of them are idle watches.
    type Future = Pin<Box<dyn Future<Output = Answer<Body>> + Send>>;

    fn answer(&self, request: Request) -> Self::Future {
        let (stages, conn) = (self.stages.clone(), self.conn.clone());
        Box::pin(async move {
            let Request { http, head } = request;
            let mut response = stages.answer(conn, head, http.map(Body::new)).await;
            let extras = extras::take(&mut response);
            Answer { http: response, extras }
        })
    }
}
