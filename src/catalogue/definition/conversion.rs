//! How a definition says its versions are converted: the strategy, and where its webhook is (spec api-surface §11.1). Calls no webhook.

use std::collections::HashSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use x509::certificate;

use super::{
    names::not_a_label,
    shown,
    tree::{at, child, list, member, optional_text, text},
};
use go::{quote::quoted, url};
use model::{invalid::FieldError, legal::wrong_subdomain};

/// Versions of ConversionReview that kube-apiserver speaks.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
/// Ports are 16 bit numbers.
const PORT_MAX: i64 = 65_535;

/// What an old definition permits its successor.
#[derive(Clone, Copy)]
pub(super) struct Lenience {
    /// No version of `REVIEWS` needs to be named.
    pub(super) reviews: bool,
    /// The bundle may be none: until the definition is established, or if the old one was none.
    pub(super) bundle: bool,
}

/// What is wrong with `spec.conversion` in its v1beta1 form.
pub(super) fn wrong_conversion(conversion: &Value, path: &str, lenient: Lenience) -> Vec<FieldError> {
    const NOT_WEBHOOK: &str = "should not be set when strategy is not set to Webhook";
    let mut errors = Vec::new();
    let strategy = text(conversion, "strategy");
    match strategy {
        "" => errors.push(FieldError::required(child(path, "strategy"), "")),
        "None" | "Webhook" => {}
        odd => errors.push(FieldError::not_supported(child(path, "strategy"), &Value::from(odd), &["None", "Webhook"])),
    }
    let config_path = child(path, "webhookClientConfig");
    let (config, reviews) = (member(conversion, "webhookClientConfig"), list(conversion, "conversionReviewVersions"));
    if strategy == "Webhook" {
        match config {
            Some(config) => errors.extend(wrong_config(config, &config_path, lenient.bundle)),
            None => errors.push(FieldError::required(config_path, "required when strategy is set to Webhook")),
        }
        errors.extend(wrong_reviews(reviews, &child(path, "conversionReviewVersions"), lenient.reviews));
    } else {
        errors.extend(config.map(|_| FieldError::forbidden(config_path, NOT_WEBHOOK)));
        errors.extend((!reviews.is_empty()).then(|| FieldError::forbidden(child(path, "conversionReviewVersions"), NOT_WEBHOOK)));
    }
    errors
}

/// Whether a list names a version that kube-apiserver speaks, or nothing.
pub(super) fn has_review(reviews: &[Value]) -> bool {
    reviews.is_empty() || reviews.iter().any(|review| REVIEWS.iter().any(|known| review == known))
}

/// Why a base64 text is no bundle of certificates; `None` when it is empty or has one.
pub(super) fn wrong_bundle(bundle: &str) -> Option<String> {
    if bundle.is_empty() {
        return None;
    }
    let bytes = BASE64_STANDARD.decode(bundle).unwrap_or_default();
    certificate::authorities(&bytes).err().map(|why| format!("unable to load root certificates: {why}"))
}

fn wrong_config(config: &Value, path: &str, any_bundle: bool) -> Vec<FieldError> {
    let mut errors = match (optional_text(config, "url"), member(config, "service")) {
        (Some(text), None) => wrong_url(text, &child(path, "url")),
        (None, Some(service)) => wrong_service(service, &child(path, "service")),
        _ => vec![FieldError::required(path, "exactly one of url or service is required")],
    };
    let bundle = text(config, "caBundle");
    if !any_bundle && let Some(why) = wrong_bundle(bundle) {
        errors.push(FieldError::invalid(child(path, "caBundle"), &Value::from(bundle), &why));
    }
    errors
}

fn wrong_url(text: &str, path: &str) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(why) => return vec![FieldError::required(path, &format!("url must be a valid URL: {why}{FORM}"))],
    };
    let checks = [
        ((url.scheme != "https").then_some(&*url.scheme), format!("'https' is the only allowed URL scheme{FORM}")),
        (url.host.is_empty().then_some(url.host), format!("host must be specified{FORM}")),
        (url.user, "user information is not permitted in the URL".to_owned()),
        (Some(url.fragment).filter(|text| !text.is_empty()), "fragments are not permitted in the URL".to_owned()),
        (Some(url.query).filter(|text| !text.is_empty()), "query parameters are not permitted in the URL".to_owned()),
    ];
    let wrong = |(value, why): &(Option<&str>, String)| Some(shown::invalid_shown(path, &quoted((*value)?), why));
    checks.iter().filter_map(wrong).collect()
}

fn wrong_service(service: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // kube-apiserver mixes the two up: it asks for the name where the namespace is missing, and the other way round.
    for (missing, named) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, missing).is_empty() {
            errors.push(FieldError::required(child(path, named), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=PORT_MAX).contains(&port) {
        let why = format!("port is not valid: must be between 1 and {PORT_MAX}, inclusive");
        errors.push(FieldError::invalid(child(path, "port"), &Value::from(port), &why));
    }
    let url_path = text(service, "path");
    let mut refuse = |why: String| errors.push(FieldError::invalid(child(path, "path"), &Value::from(url_path), &why));
    match url_path {
        "" | "/" => {}
        "//" => refuse("segment[0] may not be empty".to_owned()),
        _ => {
            if !url_path.starts_with('/') {
                refuse("must start with a '/'".to_owned());
            }
            // The first character is taken for the slash that should be there.
            let inner = url_path.char_indices().nth(1).map_or("", |(at, _)| &url_path[at..]);
            for (i, segment) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
                if segment.is_empty() {
                    refuse(format!("segment[{i}] may not be empty"));
                } else {
                    wrong_subdomain(segment).into_iter().for_each(|why| refuse(format!("segment[{i}]: {why}")));
                }
            }
        }
    }
    errors
}

fn wrong_reviews(reviews: &[Value], path: &str, any: bool) -> Vec<FieldError> {
    if reviews.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let (mut errors, mut before) = (Vec::new(), HashSet::new());
    for (i, review) in reviews.iter().enumerate() {
        if !before.insert(review) {
            errors.push(FieldError::invalid(at(path, i), review, "duplicate version"));
        } else {
            let wrong = not_a_label(review.as_str().unwrap_or_default());
            errors.extend(wrong.iter().map(|why| FieldError::invalid(at(path, i), review, why)));
        }
    }
    if !any && !has_review(reviews) {
        let shown = shown::json(&Value::from(reviews));
        errors.push(shown::invalid_shown(path, &shown, &format!("must include at least one of {}", REVIEWS.join(", "))));
    }
    errors
}
