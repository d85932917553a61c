//! Ingresses and their classes (`pkg/apis/networking/validation`).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::{FieldError, addresses, at::At, causes::Causes, names};

/// Bytes of the name of a controller.
const CONTROLLER_BYTES_MAX: usize = 250;
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const IMMUTABLE: &str = "field is immutable";
const NO_ADDRESS: &str = "must be a DNS name, not an IP address";

/// What an update lets stand because it was there before.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    any_secret: bool,
    any_wildcard_rule: bool,
}

/// What is wrong with a new Ingress.
pub fn create(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| {
        let root = At::root(object);
        spec(&root.member("spec"), Options::default(), causes);
        annotation(&root, causes);
    })
}

/// What is wrong with a changed Ingress.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let old = At::root(old);
    let old = old.member("spec");
    let options = Options { any_secret: has_wrong_secret(&old), any_wildcard_rule: has_wrong_wildcard_rule(&old) };
    Causes::of(|causes| spec(&At::root(new).member("spec"), options, causes))
}

/// What is wrong with a changed status of an Ingress.
pub fn update_status(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    let (old, new) = (old.member("status"), new.member("status"));
    let (old, new) = (old.member("loadBalancer"), new.member("loadBalancer"));
    let known: HashSet<&str> = old.member("ingress").items().map(|ingress| ingress.member("ip").text()).collect();
    Causes::of(|causes| new.member("ingress").items().for_each(|ingress| point(&ingress, &known, causes)))
}

/// Where a load balancer takes traffic in.
fn point(at: &At<'_, '_>, known: &HashSet<&str>, causes: &mut Causes) {
    let (address, host) = (at.member("ip"), at.member("hostname"));
    if !address.is_zero() && !known.contains(address.text()) {
        let _ = addresses::legacy_address(&address, causes);
    }
    if !host.is_zero() {
        causes.each_invalid(&host, names::subdomain(host.text()));
        if addresses::parse(host.text()).is_some() {
            causes.invalid(&host, NO_ADDRESS);
        }
    }
}

fn annotation(root: &At<'_, '_>, causes: &mut Causes) {
    let class = root.member("spec").member("ingressClassName").value().as_str();
    let metadata = root.member("metadata");
    let annotations = metadata.member("annotations");
    let annotation = annotations.member(CLASS_ANNOTATION);
    if let Some(class) = class
        && annotation.is_present()
        && annotation.text() != class
    {
        let shown = At::named("annotations", annotations.value());
        causes.invalid(&shown.member(CLASS_ANNOTATION), "must match `ingressClassName` when both are specified");
    }
}

fn spec(at: &At<'_, '_>, options: Options, causes: &mut Causes) {
    let (default, rules, class) = (at.member("defaultBackend"), at.member("rules"), at.member("ingressClassName"));
    if rules.len() == 0 && default.is_absent() {
        causes.invalid_as(at, rules.value(), "either `defaultBackend` or `rules` must be specified");
    }
    if default.is_present() {
        backend(&default, causes);
    }
    rules.items().for_each(|rule| self::rule(&rule, options, causes));
    at.member("tls").items().for_each(|tls| self::tls(&tls, options, causes));
    if class.is_present() {
        causes.each_invalid(&class, names::subdomain(class.text()));
    }
}

fn rule(at: &At<'_, '_>, options: Options, causes: &mut Causes) {
    let host = at.member("host");
    if !host.is_zero() {
        if addresses::parse(host.text()).is_some() {
            causes.invalid(&host, NO_ADDRESS);
        }
        causes.each_invalid(&host, host_name(host.text()));
    }
    if !is_wildcard(host.text()) || !options.any_wildcard_rule {
        paths(at, causes);
    }
}

fn is_wildcard(host: &str) -> bool {
    host.contains('*')
}

fn host_name(host: &str) -> Vec<String> {
    if is_wildcard(host) { names::wildcard_subdomain(host) } else { names::subdomain(host) }
}

/// The paths of a rule, if it is one of HTTP.
fn paths(rule: &At<'_, '_>, causes: &mut Causes) {
    let http = rule.member("http");
    if http.is_absent() {
        return;
    }
    let paths = http.member("paths");
    if paths.len() == 0 {
        causes.required(&paths, "");
    }
    paths.items().for_each(|path| self::path(&path, causes));
}

fn path(at: &At<'_, '_>, causes: &mut Causes) {
    const PARTS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
    const ENDS: [&str; 2] = ["/..", "/."];
    let (kind, path) = (at.member("pathType"), at.member("path"));
    let text = path.text();
    let is_absolute = text.starts_with('/');
    match kind.value().as_str() {
        None => return causes.required(&kind, "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !is_absolute {
                causes.invalid_text(&path, "must be an absolute path");
            }
            for part in PARTS.iter().filter(|part| text.contains(*part)) {
                causes.invalid(&path, &format!("must not contain '{part}'"));
            }
            for end in ENDS.iter().filter(|end| text.ends_with(*end)) {
                causes.invalid(&path, &format!("cannot end with '{end}'"));
            }
        }
        Some("ImplementationSpecific") if text.is_empty() || is_absolute => {}
        Some("ImplementationSpecific") => causes.invalid(&path, "must be an absolute path"),
        Some(_) => causes.not_supported(&kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&at.member("backend"), causes);
}

