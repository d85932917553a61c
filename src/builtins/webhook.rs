//! Where a webhook is called (`apiserver/pkg/util/webhook`).

use serde_json::Value;

use crate::{at::At, causes::Causes, names};
use go::url;

const FORM: &str = "; desired format: https://host[/path]";

/// A client configuration: a URL or a Service. The bundle of a webhook of admission is not judged.
pub(crate) fn client_config(at: &At<'_, '_>, causes: &mut Causes) {
    let (url, service) = (at.member("url"), at.member("service"));
    match (url.is_present(), service.is_present()) {
        (true, false) => self::url(&url, causes),
        (false, true) => self::service(&service, causes),
        _ => causes.required(at, "exactly one of url or service is required"),
    }
}

fn url(at: &At<'_, '_>, causes: &mut Causes) {
    let url = match url::parse(at.text()) {
        Ok(url) => url,
        Err(why) => return causes.required(at, &format!("url must be a valid URL: {why}{FORM}")),
    };
    let mut refuse = |part: &str, why: &str| causes.invalid_as(at, &Value::from(part), why);
    if url.scheme != "https" {
        refuse(&url.scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        refuse("", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        refuse(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        refuse(url.query, "query parameters are not permitted in the URL");
    }
}

fn service(at: &At<'_, '_>, causes: &mut Causes) {
    // The real server mixes the two up: it asks for the name where the namespace is missing, and the other way round.
    for (missing, named) in [("namespace", "name"), ("name", "namespace")] {
        if at.member(missing).text().is_empty() {
            causes.required(&at.member(named), "");
        }
    }
    let port = at.member("port");
    if let Some(why) = names::port_number(port.integer()) {
        causes.invalid_as(&port, &port.integer().into(), &format!("port is not valid: {why}"));
    }
    path(&at.member("path"), causes);
}

fn path(at: &At<'_, '_>, causes: &mut Causes) {
    let text = at.text();
    match text {
        "" | "/" => return,
        "//" => return causes.invalid(at, "segment[0] may not be empty"),
        _ => {}
    }
    if !text.starts_with('/') {
        causes.invalid(at, "must start with a '/'");
    }
    // The first byte is taken for the slash that should be there.
    let inner = String::from_utf8_lossy(&text.as_bytes()[1..]);
    for (i, segment) in inner.strip_suffix('/').unwrap_or(&inner).split('/').enumerate() {
        if segment.is_empty() {
            causes.invalid(at, &format!("segment[{i}] may not be empty"));
        } else {
            names::subdomain(segment).iter().for_each(|why| causes.invalid(at, &format!("segment[{i}]: {why}")));
        }
    }
}
