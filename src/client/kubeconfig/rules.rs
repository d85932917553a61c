//! Which parts of a kubeconfig file go together: client-go's checks, in its words.

use std::path::Path;

use go::quote::quoted;

use super::Files;
use super::file::{Chosen, Cluster, Exec, User};
use crate::proxy::Proxy;

/// Checks what was chosen.
///
/// # Errors
/// All that is wrong with it.
pub(super) fn check(chosen: &Chosen, files: &dyn Files) -> Result<(), String> {
    let mut wrong = of_user(&chosen.user_name, &chosen.user, files);
    wrong.extend(of_cluster(&chosen.cluster_name, &chosen.cluster, files));
    match &wrong[..] {
        [] => Ok(()),
        [only] => Err(format!("invalid configuration: {only}")),
        all => Err(format!("invalid configuration: [{}]", all.join(", "))),
    }
}

fn of_cluster(name: &str, cluster: &Cluster, files: &dyn Files) -> Vec<String> {
    let mut wrong = Vec::new();
    if cluster.server.is_empty() {
        wrong.push(match name {
            "" => "default cluster has no server defined".to_owned(),
            name => format!("no server found for cluster {}", quoted(name)),
        });
    }
    if let Err(why) = Proxy::read(&cluster.proxy_url) {
        wrong.push(format!(
            "invalid 'proxy-url' {} for cluster {}: {why}",
            quoted(&Proxy::without_password(&cluster.proxy_url)),
            quoted(name)
        ));
    }
    if !cluster.certificate_authority.is_empty() && !cluster.certificate_authority_data.is_empty() {
        let both = "certificate-authority-data and certificate-authority are both specified";
        wrong.push(format!("{both} for {name}. certificate-authority-data will override."));
    }
    wrong.extend(unreadable("certificate-authority", &cluster.certificate_authority, name, files));
    wrong
}

fn of_user(name: &str, user: &User, files: &dyn Files) -> Vec<String> {
    let mut wrong = Vec::new();
    let (has_file, has_data) = (!user.client_certificate.is_empty(), !user.client_certificate_data.is_empty());
    if has_file || has_data {
        let (has_key_file, has_key_data) = (!user.client_key.is_empty(), !user.client_key_data.is_empty());
        if has_file && has_data {
            wrong.push(format!("client-cert-data and client-cert are both specified for {name}. client-cert-data will override."));
        }
        if has_key_file && has_key_data {
            wrong.push(format!("client-key-data and client-key are both specified for {name}; client-key-data will override"));
        }
        if !has_key_file && !has_key_data {
            let needed = "client-key-data or client-key must be specified";
            wrong.push(format!("{needed} for {name} to use the clientCert authentication method."));
        }
        wrong.extend(unreadable("client-cert", &user.client_certificate, name, files));
        wrong.extend(unreadable("client-key", &user.client_key, name, files));
    }
    if let Some(exec) = &user.exec {
        of_exec(name, exec, user.auth_provider.is_some(), &mut wrong);
    }
    if !user.token.is_empty() && (!user.username.is_empty() || !user.password.is_empty()) {
        wrong.push(format!("more than one authentication method found for {name}; found [token basicAuth], only one is allowed"));
    }
    let has_more = !user.impersonate_uid.is_empty() || !user.impersonate_groups.is_empty() || !user.impersonate_extra.is_empty();
    if has_more && user.impersonate.is_empty() {
        wrong.push(format!("requesting uid, groups or user-extra for {name} without impersonating a user"));
    }
    wrong
}

fn of_exec(name: &str, exec: &Exec, has_provider: bool, wrong: &mut Vec<String>) {
    if has_provider {
        wrong.push(format!("authProvider cannot be provided in combination with an exec plugin for {name}"));
    }
    let missing = [
        (exec.command.is_empty(), "command"),
        (exec.api_version.is_empty(), "apiVersion"),
        (exec.env.iter().any(|(name, _)| name.is_empty()), "env variable name"),
        (exec.interactive_mode.is_empty(), "interactiveMode"),
    ];
    let missing = missing.iter().filter(|(is_missing, _)| *is_missing);
    wrong.extend(missing.map(|(_, what)| format!("{what} must be specified for {name} to use exec authentication plugin")));
    if !matches!(exec.interactive_mode.as_str(), "" | "Never" | "IfAvailable" | "Always") {
        wrong.push(format!("invalid interactiveMode for {name}: {}", quoted(&exec.interactive_mode)));
    }
}

fn unreadable(member: &str, file: &str, name: &str, files: &dyn Files) -> Option<String> {
    if file.is_empty() {
        return None;
    }
    let why = files.read(Path::new(file)).err()?;
    Some(format!("unable to read {member} {file} for {name} due to {why}"))
}
