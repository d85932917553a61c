//! Ports of containers, on themselves and on their host.

use std::collections::HashSet;

use crate::{at::At, causes::Causes, names};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// `validateContainerPorts`.
pub(super) fn ports(at: &At<'_, '_>, causes: &mut Causes) {
    let mut taken = HashSet::new();
    for port in at.items() {
        let (name, number, host) = (port.member("name"), port.member("containerPort"), port.member("hostPort"));
        let whys = if name.text().is_empty() { Vec::new() } else { names::port_name(name.text()) };
        if !whys.is_empty() {
            causes.each_invalid(&name, whys);
        } else if !name.text().is_empty() && !taken.insert(name.text()) {
            causes.duplicate(&name);
        }
        if number.integer() == 0 {
            causes.required(&number, "");
        } else {
            causes.each_invalid(&number, names::port_number(number.integer()));
        }
        if host.integer() != 0 {
            causes.each_invalid(&host, names::port_number(host.integer()));
        }
        let protocol = port.member("protocol");
        if protocol.text().is_empty() {
            causes.required(&protocol, "");
        } else if !PROTOCOLS.contains(&protocol.text()) {
            causes.not_supported(&protocol, &PROTOCOLS);
        }
    }
}

/// Ports of the host that several containers want (`AccumulateUniqueHostPorts`); `at` is the list of containers, or the one that is named.
pub(super) fn host_port_conflicts<'c, 'v: 'c>(containers: impl Iterator<Item = At<'c, 'v>>, causes: &mut Causes) {
    let mut taken = HashSet::new();
    for container in containers {
        for port in container.member("ports").items() {
            let host = port.member("hostPort");
            if host.integer() == 0 {
                continue;
            }
            let key = format!("{}/{}/{}", port.member("protocol").text(), port.member("hostIP").text(), host.integer());
            if taken.contains(&key) {
                causes.duplicate(&host.with(&key.as_str().into()));
            } else {
                taken.insert(key);
            }
        }
    }
}

/// The number or name of a port (`ValidatePortNumOrName`).
pub(crate) fn number_or_name(at: &At<'_, '_>, causes: &mut Causes) {
    match at.value().as_str() {
        Some(name) => causes.each_invalid(at, names::port_name(name)),
        None => causes.each_invalid(&at.with(&at.integer().into()), names::port_number(at.integer())),
    }
}

/// With the network of the host, ports of the host are those of the container (`validatePodHostNetworkDeps`).
pub(super) fn of_host_network(spec: &At<'_, '_>, is_pod: bool, causes: &mut Causes) {
    if !spec.member("hostNetwork").is_true() {
        return;
    }
    for container in spec.member("containers").items() {
        for port in container.member("ports").items() {
            let (host, number) = (port.member("hostPort"), port.member("containerPort"));
            if (is_pod || host.integer() != 0) && host.integer() != number.integer() {
                let shown = host.integer().into();
                causes.invalid_as(&host, &shown, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}
