//! What is wrong between Services and IPAddresses (`pkg/registry/core/service/ipallocator/controller/repairip.go`).

use std::{collections::HashMap, net::IpAddr};

use serde_json::Value;
use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Report, regarding};
use crate::objects::text;
use storage::write::services::{AddressRange, FAMILY_LABEL, MANAGER, MANAGER_LABEL};

const COMPONENT: &str = "ipallocator-repair-controller";
/// How long an address may be without its Service, as there: another server may be about to write it.
const GRACE: Duration = Duration::seconds(60);

/// What is done about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mend {
    /// A person must.
    Nothing,
    /// The object of the address is made.
    Create,
    /// The object of the address is made anew.
    Recreate,
    /// The object of the address goes.
    Delete,
    /// The Service gets an address.
    Allocate,
}

/// Something that is wrong with one address.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) ip: String,
    /// The Service that has it, or should.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) mend: Mend,
    reason: &'static str,
    action: &'static str,
    note: String,
    regarding: Value,
    /// Since when an address may be without its Service.
    since: Option<String>,
}

impl Finding {
    /// Names it, the same in two looks.
    pub(super) fn id(&self) -> String {
        format!("{} {} {}/{} {}", self.reason, self.ip, self.namespace, self.name, self.regarding["uid"])
    }

    /// Whether it is old enough to be mended.
    pub(super) fn is_due(&self, now: &str) -> bool {
        let at = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
        self.since.as_deref().and_then(at).zip(at(now)).is_none_or(|(since, now)| now - since > GRACE)
    }

