//! CSIDrivers, CSINodes and CSIStorageCapacities (`pkg/apis/storage/validation`).

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::{
    FieldError,
    at::At,
    causes::Causes,
    equal::same,
    labels::{self, SelectorOptions},
    meta, names,
    pod::sources::csi_driver_name,
    quantities,
};

const IMMUTABLE: &str = "field is immutable";
const NODE_ID_BYTES_MAX: usize = 256;
/// Seconds that a token lives at least and at most.
const TOKEN_SECONDS: (i64, i64) = (600, 1 << 32);
const UPDATE_SECONDS_MIN: i64 = 10;

/// What is wrong with a new CSIDriver.
pub fn create_driver(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| driver(&At::root(object).member("spec"), causes))
}

/// What is wrong with a changed CSIDriver.
pub fn update_driver(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, new) = (old.member("spec"), new.member("spec"));
    Causes::of(|causes| {
        driver(&new, causes);
        for (name, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
            let now = new.member(name);
            if !same(old.member(name).value(), now.value()) {
                causes.invalid_as(&new.member(shown), now.value(), IMMUTABLE);
            }
        }
    })
}

fn driver(at: &At<'_, '_>, causes: &mut Causes) {
    const POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
    let policy = at.member("fsGroupPolicy");
    for (name, shown) in
        [("attachRequired", "attachedRequired"), ("podInfoOnMount", "podInfoOnMount"), ("storageCapacity", "storageCapacity")]
    {
        must_be_set(&at.member(name), &at.member(shown), causes);
    }
    if policy.is_present() && !POLICIES.contains(&policy.text()) {
        causes.not_supported(&policy, &POLICIES);
    }
    let (tokens, secrets, period) =
        (at.member("tokenRequests"), at.member("serviceAccountTokenInSecrets"), at.member("nodeAllocatableUpdatePeriodSeconds"));
    self::tokens(&tokens, causes);
    let modes = at.member("volumeLifecycleModes");
    for mode in modes.items().filter(|mode| !matches!(mode.text(), "Persistent" | "Ephemeral")) {
        causes.not_supported(&modes.with(mode.value()), &["Persistent", "Ephemeral"]);
    }
    must_be_set(&at.member("seLinuxMount"), &at.member("seLinuxMount"), causes);
    if period.some_integer().is_some_and(|period| period < UPDATE_SECONDS_MIN) {
        causes.invalid(&period, "must be greater than or equal to 10 seconds");
    }
    if secrets.is_present() && tokens.len() == 0 {
        causes.invalid(&secrets, "serviceAccountTokenInSecrets is set but no tokenRequests are specified");
    }
}

fn must_be_set(at: &At<'_, '_>, shown: &At<'_, '_>, causes: &mut Causes) {
    if at.is_absent() {
        causes.required(shown, "");
    }
}

/// Tokens, each for an audience of its own.
fn tokens(at: &At<'_, '_>, causes: &mut Causes) {
    let mut known = HashSet::new();
    for token in at.items() {
        let (audience, seconds) = (token.member("audience"), token.member("expirationSeconds"));
        if !known.insert(audience.text()) {
            causes.duplicate(&audience.with(&audience.text().into()));
            continue;
        }
        match seconds.some_integer() {
            Some(few) if few < TOKEN_SECONDS.0 => causes.invalid(&seconds, "may not specify a duration less than 10 minutes"),
            Some(many) if many > TOKEN_SECONDS.1 => causes.invalid(&seconds, "may not specify a duration larger than 2^32 seconds"),
            _ => {}
        }
    }
}

/// What is wrong with a new CSINode.
pub fn create_node(object: &Value) -> Vec<FieldError> {
    let root = At::root(object);
    let spec = root.member("spec");
    Causes::of(|causes| {
        let mut known = HashSet::new();
        for driver in spec.member("drivers").items() {
            node_driver(&driver, &mut known, causes);
        }
    })
}

/// What is wrong with a changed CSINode. A driver that stays can change nothing but how many volumes it takes.
pub fn update_node(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, root) = (At::root(old), At::root(new));
    let (old, spec) = (old.member("spec"), root.member("spec"));
    let drivers = spec.member("drivers");
    let mut errors = create_node(new);
    let mut by_name: HashMap<&str, Vec<&Value>> = HashMap::new();
    for driver in drivers.items() {
        by_name.entry(driver.member("name").text()).or_default().push(driver.value());
    }
    errors.extend(Causes::of(|causes| {
        for before in old.member("drivers").items() {
            let name = before.member("name");
            for now in by_name.get(name.text()).into_iter().flatten() {
                if ["nodeID", "topologyKeys"].iter().any(|name| !same(&before.value()[*name], &now[*name])) {
                    // How many volumes it takes is not compared, and not shown.
                    let shown = json!({"name": name.text(), "nodeID": now["nodeID"], "topologyKeys": now["topologyKeys"]});
                    causes.invalid_shown(&drivers.with(&shown), "storage.CSINodeDriver", IMMUTABLE);
                }
            }
        }
    }));
    errors
}

fn node_driver<'v>(at: &At<'_, 'v>, known: &mut HashSet<&'v str>, causes: &mut Causes) {
    let (name, id, allocatable) = (at.member("name"), at.member("nodeID"), at.member("allocatable"));
    csi_driver_name(&name, causes);
    if id.is_zero() {
        causes.required(&id, "");
    } else if id.text().len() > NODE_ID_BYTES_MAX {
        causes.invalid(&id, "must be 256 characters or less");
    }
    meta::not_negative(&allocatable.member("count"), causes);
    if !known.insert(name.text()) {
        causes.duplicate(&name.with(&name.text().into()));
    }
    let mut keys = HashSet::new();
    for key in at.member("topologyKeys").items() {
        let shown = at.with(key.value());
        if key.is_zero() {
            causes.required(at, "");
        }
        if !keys.insert(key.text()) {
            causes.duplicate(&shown);
        }
        causes.each_invalid(&shown, names::qualified(key.text()));
    }
}

/// What is wrong with a new CSIStorageCapacity.
pub fn create_capacity(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| capacity(&At::root(object), SelectorOptions::default(), causes))
}

/// What is wrong with a changed CSIStorageCapacity. Values of its topology may be wrong if they were before.
pub fn update_capacity(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (topology, class) = (new.member("nodeTopology"), new.member("storageClassName"));
    let before = old.member("nodeTopology");
    let was_wrong = !Causes::of(|causes| labels::selector(&before, SelectorOptions::default(), causes)).is_empty();
    Causes::of(|causes| {
        capacity(&new, SelectorOptions { any_value: was_wrong, ..SelectorOptions::default() }, causes);
        if !same(before.value(), topology.value()) {
            causes.invalid_shown(&topology, "*v1.LabelSelector", IMMUTABLE);
        }
        if old.member("storageClassName").text() != class.text() {
            causes.invalid_text(&class, IMMUTABLE);
        }
    })
}

fn capacity(at: &At<'_, '_>, options: SelectorOptions, causes: &mut Causes) {
    labels::selector(&at.member("nodeTopology"), options, causes);
    meta::subdomain(&at.member("storageClassName"), causes);
    quantities::not_negative(&at.member("capacity"), causes);
}
