//! What a write of a Service takes and gives back, decided from what is known of the pools (`pkg/registry/core/service/storage/alloc.go`).

use serde_json::json;

use super::{
    families::{self, Families},
    pools::{Missing, Pools},
    spec::{NONE, Spec},
};
use crate::write::{failure::StatusSubject, failure::WriteError, kinds::warnings::address::sloppy};
use model::invalid::FieldError;

/// Why a write allocates nothing.
#[derive(Debug)]
pub(super) enum Refusal {
    /// 422.
    Invalid(Vec<FieldError>),
    /// 500 `Internal error occurred: …`.
    Internal(String),
    /// 500 with this text.
    Raw(String),
    /// Something must be read first.
    Missing,
}

impl From<Missing> for Refusal {
    fn from(_: Missing) -> Self {
        Self::Missing
    }
}

impl From<Vec<FieldError>> for Refusal {
    fn from(errors: Vec<FieldError>) -> Self {
        Self::Invalid(errors)
    }
}

impl Refusal {
    pub(super) fn into_error(self, name: &str) -> WriteError {
        match self {
            Self::Invalid(errors) => WriteError::Invalid {
                of: StatusSubject { group: String::new(), kind: "Service".to_owned(), name: name.to_owned() },
                errors,
            },
            Self::Internal(why) => WriteError::Internal(why),
            Self::Raw(why) => WriteError::Raw(why),
            Self::Missing => WriteError::Raw("the allocations of Services have to be read first".to_owned()),
        }
    }
}

/// Allocates what a new Service needs.
pub(super) fn create(families: Families, pools: &mut Pools<'_>, name: &str, spec: &mut Spec) -> Result<(), Refusal> {
    families::normalize(spec, None);
    families::decide(families, spec, None)?;
    addresses(pools, name, spec)?;
    if spec.has_node_ports() {
        first_ports(pools, spec)?;
    }
    if spec.needs_health_port() { health_port(pools, spec) } else { Ok(()) }
}

/// Allocates what a changed Service needs, and gives back what it does not need any more.
pub(super) fn update(families: Families, pools: &mut Pools<'_>, name: &str, spec: &mut Spec, old: &Spec) -> Result<(), Refusal> {
    families::keep_allocated(spec, old);
    families::normalize(spec, Some(old));
    families::decide(families, spec, Some(old))?;
    changed_addresses(pools, name, spec, old)?;
    if old.has_node_ports() && !spec.has_node_ports() {
        old.node_ports().try_for_each(|port| pools.release_port(port))?;
    }
    if spec.has_node_ports() {
        changed_ports(pools, spec, old)?;
    }
    match (old.needs_health_port(), spec.needs_health_port()) {
        (false, true) => health_port(pools, spec),
        (true, false) => Ok(pools.release_port(old.health_port)?),
        _ => Ok(()),
    }
}

/// The addresses of a Service that has none yet, or has chosen them.
fn addresses(pools: &mut Pools<'_>, name: &str, spec: &mut Spec) -> Result<(), Refusal> {
    if spec.is_external_name() || spec.cluster_ips.first().is_some_and(|ip| ip == NONE) {
        return Ok(());
    }
    if spec.cluster_ips.len() < spec.families.len() {
        spec.cluster_ips.resize(spec.families.len(), String::new());
    }
    for i in 0..spec.families.len() {
        spec.cluster_ips[i] = address(pools, name, spec, i)?;
    }
    spec.cluster_ip = spec.cluster_ips.first().cloned().unwrap_or_default();
    Ok(())
}

/// The address at this place: the one that is asked for, or any of its family.
fn address(pools: &mut Pools<'_>, name: &str, spec: &Spec, i: usize) -> Result<String, Refusal> {
    let wanted = &spec.cluster_ips[i];
    let refused = |why: String| Refusal::Invalid(vec![FieldError::invalid("spec.clusterIPs", &spec.shown_ips(), &why)]);
    if wanted.is_empty() {
        let found = pools.next_address(&spec.families[i])?;
        let full = || Refusal::Internal(format!("failed to allocate a serviceIP for Service {}: range is full", go::quote::quoted(name)));
        return found.map(|ip| ip.to_string()).ok_or_else(full);
    }
    let Some(ip) = sloppy(wanted).map(|ip| ip.to_canonical()) else {
        return Err(Refusal::Internal(format!("failed to parse service IP {}", go::quote::quoted(wanted))));
    };
    match pools.take_address(ip)? {
        Ok(()) => Ok(wanted.clone()),
        Err(why) => Err(refused(format!("failed to allocate IP {wanted}: {why}"))),
    }
}

