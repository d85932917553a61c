//! How this server has what a request asks for, beside upstream: what each of them serves, and whether memory is known to be what upstream has.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use http::header::ACCEPT;
use http::{HeaderMap, Method};
use upstream::{Availability, RequestClass};

use super::super::{
    api::Api,
    line::RequestLine,
    parts::is_in_scope,
    path::{Odd, ResourcePath, Route},
    staleness::is_out_of_reach,
};
use super::Replica;
use cache::state::snapshot::Known;
use catalogue::Conversion;
use model::Included;
use registry::{Resource, ServedResources};

impl Replica {
    /// Whether memory is known to be what upstream has of a resource.
    fn holds(&self, resource: &Resource) -> bool {
        self.is_source || self.proof.holds(resource)
    }

    pub(super) fn discovery_wrong(&self, resources: &ServedResources) -> Option<(String, bool)> {
        let trouble = self.discovery.load_full().map(|why| String::clone(&why));
        let Some(agreed) = self.follow.agreed() else {
            return Some((trouble.unwrap_or_else(|| "it is not known yet what upstream serves".to_owned()), false));
        };
        let mut notes: Vec<String> = trouble.into_iter().collect();
        if !agreed.is_told() {
            notes.push("what upstream serves may not be read (get on the paths /api and /apis)".to_owned());
        }
        let others = resources.iter().filter(|resource| !resource.served.is_custom() && !self.follow.reads(&resource.served, None));
        let others: BTreeSet<String> =
            others.map(|resource| format!("{}/{}", resource.served.api_version(), resource.served.resource)).collect();
        if !others.is_empty() {
            notes.push(format!("not served by every upstream, and forwarded: {}", others.into_iter().collect::<Vec<_>>().join(", ")));
        }
        if !agreed.is_of(catalogue::MINOR) {
            let release = |minor: &String| match minor.as_str() {
                "" => "one that it does not tell (may this server get /version?)".to_owned(),
                minor => format!("1.{minor}"),
            };
            let releases: Vec<String> = agreed.minors.iter().map(release).collect();
            let otherwise = |is_table| {
                let others = resources.iter().filter(|resource| !self.shows(resource, is_table));
                let others: BTreeSet<&str> = others.map(|resource| &*resource.served.resource).collect();
                if others.is_empty() { "none".to_owned() } else { others.into_iter().collect::<Vec<_>>().join(", ") }
            };
            notes.push(format!(
                "upstream is of release {}, this server knows 1.{}: of these everything is forwarded: {}; of these the Tables: {}",
                releases.join(" and "),
                catalogue::MINOR,
                otherwise(false),
                otherwise(true)
            ));
        }
        (!notes.is_empty()).then(|| (notes.join("\n"), true))
    }

    /// Whether a resource is one that upstream has as this server has it.
    pub(super) fn is_ours(&self, resource: &Resource, part: Option<&str>) -> bool {
        resource.served.is_custom() || self.follow.reads(&resource.served, part)
    }

    /// Has what a request reads followed, where that is from when it is first asked for. Only once it is known that its user may read it: nobody else is to
    /// have it loaded.
    pub(in super::super) fn want(&self, api: &Api, line: &RequestLine) {
        if self.is_source
            && let Some(resource) = read(api, self, line)
        {
            resource.handle.published.fed().want();
        }
    }

    /// Whether upstream's release shows a resource as this server does: the objects, and their Tables where one is asked for.
    fn shows(&self, resource: &Resource, is_table: bool) -> bool {
        resource.served.is_custom() || self.follow.shows(&resource.served, is_table)
    }

    /// How this server has a resource for requests of any age.
    pub(super) fn availability(&self, resource: &Resource, known: &Known, is_table: bool) -> Availability {
        let is_converted = matches!(resource.served.conversion, Conversion::Defined(_));
        match known.is_ready() {
            _ if is_converted || !known.snapshot.broken.is_empty() => Availability::Unreadable,
            true if !self.holds(resource) => Availability::Incomplete,
            true if !self.shows(resource, is_table) => Availability::OfAnotherRelease,
            true => Availability::Served,
            false => Availability::Loading,
        }
    }

