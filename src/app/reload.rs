//! Looks at the files of the TLS listener, and at those that say who we are elsewhere, again and again: what has changed in them counts
//! without a restart, and no connection breaks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{admin, certificates, issuer};
use crate::config::{Admin, TokenIssuer};
use ::reload::Reload;
use apiserver::{api::Api, forward::Replica};
use client::Logins;
use server::Tls;

/// Between two looks. What has changed counts at the second look that sees it.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Between two looks at the end of the certificates that the server makes for itself.
const RENEW_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// What is made of files.
pub(super) struct Reloads {
    pub(super) api: Arc<Api>,
    pub(super) replica: Option<Arc<Replica>>,
    /// Who we are at other servers.
    pub(super) logins: Arc<Logins>,
    pub(super) tls: Option<Arc<Tls>>,
    /// Of tokens, as others find it.
    pub(super) issuer: TokenIssuer,
    pub(super) address: Option<SocketAddr>,
    pub(super) admin: Option<Admin>,
}

impl Reloads {
    /// Looks until the process ends.
    pub(super) async fn follow(self) {
        let tls = self.tls.iter().flat_map(|tls| tls.reloads());
        for files in self.replica.iter().filter_map(|replica| replica.files()).chain(tls) {
            certificates::show(&self.api.metrics, files.files());
        }
        let this = Arc::new(self);
        let mut renewed = Instant::now();
        loop {
            sleep(LOOK_INTERVAL).await;
            let is_due = renewed.elapsed() >= RENEW_INTERVAL;
            if is_due {
                renewed = Instant::now();
            }
            let look = Arc::clone(&this);
            // A disk may take its time.
            if let Err(error) = spawn_blocking(move || look.look(is_due)).await {
                tracing::error!(%error, "files are not looked at any more");
                return;
            }
        }
    }

    fn look(&self, is_due: bool) {
        let authenticator = &self.api.identity.authenticator;
        let tls = self.tls.iter().flat_map(|tls| tls.reloads());
        // All of them, whatever one says.
        let logins = self.logins.all().iter().filter(|login| has_changed(&***login)).count();
        if has_changed(self.api.access.files()) || logins > 0 {
            self.api.access.reloaded();
        }
        if let Some(replica) = &self.replica {
            let files = replica.files().filter(|files| has_changed(*files));
            files.iter().for_each(|files| certificates::show(&self.api.metrics, files.files()));
            if files.is_some() || logins > 0 {
                replica.renewed();
            }
        }
        let issuer = self.api.identity.issuer.iter().map(|issuer| &issuer.key as &dyn Reload);
        // Who verifies knows a new key before it signs.
        let mut changed = 0;
        for one in authenticator.reloads().chain(tls).chain(issuer).filter(|one| has_changed(*one)) {
            certificates::show(&self.api.metrics, one.files());
            changed += 1;
        }
        // The kubeconfig follows a certificate that is given; one that is made anew is found at the next look.
        if (changed > 0 || is_due)
            && let Some(admin) = &self.admin
            && let Err(error) = admin::keep(admin, SystemTime::now())
        {
            tracing::error!(%error, "the administrator's certificates are not renewed");
        }
        if changed == 0 {
            return;
        }
        if let Some(tls) = &self.tls {
            tls.renew(authenticator.handshake_verifier());
        }
        self.api.access.check_credentials();
        let discovery = self.address.and_then(|address| issuer::discovery(&self.issuer, address, &authenticator.account_keys()));
        self.api.identity.discovery.store(discovery.map(Arc::new));
    }
}

fn has_changed(one: &dyn Reload) -> bool {
    match one.look() {
        Ok(false) => false,
        Ok(true) => {
            let files: Vec<String> = one.files().iter().map(|file| format!("{} {}", file.flag, file.path.display())).collect();
            tracing::info!(files = files.join(", "), "files have changed and are in force");
            true
        }
        Err(error) => {
            tracing::error!(%error, "a file has changed and is wrong: what was read before stays in force");
            false
        }
    }
}