    pub(super) fn report(&self) -> Option<Report> {
        let (reason, action) = (self.reason, self.action);
        (!self.note.is_empty()).then(|| Report {
            regarding: self.regarding.clone(),
            component: COMPONENT,
            reason,
            action,
            note: self.note.clone(),
        })
    }
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn ips(service: &Value) -> impl Iterator<Item = &str> {
    service.pointer("/spec/clusterIPs").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Looks at all Services and all IPAddresses.
pub(super) fn look(services: &[Value], addresses: &[Value], ranges: &[AddressRange]) -> Vec<Finding> {
    let by_ip: HashMap<&str, &Value> = addresses.iter().map(|address| (text(address, "/metadata/name"), address)).collect();
    let key =
        |object: &Value, at: &str| (text(object, &format!("{at}/namespace")).to_owned(), text(object, &format!("{at}/name")).to_owned());
    let by_name: HashMap<(String, String), &Value> = services.iter().map(|service| (key(service, "/metadata"), service)).collect();
    let mut found = Vec::new();
    for service in services {
        of_service(service, ranges, &by_ip, &by_name, &mut found);
    }
    for address in addresses.iter().filter(|address| address["metadata"]["labels"][MANAGER_LABEL] == MANAGER) {
        found.extend(of_address(address, by_name.get(&key(address, "/spec/parentRef")).copied()));
    }
    found
}

fn of_service(
    service: &Value,
    ranges: &[AddressRange],
    by_ip: &HashMap<&str, &Value>,
    by_name: &HashMap<(String, String), &Value>,
    found: &mut Vec<Finding>,
) {
    let (namespace, name) = (text(service, "/metadata/namespace"), text(service, "/metadata/name"));
    let finding = |ip: &str, mend: Mend, reason: &'static str, action: &'static str, note: String| Finding {
        ip: ip.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        mend,
        reason,
        action,
        note,
        regarding: regarding(service, "v1", "Service"),
        since: None,
    };
    const ALLOCATION: &str = "ClusterIPAllocation";
    const NOT_ALLOCATED: &str = "ClusterIPNotAllocated";
    match text(service, "/spec/clusterIP") {
        "None" => return,
        "" if text(service, "/spec/type") == "ExternalName" || service["metadata"].get("deletionTimestamp").is_some() => return,
        "" => return found.push(finding("", Mend::Allocate, NOT_ALLOCATED, ALLOCATION, String::new())),
        _ => {}
    }
    for text_of_ip in ips(service) {
        let Ok(ip) = text_of_ip.parse::<IpAddr>() else {
            let note = format!("Cluster IP {text_of_ip} is not a valid IP; please recreate Service");
            found.push(finding(text_of_ip, Mend::Nothing, "ClusterIPNotValid", "ClusterIPValidation", note));
            continue;
        };
        let (family, shown) = (family(ip), ip.to_string());
        if !ranges.iter().any(|range| range.has(ip)) {
            let note = format!("Cluster IP [{family}]: {ip} is not within any configured Service CIDR; please recreate service");
            found.push(finding(&shown, Mend::Nothing, "ClusterIPOutOfRange", ALLOCATION, note));
            continue;
        }
        let Some(address) = by_ip.get(&*shown) else {
            let note = format!("Cluster IP [{family}]: {ip} is not allocated; repairing");
            found.push(finding(&shown, Mend::Create, NOT_ALLOCATED, ALLOCATION, note));
            continue;
        };
        let labels = &address["metadata"]["labels"];
        match parent_of(address, service, &shown, by_name) {
            Parent::Wrong => {
                let note = format!("the ClusterIP [{family}]: {ip} for Service {namespace}/{name} has a wrong reference; repairing");
                found.push(finding(&shown, Mend::Recreate, NOT_ALLOCATED, ALLOCATION, note));
            }
            Parent::Another => {
                let note = format!("Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service");
                found.push(finding(&shown, Mend::Nothing, "ClusterIPAlreadyAllocated", ALLOCATION, note));
            }
            Parent::Service if labels[FAMILY_LABEL] != family || labels[MANAGER_LABEL] != MANAGER => {
                found.push(finding(&shown, Mend::Recreate, "IPAddressLabels", ALLOCATION, String::new()));
            }
            Parent::Service => {}
        }
    }
}

/// For whom an address is kept that a Service has.
enum Parent {
    /// For the Service, or for one that does not have it.
    Service,
    /// For another Service, which has it too.
    Another,
    /// For nobody that is there.
    Wrong,
}

fn parent_of(address: &Value, service: &Value, ip: &str, by_name: &HashMap<(String, String), &Value>) -> Parent {
    let parent = |member: &str| text(address, &format!("/spec/parentRef/{member}"));
    if (parent("group"), parent("resource")) != ("", "services") {
        return Parent::Wrong;
    }
    let of_service = |member: &str| text(service, &format!("/metadata/{member}"));
    if (parent("namespace"), parent("name")) == (of_service("namespace"), of_service("name")) {
        return Parent::Service;
    }
    match by_name.get(&(parent("namespace").to_owned(), parent("name").to_owned())) {
        None => Parent::Wrong,
        Some(other) if ips(other).any(|other| other == ip) => Parent::Another,
        Some(_) => Parent::Service,
    }
}

/// An address that is kept for a Service that is not there, or has another one.
fn of_address(address: &Value, service: Option<&Value>) -> Option<Finding> {
    let (ip, created) = (text(address, "/metadata/name"), text(address, "/metadata/creationTimestamp"));
    let parent = |member: &str| text(address, &format!("/spec/parentRef/{member}"));
    let (namespace, name) = (parent("namespace"), parent("name"));
    let finding = |reason: &'static str, note: String, since: Option<&str>| {
        Some(Finding {
            ip: ip.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            mend: Mend::Delete,
            reason,
            action: "IPAddressAllocation",
            note,
            regarding: regarding(address, "networking.k8s.io/v1", "IPAddress"),
            since: since.map(str::to_owned),
        })
    };
    if (parent("group"), parent("resource")) != ("", "services") {
        let note = format!("IPAddress {ip} appears to have been modified, not referencing a Service: cleaning up");
        return finding("IPAddressNotAllocated", note, None);
    }
    match service {
        None => {
            let note = format!("IPAddress: {ip} for Service {namespace}/{name} appears to have leaked: cleaning up");
            finding("IPAddressNotAllocated", note, Some(created))
        }
        Some(service) if ips(service).any(|other| other == ip) => None,
        Some(_) => {
            let note = format!("IPAddress: {ip} for Service {namespace}/{name} has a wrong reference; cleaning up");
            finding("IPAddressWrongReference", note, Some(created))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, ips: &[&str]) -> Value {
        json!({"metadata": {"namespace": "n", "name": name, "uid": name}, "spec": {"type": "ClusterIP", "clusterIP": ips.first().unwrap_or(&""), "clusterIPs": ips}})
    }

    fn address(ip: &str, service: &str) -> Value {
        let labels = json!({FAMILY_LABEL: "IPv4", MANAGER_LABEL: MANAGER});
        json!({"metadata": {"name": ip, "uid": ip, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels},
            "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": service}}})
    }

