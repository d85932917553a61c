//! The type that the whole crate shares: the user.

/// Group of everyone who proved who they are (spec api-surface §12).
pub const AUTHENTICATED: &str = "system:authenticated";
/// Group of those who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Name of everyone who did not.
pub const ANONYMOUS: &str = "system:anonymous";
/// Group of those who may do everything before any authorizer is asked (spec api-surface §13.1).
pub const MASTERS: &str = "system:masters";

/// Group of those who look after the server (spec api-surface §13.1): they may read its figures.
pub const MONITORING: &str = "system:monitoring";

/// A client that proved who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// Name: a certificate's CN, the second column of the token file, the subject of a token.
    pub name: String,
    /// Unique id; empty for certificates.
    pub uid: String,
    /// Groups, `system:authenticated` among them.
    pub groups: Vec<String>,
    /// Further facts, each a key and its values (`authentication.kubernetes.io/credential-id`), by key.
    pub extra: Vec<(String, Vec<String>)>,
}

impl User {
    /// Bytes that it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
        let extra = self.extra.iter().map(|(key, values)| size_of::<(String, Vec<String>)>() + key.len() + texts(values)).sum::<usize>();
        size_of::<Self>() + self.name.len() + self.uid.len() + texts(&self.groups) + extra
    }

    /// The same, in the group of everyone who proved who they are; but not who says that he did not.
    pub(crate) fn authenticated(mut self) -> User {
        let knows = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(knows) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}
