//! The Lease by which this server is known as one of those of its cluster: `kube-system/apiserver-HASH`, renewed while it runs and deleted
//! when it stops; and the end of Leases whose servers do not renew them any more.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::time::{Instant, sleep};

use super::{Controllers, until_done};
use crate::objects::{place, place_of, text, tree};
use registry::Resource;
use storage::write::{Part, failure::WriteError, object_ref::ObjectRef, options::DeleteOptions, write_gate::Permission};

const NAMESPACE: &str = "kube-system";
/// What all servers like this one say they are, and where.
const COMPONENT: &str = "kube-apiserver";
const COMPONENT_LABEL: &str = "apiserver.kubernetes.io/identity";
const HOST_LABEL: &str = "kubernetes.io/hostname";
const ADDRESS_ANNOTATION: &str = "kubernetes.io/peer-advertise-address";
/// How long the Lease lasts, how often it is renewed, and how often those of others are looked at, as by kube-apiserver.
const LASTS: Duration = Duration::from_secs(3600);
const RENEW_EVERY: Duration = Duration::from_secs(10);
const COLLECT_EVERY: Duration = Duration::from_secs(3600);

pub(super) async fn run(controllers: &Controllers) {
    let Some(leases) = controllers.built_in("coordination.k8s.io", "leases") else { return };
    let target = target(controllers, &leases);
    let holder = format!("{}_{}", target.name, uuid::Uuid::new_v4());
    until_done(controllers, "the Lease of this server", || begin(controllers, &target, &holder)).await;
    let mut collect = Instant::now();
    while controllers.write_gate.now() == Permission::Granted {
        if collect <= Instant::now() {
            collect = Instant::now() + COLLECT_EVERY;
            if let Err(error) = collect_expired(controllers, &leases).await {
                tracing::debug!(%error, "cannot delete the Leases of servers that are gone; trying again in an hour");
            }
        }
        sleep(RENEW_EVERY).await;
        if let Err(error) = renew(controllers, &target, &holder).await {
            tracing::debug!(%error, "cannot renew the Lease of this server; trying again");
        }
    }
}

/// Deletes the Lease when the server stops: nobody is to look for it any more.
pub(crate) async fn release(controllers: &Controllers) {
    let Some(leases) = controllers.built_in("coordination.k8s.io", "leases") else { return };
    if controllers.write_gate.now() == Permission::Granted
        && let Err(error) = controllers.delete(&target(controllers, &leases), &DeleteOptions::default()).await
    {
        tracing::debug!(%error, "the Lease of this server cannot be deleted");
    }
}

fn target(controllers: &Controllers, leases: &Arc<Resource>) -> ObjectRef {
    place(leases, NAMESPACE, &name(&controllers.host_name))
}

/// The name of the Lease of a server on this host.
fn name(host: &str) -> String {
    let mut hash = Sha256::new();
    for part in [host, COMPONENT] {
        // As cryptobyte writes it; no host has so long a name.
        hash.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        hash.update(part);
    }
    format!("apiserver-{}", base32(&hash.finalize()[..16]))
}

/// Base 32 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let digit = |first: usize| (first..first + 5).fold(0, |value, at| value << 1 | bit(at));
    (0..bytes.len() * 8).step_by(5).map(|first| char::from(DIGITS[digit(first)])).collect()
}

/// Takes away what a server before has left, so that nobody takes this one for it.
async fn begin(controllers: &Controllers, target: &ObjectRef, holder: &str) -> Result<(), WriteError> {
    controllers.delete(target, &DeleteOptions::default()).await?;
    create(controllers, target, holder).await
}

async fn create(controllers: &Controllers, target: &ObjectRef, holder: &str) -> Result<(), WriteError> {
    let lease = renewed(&json!({"metadata": {"name": target.name}, "spec": {"holderIdentity": holder}}), controllers);
    controllers.create_as("", &target.resource, NAMESPACE, &lease).await.map(drop)
}

async fn renew(controllers: &Controllers, target: &ObjectRef, holder: &str) -> Result<(), WriteError> {
    match controllers.writer.amend_part(target, Part::Main, |lease| Some(renewed(lease, controllers))).await? {
        Some(_) => Ok(()),
        None => create(controllers, target, holder).await,
    }
}

/// The Lease as it is when it is renewed now.
fn renewed(lease: &Value, controllers: &Controllers) -> Value {
    let mut lease = lease.clone();
    lease["metadata"]["labels"][COMPONENT_LABEL] = COMPONENT.into();
    lease["metadata"]["labels"][HOST_LABEL] = controllers.host_name.as_str().into();
    if let Some(address) = controllers.advertised.address {
        lease["metadata"]["annotations"][ADDRESS_ANNOTATION] = SocketAddr::new(address, controllers.advertised.port).to_string().into();
    }
    lease["spec"]["leaseDurationSeconds"] = LASTS.as_secs().into();
    lease["spec"]["renewTime"] = controllers.writer.now_micros().into();
    lease
}

/// Deletes the Leases of servers that are gone.
async fn collect_expired(controllers: &Controllers, leases: &Arc<Resource>) -> Result<(), WriteError> {
    let known = controllers.loaded(leases).await?;
    let prefix = format!("{}{NAMESPACE}/", leases.served.storage.key_prefix(&controllers.prefix));
    for object in known.snapshot.store.scan(prefix.as_bytes(), b"") {
        let is_one = |lease: &Value| lease["metadata"]["labels"][COMPONENT_LABEL] == COMPONENT;
        let Some(lease) = tree(leases, object).filter(|lease| is_one(lease) && is_expired(lease, OffsetDateTime::now_utc())) else {
            continue;
        };
        let options =
            DeleteOptions { resource_version: Some(text(&lease, "/metadata/resourceVersion").to_owned()), ..DeleteOptions::default() };
        controllers.delete(&place_of(leases, object), &options).await?;
    }
    Ok(())
}

/// Whether a Lease has ended; one that does not say when has.
fn is_expired(lease: &Value, now: OffsetDateTime) -> bool {
    let renewed = OffsetDateTime::parse(text(lease, "/spec/renewTime"), &Rfc3339).ok();
    let ends = renewed.zip(lease["spec"]["leaseDurationSeconds"].as_i64());
    ends.and_then(|(renewed, seconds)| renewed.checked_add(time::Duration::seconds(seconds))).is_none_or(|ends| ends < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_made_of_the_host() {
        assert_eq!(base32(&[0xff; 16]), "77777777777777777777777774");
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        let (host, recorded) = RECORDED.trim_end().split_once(' ').expect("a host and a name");
        assert_eq!(name(host), recorded);
    }

    /// What kube-apiserver called its Lease on a host of this name.
    const RECORDED: &str = include_str!("lease.txt");

    #[test]
    fn a_lease_ends_after_its_time() {
        let lease = |seconds: Value| json!({"spec": {"renewTime": "2026-11-28T10:00:00.000001Z", "leaseDurationSeconds": seconds}});
        let at = |text: &str| OffsetDateTime::parse(text, &Rfc3339).expect("a time");
        assert!(!is_expired(&lease(json!(3600)), at("2026-11-28T11:00:00Z")));
        assert!(is_expired(&lease(json!(3600)), at("2026-11-28T11:00:01Z")));
        assert!(
            is_expired(&lease(Value::Null), at("2026-11-28T10:00:00Z")) && is_expired(&json!({"spec": {}}), at("2026-11-28T10:00:00Z"))
        );
    }
}