    /// Ends the watches of what upstream answers from now on; twice, for one may have begun meanwhile.
    pub(super) fn end_what_is_not_ours(&self, api: &Api) {
        if self.follow.is_new() {
            return;
        }
        let resources = api.resources.load();
        let mut ended = self.ended.lock();
        let mut others = HashMap::new();
        let is_answered = |resource: &Resource| self.is_ours(resource, None) && self.holds(resource) && self.shows(resource, false);
        for resource in resources.iter().filter(|resource| !is_answered(resource)) {
            let name = &resource.encoders.whole().name;
            let times = ended.get(name).copied().unwrap_or(0);
            if times < 2 {
                resource.handle.end_watches();
            }
            others.insert(name.clone(), (times + 1).min(2));
        }
        *ended = others;
    }
}

/// Which resources were asked for that upstream does not bring, so that their requests are forwarded, and which are being loaded.
pub(super) fn not_followed(resources: &ServedResources) -> Option<String> {
    let (mut missing, mut loading) = (BTreeSet::new(), BTreeSet::new());
    for resource in resources.iter() {
        let (fed, name) = (resource.handle.published.fed(), &resource.encoders.whole().name);
        let noted = |note: Option<Arc<str>>| note.map_or_else(|| name.to_string(), |note| format!("{name} ({note})"));
        match (fed.is_declined(), fed.note()) {
            (true, note) if note.is_some() || fed.unwanted_for().is_some() => drop(missing.insert(noted(note))),
            (false, note @ Some(_)) => drop(loading.insert(noted(note))),
            _ => {}
        }
    }
    let told = |what: &str, names: BTreeSet<String>| {
        (!names.is_empty()).then(|| format!("{what}: {}", names.into_iter().collect::<Vec<_>>().join(", ")))
    };
    let all = [told("not followed, and forwarded", missing), told("not there yet", loading)];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Whether a Table may be what is asked for.
pub(in super::super) fn asks_table(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|accept| accept.as_bytes().windows(8).any(|word| word.eq_ignore_ascii_case(b"as=Table")))
}

/// What a request is about, as far as `upstream` must know it. A fixed path that is not named here is the cluster's: a replica forwards it.
pub(in super::super) fn asked(
    api: &Api,
    replica: &Replica,
    (route, line): (Option<&Route>, &RequestLine),
    (method, is_table): (&Method, bool),
) -> RequestClass {
    match route {
        Some(Route::Health { .. } | Route::Metrics | Route::Slis | Route::Own(_) | Route::Inside(_)) => RequestClass::OfThisProcess,
        Some(Route::Resource(path)) => resource(api, replica, (path, line), (method, is_table)),
        _ => RequestClass::OfTheCluster,
    }
}

/// The resource of a path, if upstream has it as this server has it, and this server could know what is asked of it.
fn ours<'r>(resources: &'r ServedResources, replica: &Replica, path: &ResourcePath, method: &Method) -> Option<&'r Arc<Resource>> {
    if path.odd != Odd::default() || path.check_name().is_err() {
        return None;
    }
    if resources.catalogue.unstored(&path.group, &path.version, &path.resource).is_some() {
        return None;
    }
    let resource = resources.find(&path.group, &path.version, &path.resource)?;
    if !is_in_scope(resource, path, method) || !replica.is_ours(resource, path.subresource.as_deref()) {
        return None;
    }
    let is_of = |included: &Arc<Included>| path.namespace.as_deref().is_some_and(|namespace| included.has(namespace));
    resource.handle.included.as_ref().is_none_or(is_of).then_some(resource)
}

/// The resource that a request reads, if it is this server's to know.
pub(in super::super) fn read(api: &Api, replica: &Replica, line: &RequestLine) -> Option<Arc<Resource>> {
    match &line.route {
        Ok(Route::Resource(path)) if line.method == Method::GET => ours(&api.resources.load(), replica, path, &line.method).cloned(),
        _ => None,
    }
}

fn resource(
    api: &Api,
    replica: &Replica,
    (path, line): (&ResourcePath, &RequestLine),
    (method, is_table): (&Method, bool),
) -> RequestClass {
    let resources = api.resources.load();
    let absent = RequestClass::Resource { availability: Availability::Absent, foreign_part: false };
    let Some(resource) = ours(&resources, replica, path, method) else { return absent };
    let standing = match replica.availability(resource, &resource.handle.published.known(), is_table) {
        Availability::Served if is_out_of_reach(api, resource, path, line) => Availability::Behind,
        standing => standing,
    };
    let is_ours = |part: &str| match part {
        "scale" => resource.served.subresource_with(part, "get").is_some(),
        _ => resource.served.reads_subresource(part),
    };
    RequestClass::Resource { availability: standing, foreign_part: path.subresource.as_deref().is_some_and(|part| !is_ours(part)) }
}
