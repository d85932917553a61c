//! Volumes that are put together from several sources, and files with fields of the Pod.

use std::collections::HashSet;

use super::{Scope, fields, paths, sources};
use crate::{
    at::At,
    causes::Causes,
    labels::{SelectorOptions, selector},
    meta, names, signers,
};

const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
/// Bytes of all annotations of a certificate.
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// Seconds that a certificate is valid, of any signer and of Kubernetes' own.
const CERTIFICATE_SECONDS_MAX: i64 = 91 * 86_400;
const KUBERNETES_SECONDS_MAX: i64 = 86_400;

/// A volume of files with fields of the Pod. Paths name the volume, not the file.
pub(super) fn downward_api(at: &At<'_, '_>, causes: &mut Causes) {
    paths::mode(&at.member("defaultMode"), causes);
    at.member("items").items().for_each(|file| field_file(&at.with(file.value()), causes));
}

fn field_file(at: &At<'_, '_>, causes: &mut Causes) {
    meta::present(&at.member("path"), "", causes);
    paths::not_reserved(&at.member("path"), causes);
    let (field, resource) = (at.member("fieldRef"), at.member("resourceFieldRef"));
    if field.is_present() {
        fields::of_pod(&field, &fields::OF_FILES, causes);
        if resource.is_present() {
            causes.invalid_as(at, &"resource".into(), "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
    } else if resource.is_present() {
        fields::of_container(&resource, true, causes);
    } else {
        causes.required(at, "one of fieldRef and resourceFieldRef is required");
    }
    paths::mode(&at.member("mode"), causes);
}

/// The paths of files that are taken.
#[derive(Default)]
struct Taken<'v>(HashSet<&'v str>);

impl<'v> Taken<'v> {
    /// Takes a path, or reports at the volume that it is taken, with what Go shows.
    fn take(&mut self, path: &'v str, volume: &At<'_, '_>, shown: &str, causes: &mut Causes) {
        if !self.0.insert(path) {
            causes.invalid_as(volume, &shown.into(), "conflicting duplicate paths");
        }
    }
}

/// A volume of several sources.
pub(super) fn projected(at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    paths::mode(&at.member("defaultMode"), causes);
    let mut taken = Taken::default();
    for source in at.member("sources").items() {
        let mut count = 0;
        let mut present = |member: &'static str| {
            let part = source.member(member).value();
            count += usize::from(!part.is_null());
            !part.is_null()
        };
        for member in ["secret", "configMap"] {
            if present(member) {
                keys(at, &source.member(member), &mut taken, causes);
            }
        }
        if present("downwardAPI") {
            field_files(at, &source.member("downwardAPI"), &mut taken, causes);
        }
        if present("serviceAccountToken") {
            token(at, &source.member("serviceAccountToken"), scope, causes);
        }
        if present("clusterTrustBundle") {
            bundle(at, &source.member("clusterTrustBundle"), &mut taken, causes);
        }
        if present("podCertificate") {
            certificate(at, &source.member("podCertificate"), &mut taken, causes);
        }
        if count > 1 {
            causes.forbidden(&source, "may not specify more than 1 volume type per source");
        }
    }
}

fn keys<'v>(volume: &At<'_, 'v>, at: &At<'_, 'v>, taken: &mut Taken<'v>, causes: &mut Causes) {
    let name = at.member("name");
    meta::present(&name, "", causes);
    for item in at.member("items").items() {
        sources::key_to_path(&item, causes);
        let path = item.member("path").text();
        if !path.is_empty() {
            taken.take(path, volume, name.text(), causes);
        }
    }
}

fn field_files<'v>(volume: &At<'_, 'v>, at: &At<'_, 'v>, taken: &mut Taken<'v>, causes: &mut Causes) {
    for file in at.member("items").items() {
        field_file(&at.with(file.value()), causes);
        let path = file.member("path").text();
        if !path.is_empty() {
            taken.take(path, volume, path, causes);
        }
    }
}

