//! Decides which backend answers a request to a replica: its cache, or upstream. One table; everything that it needs to know is in [`RequestClass`].

use http::Method;

/// The class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Health or metrics of this process.
    OfThisProcess,
    /// What the cluster says about itself: discovery, `/openapi`, `/version`, keys of tokens, and paths that no API server has.
    OfTheCluster,
    /// A resource, an object, or a part of one.
    Resource {
        /// How available the resource is in the cache.
        availability: Availability,
        /// A subresource that is not read from the stored object.
        foreign_part: bool,
    },
}

/// How available a resource is in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
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
    /// A watch goes on from before what its memory reaches back to.
    Forgotten,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 11] = [
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
        Self::Forgotten,
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
            Self::Forgotten => "forgotten",
        }
    }
}

/// Who answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// This server.
    Memory,
    /// The kube-apiserver behind it.
    Upstream(Reason),
}

/// Returns who answers a request of this method and class.
#[must_use]
pub fn backend_for(method: &Method, class: RequestClass) -> Backend {
    let reason = match class {
        RequestClass::OfThisProcess => return Backend::Memory,
        RequestClass::OfTheCluster => Reason::Document,
        RequestClass::Resource { availability: Availability::Absent, .. } => Reason::NotServed,
        RequestClass::Resource { foreign_part: true, .. } => Reason::Subresource,
        // HEAD is refused for built-ins, and by whom it is carried out in what words is upstream's to say.
        RequestClass::Resource { .. } if method != Method::GET => Reason::Write,
        RequestClass::Resource { availability: Availability::Loading, .. } => Reason::Loading,
        RequestClass::Resource { availability: Availability::Unreadable, .. } => Reason::Unreadable,
        RequestClass::Resource { availability: Availability::Incomplete, .. } => Reason::Incomplete,
        RequestClass::Resource { availability: Availability::OfAnotherRelease, .. } => Reason::Release,
        RequestClass::Resource { availability: Availability::Behind, .. } => Reason::Behind,
        RequestClass::Resource { availability: Availability::Served, foreign_part: false } => return Backend::Memory,
    };
    Backend::Upstream(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing but a GET of what is in memory is answered from memory, and health whatever the method.
    #[test]
    fn only_reads_of_what_is_here_are_answered_here() {
        let standings = [
            Availability::Served,
            Availability::Loading,
            Availability::Absent,
            Availability::Unreadable,
            Availability::Incomplete,
            Availability::OfAnotherRelease,
            Availability::Behind,
        ];
        let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS, Method::TRACE];
        for method in &methods {
            assert_eq!(backend_for(method, RequestClass::OfThisProcess), Backend::Memory);
            assert_eq!(backend_for(method, RequestClass::OfTheCluster), Backend::Upstream(Reason::Document));
            for availability in standings {
                for foreign_part in [false, true] {
                    let is_ours = *method == Method::GET && availability == Availability::Served && !foreign_part;
                    let answer = backend_for(method, RequestClass::Resource { availability, foreign_part });
                    assert_eq!(answer == Backend::Memory, is_ours, "{method} {availability:?} {foreign_part}");
                }
            }
        }
    }

    #[test]
    fn the_reason_that_lasts_longest_is_told() {
        let of = |method: &Method, availability, foreign_part| backend_for(method, RequestClass::Resource { availability, foreign_part });
        assert_eq!(of(&Method::PUT, Availability::Loading, false), Backend::Upstream(Reason::Write));
        assert_eq!(of(&Method::PUT, Availability::Absent, true), Backend::Upstream(Reason::NotServed));
        assert_eq!(of(&Method::GET, Availability::Loading, true), Backend::Upstream(Reason::Subresource));
        assert_eq!(of(&Method::GET, Availability::Loading, false), Backend::Upstream(Reason::Loading));
        assert_eq!(of(&Method::GET, Availability::Unreadable, false), Backend::Upstream(Reason::Unreadable));
        assert_eq!(of(&Method::GET, Availability::OfAnotherRelease, false), Backend::Upstream(Reason::Release));
        assert_eq!(of(&Method::GET, Availability::Behind, false), Backend::Upstream(Reason::Behind));
    }

    #[test]
    fn reasons_have_names_of_their_own() {
        let names: std::collections::BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
    }
}