fn backend(at: &At<'_, '_>, causes: &mut Causes) {
    let (resource, service) = (at.member("resource"), at.member("service"));
    match (resource.is_present(), service.is_present()) {
        (true, true) => causes.invalid_as(at, &json!(""), "cannot set both resource and service backends"),
        (true, false) => reference(&resource, causes),
        (false, true) => service_backend(at, &service, causes),
        (false, false) => causes.invalid_as(at, &json!(""), "resource or service backend is required"),
    }
}

fn service_backend(at: &At<'_, '_>, service: &At<'_, '_>, causes: &mut Causes) {
    let (service_name, port) = (service.member("name"), service.member("port"));
    let (name, number) = (port.member("name"), port.member("number"));
    if service_name.is_zero() {
        causes.required(&service_name, "");
    } else {
        causes.each_invalid(&service_name, names::label(service_name.text()));
    }
    match (!name.is_zero(), !number.is_zero()) {
        (true, true) => causes.invalid_as(at, &json!(""), "cannot set both port name & port number"),
        (true, false) => causes.each_invalid(&name, names::port_name(name.text())),
        (false, true) => causes.each_invalid(&number, names::port_number(number.integer())),
        (false, false) => causes.required(at, "port name or number is required"),
    }
}

/// An object of any group: its kind and its name are parts of paths.
fn reference(at: &At<'_, '_>, causes: &mut Causes) {
    let group = at.member("apiGroup");
    if group.is_present() {
        causes.each_invalid(&group, names::subdomain(group.text()));
    }
    for name in ["kind", "name"] {
        path_segment(&at.member(name), causes);
    }
}

/// A text that must be there and can be a part of a path.
pub(crate) fn path_segment(at: &At<'_, '_>, causes: &mut Causes) {
    if at.is_zero() {
        causes.required(at, "");
    } else {
        causes.each_invalid(at, names::path_segment(at.text()));
    }
}

fn tls(at: &At<'_, '_>, options: Options, causes: &mut Causes) {
    let secret = at.member("secretName");
    at.member("hosts").items().for_each(|host| causes.each_invalid(&host, host_name(host.text())));
    if !options.any_secret && !secret.is_zero() {
        causes.each_invalid(&secret, names::subdomain(secret.text()));
    }
}

fn has_wrong_secret(spec: &At<'_, '_>) -> bool {
    let tls = spec.member("tls");
    let is_wrong = |name: &str| !name.is_empty() && !names::subdomain(name).is_empty();
    tls.items().any(|tls| is_wrong(tls.member("secretName").text()))
}

fn has_wrong_wildcard_rule(spec: &At<'_, '_>) -> bool {
    let rules = spec.member("rules");
    let is_wrong = |rule: &At<'_, '_>| !Causes::of(|causes| paths(rule, causes)).is_empty();
    rules.items().any(|rule| is_wildcard(rule.member("host").text()) && is_wrong(&rule))
}

/// What is wrong with a new IngressClass.
pub fn create_class(object: &Value) -> Vec<FieldError> {
    Causes::of(|causes| class(&At::root(object).member("spec"), causes))
}

/// What is wrong with a changed IngressClass.
pub fn update_class(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (At::root(old), At::root(new));
    Causes::of(|causes| {
        let spec = new.member("spec");
        if old.member("spec").member("controller").text() != spec.member("controller").text() {
            causes.invalid_text(&spec.member("controller"), IMMUTABLE);
        }
        class(&spec, causes);
    })
}

fn class(spec: &At<'_, '_>, causes: &mut Causes) {
    let (controller, parameters) = (spec.member("controller"), spec.member("parameters"));
    if controller.text().len() > CONTROLLER_BYTES_MAX {
        causes.too_long(&controller, CONTROLLER_BYTES_MAX);
    }
    domain_path(&controller, causes);
    if parameters.is_present() {
        reference(&parameters, causes);
        scope(&parameters, causes);
    }
}

/// A domain and a path (`IsDomainPrefixedPath`).
fn domain_path(at: &At<'_, '_>, causes: &mut Causes) {
    match at.text().split_once('/') {
        _ if at.is_zero() => causes.required(at, ""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            names::subdomain(domain).iter().for_each(|why| causes.invalid_as(at, &domain.into(), why));
            names::http_path(path).iter().for_each(|why| causes.invalid_as(at, &path.into(), why));
        }
        _ => causes.invalid(at, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn scope(parameters: &At<'_, '_>, causes: &mut Causes) {
    let (scope, namespace) = (parameters.member("scope"), parameters.member("namespace"));
    match scope.value().as_str() {
        None => causes.required(&scope, ""),
        Some("Cluster") if namespace.is_present() => causes.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'"),
        Some("Cluster") => {}
        Some("Namespace") if namespace.is_absent() => causes.required(&namespace, "`parameters.scope` is set to 'Namespace'"),
        Some("Namespace") => causes.each_invalid(&namespace, names::label(namespace.text())),
        Some(_) => causes.not_supported_text(&scope, &["Cluster", "Namespace"]),
    }
}
