//! TokenRequest: what a client may ask for, and the errors about everything else.

use serde_json::Value;
use thiserror::Error;

use crate::authn::directory::{Directory, Kind, Object};
use crate::authn::keys::KeyError;

/// Seconds that a token lives when nobody says how long.
const EXPIRATION_SECONDS: i64 = 3600;
const EXPIRATION_SECONDS_MIN: i64 = 600;
const EXPIRATION_SECONDS_MAX: i64 = 1 << 32;

/// Why no token is issued, with the code of the answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TokenRequestError {
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 422 of `TokenRequest.authentication.k8s.io`; one field is wrong.
    #[error("{field}: Invalid value: {value}: {why}")]
    Invalid {
        /// The name that the message has; empty for a wrong spec.
        name: String,
        /// Path of the field.
        field: &'static str,
        /// Its value as messages show it.
        value: String,
        /// What is wrong.
        why: &'static str,
    },
    /// 404 of an object in the core group. The memory may be behind.
    #[error("{} {} not found", kind.resource(), go::quote::quoted(name))]
    NotFound {
        /// Of which kind.
        kind: Kind,
        /// Which one.
        name: String,
    },
    /// 409.
    #[error("Operation cannot be fulfilled on {}{} {}: {why}", kind, group_suffix(group), go::quote::quoted(name))]
    Conflict {
        /// `details.kind`.
        kind: &'static str,
        /// `details.group`.
        group: &'static str,
        /// `details.name`.
        name: String,
        /// What does not match.
        why: String,
    },
    /// 500: the key does not sign.
    #[error("Internal error occurred: failed to generate token: {0}")]
    Sign(KeyError),
}

fn group_suffix(group: &str) -> String {
    if group.is_empty() { String::new() } else { format!(".{group}") }
}

/// A TokenRequest that may be granted.
#[derive(Clone, Debug)]
pub struct TokenRequest<'a> {
    /// The request's own tree, whose types were checked.
    pub(super) tree: &'a Value,
    pub(super) namespace: &'a str,
    pub(super) account: &'a str,
    /// The account's uid.
    pub(super) uid: String,
    pub(super) audiences: Vec<String>,
    pub(super) seconds: i64,
    pub(super) binding: Binding,
}

/// What the token lives as long as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Binding {
    /// Name and uid.
    pub(super) pod: Option<(String, String)>,
    /// Name and uid.
    pub(super) secret: Option<(String, String)>,
    /// Name and uid; of a Pod's node that is not there only the name.
    pub(super) node: Option<(String, String)>,
}

impl<'a> TokenRequest<'a> {
    /// Checks that a request is of the namespace of its path.
    ///
    /// # Errors
    /// What the client is told.
    pub fn check_namespace(tree: &Value, namespace: &str) -> Result<(), TokenRequestError> {
        match tree["metadata"]["namespace"].as_str() {
            None | Some("") => Ok(()),
            Some(said) if said == namespace => Ok(()),
            Some(_) => {
                let why = "the namespace of the provided object does not match the namespace sent on the request";
                Err(TokenRequestError::BadRequest(why.to_owned()))
            }
        }
    }

    /// Checks the rest of a request for a token of this account, in kube-apiserver's order. `tree` is the body, whose types were checked; `audiences` are those
    /// of the API.
    ///
    /// # Errors
    /// What the client is told.
    pub fn check(
        tree: &'a Value,
        namespace: &'a str,
        account: &'a str,
        audiences: &[String],
        directory: &dyn Directory,
    ) -> Result<TokenRequest<'a>, TokenRequestError> {
        let metadata = |member: &str| tree["metadata"][member].as_str().unwrap_or_default();
        if !metadata("name").is_empty() && metadata("name") != account {
            let (name, value) = (account.to_owned(), go::quote::quoted(metadata("name")));
            return Err(TokenRequestError::Invalid {
                name,
                field: "metadata.name",
                value,
                why: "must match the service account name if specified",
            });
        }
        let found = find(directory, Kind::ServiceAccount, namespace, account)?;
        let (uid, asked) = (found.uid().to_owned(), metadata("uid"));
        if !asked.is_empty() && asked != uid {
            let why = format!("the UID in the token request ({asked}) does not match the UID of the service account ({uid})");
            return Err(TokenRequestError::Conflict {
                kind: "TokenRequest",
                group: "authentication.k8s.io",
                name: account.to_owned(),
                why,
            });
        }
        let spec = &tree["spec"];
        let own: Vec<String> = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(EXPIRATION_SECONDS);
        let why = if seconds < EXPIRATION_SECONDS_MIN {
            Some("may not specify a duration less than 10 minutes")
        } else if seconds > EXPIRATION_SECONDS_MAX {
            Some("may not specify a duration larger than 2^32 seconds")
        } else {
            None
        };
        if let Some(why) = why {
            let (name, value) = (String::new(), seconds.to_string());
            return Err(TokenRequestError::Invalid { name, field: "spec.expirationSeconds", value, why });
        }
        let binding = match &spec["boundObjectRef"] {
            Value::Object(_) => bind(&spec["boundObjectRef"], namespace, account, directory)?,
            _ => Binding::default(),
        };
        let audiences = if own.is_empty() { audiences.to_vec() } else { own };
        Ok(TokenRequest { tree, namespace, account, uid, audiences, seconds, binding })
    }
}

fn bind(reference: &Value, namespace: &str, account: &str, directory: &dyn Directory) -> Result<Binding, TokenRequestError> {
    let text = |member: &str| reference[member].as_str().unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let (group, version) = match text("apiVersion").split('/').collect::<Vec<_>>()[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => ("", ""),
    };
    let kind = [Kind::Pod, Kind::Node, Kind::Secret]
        .into_iter()
        .find(|known| group.is_empty() && known.name() == kind)
        .ok_or_else(|| TokenRequestError::BadRequest(format!("cannot bind token to object of type {group}/{version}, Kind={kind}")))?;
    let found = find(directory, kind, if kind == Kind::Node { "" } else { namespace }, name)?;
    if kind == Kind::Pod && found.service_account() != account {
        let account = go::quote::quoted(account);
        let why = format!("cannot bind token for serviceaccount {account} to pod running with different serviceaccount name.");
        return Err(TokenRequestError::BadRequest(why));
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != found.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(TokenRequestError::Conflict { kind: kind.name(), group: "", name: name.to_owned(), why });
    }
    let same = Some((name.to_owned(), found.uid().to_owned()));
    Ok(match kind {
        Kind::Secret => Binding { secret: same, ..Binding::default() },
        Kind::Node => Binding { node: same, ..Binding::default() },
        Kind::Pod | Kind::ServiceAccount => {
            let node = Some(found.node()).filter(|node| !node.is_empty());
            let uid_of = |node: &str| directory.object(Kind::Node, "", node).map(|node| node.uid().to_owned()).unwrap_or_default();
            Binding { pod: same, node: node.map(|node| (node.to_owned(), uid_of(node))), ..Binding::default() }
        }
    })
}

fn find(directory: &dyn Directory, kind: Kind, namespace: &str, name: &str) -> Result<Object, TokenRequestError> {
    if name.is_empty() {
        return Err(TokenRequestError::BadRequest("Name parameter required.".to_owned()));
    }
    directory.object(kind, namespace, name).ok_or_else(|| TokenRequestError::NotFound { kind, name: name.to_owned() })
}