fn token(volume: &At<'_, '_>, at: &At<'_, '_>, scope: &Scope<'_>, causes: &mut Causes) {
    let (seconds, path) = (at.member("expirationSeconds"), at.member("path"));
    if seconds.integer() < 10 * 60 {
        causes.invalid_as(&seconds, &seconds.integer().into(), "may not specify a duration less than 10 minutes");
    }
    if seconds.integer() > 1 << 32 {
        causes.invalid(&seconds, "may not specify a duration larger than 2^32 seconds");
    }
    let (whole, shown) = (volume.member("path"), path.value());
    if path.text().is_empty() {
        causes.required(&whole, "");
    } else if !scope.options.any_token_path {
        paths::not_reserved(&whole.with(shown), causes);
    }
}

fn bundle<'v>(volume: &At<'_, 'v>, at: &At<'_, 'v>, taken: &mut Taken<'v>, causes: &mut Causes) {
    let (name, signer, labels) = (at.member("name"), at.member("signerName"), at.member("labelSelector"));
    match (name.is_present(), signer.is_present()) {
        (true, true) => {
            causes.invalid_shown(at, "core.ClusterTrustBundleProjection", "only one of name and signerName may be used");
        }
        (true, false) => {
            meta::present(&name, "must be a valid object name", causes);
            let whys = signers::bundle(&signers::of_bundle(name.text()), name.text());
            whys.iter().for_each(|why| causes.invalid(&name, &format!("not a valid clustertrustbundlename: {why}")));
            if labels.is_present() {
                causes.invalid(&labels, "labelSelector must be unset if name is specified");
            }
        }
        (false, true) => {
            meta::present(&signer, "must be a valid signer name", causes);
            signers::signer(&signer, causes);
            selector(&labels, SelectorOptions::default(), causes);
        }
        (false, false) => causes.required(at, "either name or signerName must be specified"),
    }
    let path = at.member("path");
    meta::present(&path, "", causes);
    paths::not_reserved(&path, causes);
    taken.take(path.text(), volume, path.text(), causes);
}

fn certificate<'v>(volume: &At<'_, 'v>, at: &At<'_, 'v>, taken: &mut Taken<'v>, causes: &mut Causes) {
    signers::signer(&at.member("signerName"), causes);
    user_annotations(&at.member("userAnnotations"), causes);
    let key_type = at.member("keyType");
    if !KEY_TYPES.contains(&key_type.text()) {
        causes.not_supported_text(&key_type, &KEY_TYPES);
    }
    expiration(at, causes);
    let mut has_path = false;
    for member in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = at.member(member);
        if !path.text().is_empty() {
            has_path = true;
            paths::not_reserved(&path, causes);
            let text = path.text();
            taken.take(text, volume, text, causes);
        }
    }
    if !has_path {
        causes.required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}

fn expiration(at: &At<'_, '_>, causes: &mut Causes) {
    let seconds = at.member("maxExpirationSeconds");
    let Some(asked) = seconds.some_integer() else { return };
    if asked < 3600 {
        causes.invalid(&seconds, "if provided, maxExpirationSeconds must be >= 3600");
    }
    let is_kubernetes = signers::is_kubernetes(at.member("signerName").text());
    let max = if is_kubernetes { KUBERNETES_SECONDS_MAX } else { CERTIFICATE_SECONDS_MAX };
    if asked > max {
        causes.invalid(&seconds, &format!("if provided, maxExpirationSeconds must be <= {max}"));
    }
}

/// Annotations whose keys must have a domain (`ValidateUserAnnotations`).
pub(crate) fn user_annotations(at: &At<'_, '_>, causes: &mut Causes) {
    let mut bytes = 0;
    for (key, value) in at.entries() {
        bytes += key.len() + value.text().len();
        let key = key.to_lowercase();
        let shown = key.as_str().into();
        let whys = names::qualified(&key);
        if key.is_empty() {
            causes.required(at, "");
        } else if !whys.is_empty() {
            causes.each_invalid(&at.with(&shown), whys);
        } else if !key.contains('/') {
            causes.invalid_as(at, &shown, "must be a domain-prefixed key (such as \"acme.io/foo\")");
        }
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        causes.too_long(at, ANNOTATIONS_BYTES_MAX);
    }
}