    fn found(services: &[Value], addresses: &[Value]) -> Vec<(Mend, &'static str, String)> {
        let ranges = [AddressRange::parse("10.0.0.0/24").expect("a range")];
        let found = look(services, addresses, &ranges);
        found.into_iter().map(|finding| (finding.mend, finding.reason, format!("{}{}", finding.ip, finding.name))).collect()
    }

    #[test]
    fn what_fits_is_left_alone() {
        let mut headless = service("h", &["None"]);
        headless["spec"]["clusterIP"] = json!("None");
        let mut outside = service("e", &[]);
        outside["spec"]["type"] = json!("ExternalName");
        let mut others = address("10.0.0.9", "gateway");
        others["metadata"]["labels"] = json!({});
        assert_eq!(found(&[service("a", &["10.0.0.1"]), headless, outside], &[address("10.0.0.1", "a"), others]), []);
    }

    #[test]
    fn each_kind_is_found() {
        let is = |mend, reason, of: &str| vec![(mend, reason, of.to_owned())];
        let one = || service("a", &["10.0.0.1"]);
        assert_eq!(found(&[one()], &[]), is(Mend::Create, "ClusterIPNotAllocated", "10.0.0.1a"));
        assert_eq!(found(&[service("a", &["10.1.0.1"])], &[]), is(Mend::Nothing, "ClusterIPOutOfRange", "10.1.0.1a"));
        assert_eq!(found(&[service("a", &["x"])], &[]), is(Mend::Nothing, "ClusterIPNotValid", "xa"));
        assert_eq!(found(&[service("a", &[])], &[]), is(Mend::Allocate, "ClusterIPNotAllocated", "a"));
        assert_eq!(found(&[], &[address("10.0.0.1", "a")]), is(Mend::Delete, "IPAddressNotAllocated", "10.0.0.1a"));
        let both = [one(), service("b", &["10.0.0.1"]), service("c", &["10.0.0.3"])];
        assert_eq!(
            found(&both, &[address("10.0.0.1", "b"), address("10.0.0.3", "c")]),
            is(Mend::Nothing, "ClusterIPAlreadyAllocated", "10.0.0.1a")
        );
        let mut gateway = address("10.0.0.1", "a");
        gateway["spec"]["parentRef"]["resource"] = json!("gateways");
        let told = found(&[one()], &[gateway]);
        assert_eq!(told[0], is(Mend::Recreate, "ClusterIPNotAllocated", "10.0.0.1a")[0]);
        let mut bare = address("10.0.0.1", "a");
        bare["metadata"]["labels"] = json!({});
        assert_eq!(found(&[one()], &[bare]), is(Mend::Recreate, "IPAddressLabels", "10.0.0.1a"));
        assert_eq!(
            found(&[one()], &[address("10.0.0.1", "a"), address("10.0.0.2", "a")]),
            is(Mend::Delete, "IPAddressWrongReference", "10.0.0.2a")
        );
        let mut told = found(&[one()], &[address("10.0.0.1", "gone")]);
        told.sort_by_key(|(_, reason, _)| *reason);
        assert_eq!(told[0], is(Mend::Recreate, "ClusterIPNotAllocated", "10.0.0.1a")[0]);
    }

    #[test]
    fn an_address_waits_for_its_service() {
        let ranges = [AddressRange::parse("10.0.0.0/24").expect("a range")];
        let found = look(&[], &[address("10.0.0.1", "a")], &ranges);
        assert_eq!((found[0].is_due("2026-01-01T00:01:00Z"), found[0].is_due("2026-01-01T00:01:01Z")), (false, true));
    }
}
