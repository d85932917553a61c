//! The status of a ResourceClaim (`pkg/apis/resource/validation`).

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    FieldError, addresses,
    at::At,
    causes::Causes,
    claims::{Requests, immutable},
    conditions::conditions,
    devices::{self, binding_conditions, configuration, itself, raw_object, set, slice},
    meta, node_selector,
};
use go::quote::quoted;

const USERS_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONFIGS_MAX: usize = 64;
const CONDITIONS_MAX: usize = 8;
const INTERFACE_BYTES_MAX: usize = 256;
const HARDWARE_BYTES_MAX: usize = 128;
const ADDRESSES_MAX: usize = 16;
/// How Go shows a device in errors.
const DEVICE_ID: &str = "schedulerapi.SharedDeviceID";
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// What is wrong with the status of a ResourceClaim.
pub fn update_claim_status(old: &Value, new: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let (root, old) = (At::root(new), At::root(old));
        let (status, old_status) = (root.member("status"), old.member("status"));
        let allocation = status.member("allocation");
        set(&status.member("reservedFor"), USERS_MAX, |user| user.member("uid").text().into(), causes, user);
        devices_of(&status, causes);
        let is_deleted = root.member("metadata").member("deletionTimestamp").is_present();
        reserved(&status, &old_status, is_deleted, causes);
        let old_allocation = old_status.member("allocation");
        if allocation.is_present() && old_allocation.is_present() {
            immutable(&allocation, old_allocation.value(), "resource.AllocationResult", causes);
        } else if allocation.is_present() {
            let spec = root.member("spec");
            self::allocation(&allocation, &Requests::of(&spec.member("devices")), causes);
        }
    })
}

/// What distinguishes one device from all others.
type DeviceId<'v> = [&'v str; 4];

fn device_id<'v>(device: &At<'_, 'v>) -> DeviceId<'v> {
    ["driver", "pool", "device", "shareID"].map(|name| device.member(name).text())
}

/// Devices, of which each was allocated and stands once.
fn devices_of(status: &At<'_, '_>, causes: &mut Causes) {
    let (list, allocation) = (status.member("devices"), status.member("allocation"));
    let devices = allocation.member("devices");
    let allocated: HashSet<DeviceId<'_>> = devices.member("results").items().map(|result| device_id(&result)).collect();
    list.items().for_each(|it| device(&it, &allocated, causes));
    let mut known = HashSet::new();
    for device in list.items().filter(|device| !known.insert(device_id(device))) {
        causes.duplicate_shown(&device, DEVICE_ID, "");
    }
}

fn user(at: &At<'_, '_>, causes: &mut Causes) {
    for name in ["resource", "name", "uid"] {
        meta::present(&at.member(name), "", causes);
    }
}

fn reserved(status: &At<'_, '_>, old: &At<'_, '_>, is_deleted: bool, causes: &mut Causes) {
    const LATE: &str = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
    let (users, before) = (status.member("reservedFor"), old.member("reservedFor"));
    if users.len() == 0 {
        return;
    }
    let known: HashSet<&Value> = before.value().as_array().into_iter().flatten().collect();
    if status.member("allocation").is_absent() {
        causes.forbidden(&users, "may not be specified when `allocated` is not set");
    } else if is_deleted && users.items().any(|user| !known.contains(user.value())) {
        causes.forbidden(&users, LATE);
    }
}

fn device(at: &At<'_, '_>, allocated: &HashSet<DeviceId<'_>>, causes: &mut Causes) {
    devices::driver(&at.member("driver"), causes);
    devices::pool(&at.member("pool"), causes);
    meta::label(&at.member("device"), causes);
    share(at, causes);
    if !allocated.contains(&device_id(at)) {
        causes.invalid_shown(at, DEVICE_ID, "must be an allocated device in the claim");
    }
    let list = at.member("conditions");
    if list.len() > CONDITIONS_MAX {
        causes.too_many(&list, CONDITIONS_MAX);
    }
    conditions(&list, causes);
    let data = at.member("data");
    if data.is_present() {
        raw_object(&data, false, causes);
    }
    network(&at.member("networkData"), causes);
}

fn share(at: &At<'_, '_>, causes: &mut Causes) {
    let share = at.member("shareID");
    if share.is_present() {
        devices::uid(&share, causes);
    }
}

fn network(at: &At<'_, '_>, causes: &mut Causes) {
    for (name, max) in [("interfaceName", INTERFACE_BYTES_MAX), ("hardwareAddress", HARDWARE_BYTES_MAX)] {
        if at.member(name).text().len() > max {
            causes.too_long(&at.member(name), max);
        }
    }
    set(&at.member("ips"), ADDRESSES_MAX, itself, causes, interface);
}

/// A new allocation; one that is there does not change.
fn allocation(at: &At<'_, '_>, names: &Requests<'_>, causes: &mut Causes) {
    let devices = at.member("devices");
    slice(&devices.member("results"), RESULTS_MAX, causes, |it, causes| result(it, names, causes));
    slice(&devices.member("config"), CONFIGS_MAX, causes, |it, causes| {
        let source = it.member("source");
        match source.text() {
            "" => causes.required(&source, ""),
            text if SOURCES.contains(&text) => {}
            _ => causes.not_supported(&source, &SOURCES),
        }
        names.judge_all(&it.member("requests"), causes);
        configuration(it, false, causes);
    });
    let selector = at.member("nodeSelector");
    if selector.is_present() {
        node_selector::node_selector(&selector, false, causes);
    }
}

fn result(at: &At<'_, '_>, names: &Requests<'_>, causes: &mut Causes) {
    names.judge(&at.member("request"), causes);
    devices::driver(&at.member("driver"), causes);
    devices::pool(&at.member("pool"), causes);
    meta::label(&at.member("device"), causes);
    binding_conditions(at, causes);
    share(at, causes);
}

/// An address with the length of its prefix, in its canonical form (`IsValidInterfaceAddress`).
fn interface(at: &At<'_, '_>, causes: &mut Causes) {
    match addresses::parse_network(at.text()) {
        None => causes.invalid_text(at, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"),
        Some((address, length)) => {
            let canonical = format!("{address}/{length}");
            if canonical != at.text() {
                causes.invalid_text(at, &format!("must be in canonical form ({})", quoted(&canonical)));
            }
        }
    }
}
