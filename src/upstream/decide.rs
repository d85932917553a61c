//! Who answers a request of a replica's client: this server from memory, or upstream. One table; everything that it needs to know is in [`Asked`].

use http::Method;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Health or metrics of this process.
    OfThisProcess,
    /// What the cluster says about itself: discovery, `/openapi`, `/version`, keys of tokens, and paths that no API server has.
    OfTheCluster,
    /// A resource, an object, or a part of one.
    Resource {
        /// How this server has the resource.
        standing: Standing,
        /// A subresource that is not read from the stored object.
        foreign_part: bool,
    },
}

/// How this server has a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All of it, in memory.
    Served,
    /// It is being loaded.
    Loading,
    /// It has none of this name: reviews, groups of other API servers, what flags exclude, what is not there at all; or upstream does not serve it.
    Absent,
    /// It has stored objects that only upstream can make into what is asked for: encrypted, or of a version that a webhook makes.
    Unreadable,
    /// What is in memory is not known to be what the cluster has.
    Incomplete,
    /// Upstream is of another minor than this server, and shows its objects otherwise.
    OfAnotherRelease,
    /// In memory, which is older than this request may see, for etcd does not answer or its changes come late.
    Behind,
}

/// Why upstream answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It changes something.
    Write,
    /// It asks about the cluster, not about objects.
    Document,
    /// This server has no such resource.
    NotServed,
    /// Its memory of the resource is not there yet.
    Loading,
    /// It cannot read the stored objects.
    Unreadable,
    /// What it has is not known to be what the cluster has.
    Incomplete,
    /// It shows the objects otherwise.
    Release,
    /// Of a part of an object that is nowhere stored: logs, exec, proxy.
    Subresource,
    /// Its memory is too old.
    Behind,
    /// Its memory, which comes from upstream, was not proven to be as new in time; or upstream alone has what is asked for.
    Unproven,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 10] = [
        Self::Write,
        Self::Document,
        Self::NotServed,
        Self::Loading,
        Self::Unreadable,
        Self::Incomplete,
        Self::Release,
        Self::Subresource,
        Self::Behind,
        Self::Unproven,
    ];

    /// As metrics and logs say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Document => "document",
            Self::NotServed => "not_served",
            Self::Loading => "loading",
            Self::Unreadable => "unreadable",
            Self::Incomplete => "incomplete",
            Self::Release => "release",
            Self::Subresource => "subresource",
            Self::Behind => "behind",
            Self::Unproven => "unproven",
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// This server.
    Memory,
    /// The kube-apiserver behind it.
    Upstream(Reason),
}

/// Who answers a request with this method.
#[must_use]
pub fn answerer(method: &Method, asked: Asked) -> Answerer {
    let reason = match asked {
        Asked::OfThisProcess => return Answerer::Memory,
        Asked::OfTheCluster => Reason::Document,
        Asked::Resource { standing: Standing::Absent, .. } => Reason::NotServed,
        Asked::Resource { foreign_part: true, .. } => Reason::Subresource,
        // HEAD is refused for built-ins, and by whom it is carried out in what words is upstream's to say.
        Asked::Resource { .. } if method != Method::GET => Reason::Write,
        Asked::Resource { standing: Standing::Loading, .. } => Reason::Loading,
        Asked::Resource { standing: Standing::Unreadable, .. } => Reason::Unreadable,
        Asked::Resource { standing: Standing::Incomplete, .. } => Reason::Incomplete,
        Asked::Resource { standing: Standing::OfAnotherRelease, .. } => Reason::Release,
        Asked::Resource { standing: Standing::Behind, .. } => Reason::Behind,
        Asked::Resource { standing: Standing::Served, foreign_part: false } => return Answerer::Memory,
    };
    Answerer::Upstream(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing but a GET of what is in memory is answered from memory, and health whatever the method.
    #[test]
    fn only_reads_of_what_is_here_are_answered_here() {
        let standings = [
            Standing::Served,
            Standing::Loading,
            Standing::Absent,
            Standing::Unreadable,
            Standing::Incomplete,
            Standing::OfAnotherRelease,
            Standing::Behind,
        ];
        let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS, Method::TRACE];
        for method in &methods {
            assert_eq!(answerer(method, Asked::OfThisProcess), Answerer::Memory);
            assert_eq!(answerer(method, Asked::OfTheCluster), Answerer::Upstream(Reason::Document));
            for standing in standings {
                for foreign_part in [false, true] {
                    let is_ours = *method == Method::GET && standing == Standing::Served && !foreign_part;
                    let answer = answerer(method, Asked::Resource { standing, foreign_part });
                    assert_eq!(answer == Answerer::Memory, is_ours, "{method} {standing:?} {foreign_part}");
                }
            }
        }
    }

    #[test]
    fn the_reason_that_lasts_longest_is_told() {
        let of = |method: &Method, standing, foreign_part| answerer(method, Asked::Resource { standing, foreign_part });
        assert_eq!(of(&Method::PUT, Standing::Loading, false), Answerer::Upstream(Reason::Write));
        assert_eq!(of(&Method::PUT, Standing::Absent, true), Answerer::Upstream(Reason::NotServed));
        assert_eq!(of(&Method::GET, Standing::Loading, true), Answerer::Upstream(Reason::Subresource));
        assert_eq!(of(&Method::GET, Standing::Loading, false), Answerer::Upstream(Reason::Loading));
        assert_eq!(of(&Method::GET, Standing::Unreadable, false), Answerer::Upstream(Reason::Unreadable));
        assert_eq!(of(&Method::GET, Standing::OfAnotherRelease, false), Answerer::Upstream(Reason::Release));
        assert_eq!(of(&Method::GET, Standing::Behind, false), Answerer::Upstream(Reason::Behind));
    }

    #[test]
    fn reasons_have_names_of_their_own() {
        let names: std::collections::BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
