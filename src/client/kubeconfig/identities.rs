//! Who we are at webhooks: the users of a kubeconfig file, by the hosts that they are named after (client-go's webhook authentication).

use std::path::Path;
use std::sync::Arc;

use go::quote::quoted;
use go::yaml::reader;
use http::{HeaderName, HeaderValue};

use super::file::{File, User};
use super::watched::ReadFiles;
use super::{Files, utf8};
use crate::credentials::{Authorization, Credentials};
use crate::trust::Certificate;

/// The user whom every server meets that no other user is named after.
const ANY: &str = "*";
const HTTPS: &str = "443";

/// What a client shows a server to say who it is. The default is nobody.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) certificate: Option<Arc<Certificate>>,
    credentials: Credentials,
    impersonation: Vec<(HeaderName, HeaderValue)>,
}

impl Default for Identity {
    fn default() -> Self {
        Self { certificate: None, credentials: Credentials::None, impersonation: Vec::new() }
    }
}

impl Identity {
    pub(crate) fn authorization(&self) -> Authorization {
        Authorization::of(self.credentials.clone()).acting_as(self.impersonation.clone())
    }
}

/// The users of a kubeconfig file, each named after the servers that it is for: `host:port`, `host` for port 443, `*.domain:port` or `*`.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    users: Vec<(String, Identity)>,
    /// The user of the current context.
    current: String,
}

impl Identities {
    /// Reads the users of a file.
    ///
    /// # Errors
    /// What is wrong with the file, or with what a user says.
    pub fn read(path: &Path) -> Result<Self, String> {
        let read = ReadFiles::read(path, None);
        let document = reader::parse(&utf8(read.kubeconfig()?)).map_err(|wrong| wrong.to_string())?;
        let file = File::read(&document.value)?;
        let identity = |(name, user): &(String, User)| Ok((name.clone(), identity(name, user, &read)?));
        let users = file.users().iter().map(identity).collect::<Result<_, String>>()?;
        Ok(Self { users, current: file.current_user().to_owned() })
    }

    /// Returns who we are at `host:port`.
    #[must_use]
    pub fn at(&self, target: &str) -> Identity {
        let host = target.rsplit_once(':').filter(|(_, port)| *port == HTTPS).map(|(host, _)| host.trim_matches(['[', ']']));
        let user = self.of_name(target).or_else(|| self.of_name(host?)).or_else(|| self.user(ANY)).or_else(|| self.user(&self.current));
        user.cloned().unwrap_or_default()
    }

    /// The user of this name, or of one of its domains.
    fn of_name(&self, name: &str) -> Option<&Identity> {
        let domains = name.match_indices('.').map(|(at, _)| format!("*{}", &name[at..]));
        self.user(name).or_else(|| domains.into_iter().find_map(|domain| self.user(&domain)))
    }

    fn user(&self, name: &str) -> Option<&Identity> {
        self.users.iter().find(|(known, _)| known == name).map(|(_, identity)| identity)
    }
}

fn identity(name: &str, user: &User, files: &dyn Files) -> Result<Identity, String> {
    let of_user = |why: String| format!("user {}: {why}", quoted(name));
    if user.exec.is_some() {
        return Err(of_user("a credential plugin is not run for webhooks: use a token, a tokenFile or a client certificate".to_owned()));
    }
    Ok(Identity {
        certificate: user.certificate(files).map_err(of_user)?.map(Arc::new),
        credentials: user.credentials(name, files).map_err(of_user)?,
        impersonation: user.impersonation().map_err(of_user)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(users: &[&str]) -> Identities {
        let user = |name: &&str| format!("{{name: '{name}', user: {{as: '{name}'}}}}");
        let users: Vec<String> = users.iter().map(user).collect();
        let text = format!("{{users: [{}], contexts: [{{name: c, context: {{user: current}}}}], current-context: c}}", users.join(", "));
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("kubeconfig");
        std::fs::write(&file, text).expect("written");
        Identities::read(&file).expect("identities")
    }

    /// The cases of `TestAuthenticationDetection`, and more of the order.
    #[test]
    fn the_user_that_is_named_after_a_server_is_shown_there() {
        for (users, target, want) in [
            (&[][..], "foo.com:443", ""),
            (&["*"], "foo.com:443", "*"),
            (&["*", "foo.com", "foo.com:443"], "foo.com:443", "foo.com:443"),
            (&["*", "*.com", "foo.com"], "foo.com:443", "foo.com"),
            (&["*", "*.com", "foo.com"], "foo.com:8443", "*"),
            (&["*", "*.com:8443", "*.com"], "foo.com:8443", "*.com:8443"),
            (&["*", "*.com", "*.bar.com"], "foo.bar.com:443", "*.bar.com"),
            (&["*.svc", "*.ns.svc", "other"], "hook.ns.svc:443", "*.ns.svc"),
            (&["current", "other"], "foo.com:443", "current"),
            (&["current", "*"], "foo.com:443", "*"),
            (&["::1"], "[::1]:443", "::1"),
        ] {
            let headers = of(users).at(target).impersonation;
            assert_eq!(headers.first().map_or("", |(_, name)| name.to_str().expect("a text")), want, "{users:?} {target}");
        }
    }
}