fn changed_addresses(pools: &mut Pools<'_>, name: &str, spec: &mut Spec, old: &Spec) -> Result<(), Refusal> {
    if families::stays_as_it_is(spec, old) {
        return Ok(());
    }
    // Without an address it was written while nobody allocated any.
    if !spec.is_external_name() && (old.is_external_name() || old.cluster_ips.is_empty()) {
        return addresses(pools, name, spec);
    }
    if old.cluster_ips.first().is_some_and(|ip| ip == NONE) {
        return Ok(());
    }
    let mut release = |ip: &String| {
        if let Some(ip) = sloppy(ip) {
            pools.release_address(ip.to_canonical());
        }
    };
    if spec.is_external_name() {
        old.cluster_ips.iter().for_each(&mut release);
        return Ok(());
    }
    match (old.families.len(), spec.families.len()) {
        (1, 2) => {
            if spec.cluster_ips.len() < 2 {
                spec.cluster_ips.push(String::new());
            }
            spec.cluster_ips[1] = address(pools, name, spec, 1)?;
        }
        (2, 1) => old.cluster_ips.get(1).into_iter().for_each(&mut release),
        _ => {}
    }
    Ok(())
}

fn of_port(i: usize, port: i64, why: &str) -> Refusal {
    Refusal::Invalid(vec![FieldError::invalid(format!("spec.ports[{i}].nodePort"), &json!(port), why)])
}

fn next_port(pools: &mut Pools<'_>) -> Result<i64, Refusal> {
    pools.next_port()?.map_err(|why| Refusal::Internal(format!("failed to allocate a nodePort: {why}")))
}

/// The node ports of a new Service: ports of one number share one.
fn first_ports(pools: &mut Pools<'_>, spec: &mut Spec) -> Result<(), Refusal> {
    let allocates = spec.allocates_node_ports();
    let mut known: Vec<(i64, i64)> = Vec::new();
    for i in 0..spec.ports.len() {
        let (port, asked) = (spec.ports[i].port, spec.ports[i].node_port);
        if asked == 0 && !allocates {
            continue;
        }
        let found = known.iter().find(|(number, _)| *number == port).map(|(_, node_port)| *node_port);
        let taken = match found {
            None => {
                let named = spec.ports.iter().find(|other| other.port == port && other.node_port != 0).map(|other| other.node_port);
                let taken = match named {
                    Some(named) => pools.take_port(named)?.map(|()| named).map_err(|why| of_port(i, named, &why))?,
                    None => next_port(pools)?,
                };
                known.push((port, taken));
                taken
            }
            Some(shared) if asked == 0 || asked == shared => shared,
            Some(_) => pools.take_port(asked)?.map(|()| asked).map_err(|why| of_port(i, asked, &why))?,
        };
        spec.ports[i].node_port = taken;
    }
    Ok(())
}

fn changed_ports(pools: &mut Pools<'_>, spec: &mut Spec, old: &Spec) -> Result<(), Refusal> {
    let allocates = spec.allocates_node_ports();
    let before: Vec<i64> = old.node_ports().collect();
    let (mut taken, mut seen) = (Vec::new(), Vec::new());
    for (i, port) in spec.ports.iter_mut().enumerate() {
        if port.node_port == 0 && !allocates {
            continue;
        }
        if port.node_port == 0 {
            port.node_port = next_port(pools)?;
        } else if !before.contains(&port.node_port) && !taken.contains(&port.node_port) {
            pools.take_port(port.node_port)?.map_err(|why| of_port(i, port.node_port, &why))?;
            taken.push(port.node_port);
        }
        let pair = (port.protocol.clone(), port.node_port);
        if seen.contains(&pair) {
            return Err(Refusal::Raw(format!("duplicate nodePort: {{{} {}}}", pair.0, pair.1)));
        }
        seen.push(pair);
    }
    let now: Vec<i64> = spec.node_ports().collect();
    Ok(before.into_iter().filter(|port| !now.contains(port)).try_for_each(|port| pools.release_port(port))?)
}

fn health_port(pools: &mut Pools<'_>, spec: &mut Spec) -> Result<(), Refusal> {
    if spec.health_port == 0 {
        let found = pools.next_port()?;
        spec.health_port = found.map_err(|why| Refusal::Internal(format!("failed to allocate a HealthCheck NodePort 0: {why}")))?;
        return Ok(());
    }
    let refused = |why| Refusal::Internal(format!("failed to allocate requested HealthCheck NodePort {}: {why}", spec.health_port));
    pools.take_port(spec.health_port)?.map_err(refused)
}

#[cfg(test)]
mod tests;
