//! VolumeAttachments (`pkg/apis/storage/validation`).

use serde_json::Value;

use crate::{FieldError, at::At, causes::Causes, equal::same, meta, names, pod::sources::csi_driver_name, volume};

const METADATA_BYTES_MAX: usize = 256 << 10;
const MESSAGE_BYTES_MAX: usize = 1024;
const EXACTLY_ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

/// What is wrong with a new VolumeAttachment.
pub fn create(object: &Value) -> Vec<FieldError> {
    let root = At::root(object);
    let (spec, status) = (root.member("spec"), root.member("status"));
    let source = spec.member("source");
    let name = source.member("persistentVolumeName");
    Causes::of(|causes| {
        csi_driver_name(&spec.member("attacher"), causes);
        self::source(&source, causes);
        meta::subdomain(&spec.member("nodeName"), causes);
        self::status(&status, causes);
        if name.is_present() {
            causes.each_invalid(&name, names::subdomain(name.text()));
        }
    })
}

/// What is wrong with a changed VolumeAttachment, and with a changed status.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, root) = (At::root(old), At::root(new));
    let spec = root.member("spec");
    let mut errors = create(new);
    if !same(old.member("spec").value(), spec.value()) {
        errors.extend(Causes::of(|causes| causes.invalid_shown(&spec, "storage.VolumeAttachmentSpec", "field is immutable")));
    }
    errors
}

fn source(at: &At<'_, '_>, causes: &mut Causes) {
    let (name, inline) = (at.member("persistentVolumeName"), at.member("inlineVolumeSpec"));
    match (name.is_present(), inline.is_present()) {
        (false, false) => causes.required(at, EXACTLY_ONE),
        (true, true) => causes.forbidden(at, EXACTLY_ONE),
        (true, false) if name.is_zero() => causes.required(&name, "must specify non empty persistentVolumeName"),
        (true, false) => {}
        (false, true) => volume::inline_spec(&inline, causes),
    }
}

fn status(at: &At<'_, '_>, causes: &mut Causes) {
    let metadata = at.member("attachmentMetadata");
    let bytes: usize = metadata.entries().map(|(key, value)| key.len() + value.text().len()).sum();
    if bytes > METADATA_BYTES_MAX {
        causes.too_long(&metadata, METADATA_BYTES_MAX);
    }
    for name in ["attachError", "detachError"] {
        let error = at.member(name);
        let (message, code) = (error.member("message"), error.member("errorCode"));
        if message.text().len() > MESSAGE_BYTES_MAX {
            // The limit of the metadata is what Go shows.
            causes.too_long(&message, METADATA_BYTES_MAX);
        }
        causes.each_invalid(&code, names::in_range(code.integer(), 0, i32::MAX.into()));
    }
}
