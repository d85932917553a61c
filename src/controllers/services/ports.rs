//! The node ports that Services say they have, beside those that are noted (`pkg/registry/core/service/portallocator/controller`).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Report, regarding};
use storage::write::services::{PortRange, Ports};

const COMPONENT: &str = "portallocator-repair-controller";
/// How many looks must find that a port is nobody's until it is free, as there: its Service may be about to be written.
const LOOKS: u32 = 3;

/// How many more looks a port that is nobody's is kept.
pub(super) type Leaks = HashMap<i64, u32>;

/// The node ports as they should be, and what was found.
pub(super) struct Rebuilt {
    pub(super) ports: Ports,
    /// Each with a text that is the same in two looks.
    pub(super) reports: Vec<(String, Report)>,
}

pub(super) fn rebuild(stored: Option<&Ports>, range: PortRange, services: &[Value], leaks: &mut Leaks) -> Rebuilt {
    let mut rebuilt = Rebuilt { ports: Ports::none(range), reports: Vec::new() };
    let mut left = stored.cloned();
    for service in services {
        for port in ports_of(service) {
            let mut tell = |reason: &'static str, note: String| {
                let regarding = regarding(service, "v1", "Service");
                let id = format!("{reason} {port} {}", regarding["uid"]);
                rebuilt.reports.push((id, Report { regarding, component: COMPONENT, reason, action: "PortAllocation", note }));
            };
            if rebuilt.ports.has(port) {
                tell("PortAlreadyAllocated", format!("Port {port} was assigned to multiple services; please recreate service"));
            } else if rebuilt.ports.take(port).is_err() {
                tell("PortOutOfRange", format!("Port {port} is not within the port range {range}; please recreate service"));
            } else {
                // Before anything was noted nothing is missing.
                if let Some(left) = &mut left {
                    if !left.has(port) {
                        tell("PortNotAllocated", format!("Port {port} is not allocated; repairing"));
                    }
                    left.release(port);
                }
                leaks.remove(&port);
            }
        }
    }
    let nobodys: HashSet<i64> = left.iter().flat_map(Ports::all).collect();
    leaks.retain(|port, _| nobodys.contains(port));
    for port in nobodys {
        let more = leaks.entry(port).or_insert(LOOKS);
        *more = more.saturating_sub(1);
        if *more > 0 {
            // One that is not in the range any more goes at once.
            let _ = rebuilt.ports.take(port);
        } else {
            tracing::warn!(port, "a node port appears to have leaked: cleaning up");
            leaks.remove(&port);
        }
    }
    rebuilt
}

/// The ports on nodes of a Service: one with two protocols is one.
fn ports_of(service: &Value) -> Vec<i64> {
    let (mut found, mut pairs): (Vec<i64>, HashSet<(i64, &str)>) = Default::default();
    for port in service["spec"]["ports"].as_array().into_iter().flatten() {
        let (number, protocol) = (port["nodePort"].as_i64().unwrap_or(0), port["protocol"].as_str().unwrap_or_default());
        if number != 0 && (!pairs.insert((number, protocol)) || !found.contains(&number)) {
            found.push(number);
        }
    }
    match service["spec"]["healthCheckNodePort"].as_i64() {
        Some(health) if health != 0 && (!found.contains(&health) || pairs.contains(&(health, "TCP"))) => found.push(health),
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RANGE: PortRange = PortRange { base: 30000, size: 100 };

    fn service(name: &str, ports: &[(i64, &str)]) -> Value {
        let ports: Vec<Value> = ports.iter().map(|(port, protocol)| json!({"nodePort": port, "protocol": protocol})).collect();
        json!({"metadata": {"namespace": "n", "name": name, "uid": name}, "spec": {"ports": ports}})
    }

    fn taken(ports: &[i64]) -> Ports {
        let mut taken = Ports::none(RANGE);
        ports.iter().for_each(|port| taken.take(*port).expect("free"));
        taken
    }

    fn reasons(rebuilt: &Rebuilt) -> Vec<&'static str> {
        rebuilt.reports.iter().map(|(_, report)| report.reason).collect()
    }

    #[test]
    fn what_services_have_is_noted() {
        let services = [service("a", &[(30001, "TCP"), (30001, "UDP")]), service("b", &[(30001, "TCP")]), service("c", &[(80, "TCP")])];
        let mut leaks = Leaks::new();
        let first = rebuild(None, RANGE, &services, &mut leaks);
        assert_eq!(first.ports, taken(&[30001]));
        assert_eq!(reasons(&first), ["PortAlreadyAllocated", "PortOutOfRange"]);
        let again = rebuild(Some(&taken(&[])), RANGE, &services, &mut leaks);
        assert_eq!(reasons(&again), ["PortNotAllocated", "PortAlreadyAllocated", "PortOutOfRange"]);
        let mut health = service("h", &[(30002, "TCP")]);
        health["spec"]["healthCheckNodePort"] = json!(30003);
        assert_eq!(rebuild(None, RANGE, &[health], &mut leaks).ports, taken(&[30002, 30003]));
    }

    #[test]
    fn a_port_of_nobody_is_free_after_three_looks() {
        let mut leaks = Leaks::new();
        let stored = taken(&[30005]);
        for _ in 0..2 {
            assert_eq!(rebuild(Some(&stored), RANGE, &[], &mut leaks).ports, stored);
        }
        assert_eq!(rebuild(Some(&stored), RANGE, &[], &mut leaks).ports, taken(&[]));
        // A Service that came meanwhile.
        rebuild(Some(&stored), RANGE, &[], &mut leaks);
        rebuild(Some(&stored), RANGE, &[service("a", &[(30005, "TCP")])], &mut leaks);
        assert!(leaks.is_empty());
    }

    #[test]
    fn another_range_takes_over_what_fits() {
        let mut old = Ports::none(PortRange { base: 29000, size: 2000 });
        old.take(29001).expect("free");
        let rebuilt = rebuild(Some(&old), RANGE, &[service("a", &[(30001, "TCP")])], &mut Leaks::new());
        assert_eq!(rebuilt.ports, taken(&[30001]));
    }
}
