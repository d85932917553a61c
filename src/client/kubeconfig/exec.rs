//! The credential plugin of a user: what is run, and what it is told.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use go::json::{string_into, value_into};
use go::quote::quoted;

use super::Files;
use super::file::{Cluster, Exec, User};
use super::server::without_query;
use super::watched::clean;
use crate::credentials::{PluginCommand, PluginSpec, PluginVersion};

/// The plugin that a user names.
///
/// # Errors
/// It speaks a version of its own, or wants to ask somebody.
pub(super) fn plugin(user_name: &str, user: &User, cluster: &Cluster, files: &dyn Files) -> Result<Option<PluginSpec>, String> {
    let Some(exec) = &user.exec else { return Ok(None) };
    let Some(version) = PluginVersion::of(&exec.api_version) else {
        return Err(format!("exec plugin: invalid apiVersion {}", quoted(&exec.api_version)));
    };
    if exec.interactive_mode == "Always" {
        let user = quoted(user_name);
        return Err(format!("exec plugin of user {user} cannot support interactive mode: standard input is not a terminal"));
    }
    let info = info(version, exec, cluster, files)?;
    let command = if exec.command.contains('/') {
        PluginCommand::File(clean(&files.resolve(Path::new(&exec.command))))
    } else {
        PluginCommand::Name(exec.command.clone())
    };
    Ok(Some(PluginSpec { version, command, args: exec.args.clone(), env: exec.env.clone(), install_hint: exec.install_hint.clone(), info }))
}

/// `KUBERNETES_EXEC_INFO`, byte for byte as client-go writes it.
fn info(version: PluginVersion, exec: &Exec, cluster: &Cluster, files: &dyn Files) -> Result<String, String> {
    let mut out = format!(r#"{{"kind":"ExecCredential","apiVersion":"{}","spec":{{"#, version.text()).into_bytes();
    if exec.provide_cluster_info {
        out.extend_from_slice(br#""cluster":{"server":"#);
        string_into(&without_query(&cluster.server), &mut out);
        let text = |name: &str, text: &str, out: &mut Vec<u8>| {
            if !text.is_empty() {
                out.extend_from_slice(format!(r#","{name}":"#).as_bytes());
                string_into(text, out);
            }
        };
        let flag = |name: &str, is_set: bool, out: &mut Vec<u8>| {
            if is_set {
                out.extend_from_slice(format!(r#","{name}":true"#).as_bytes());
            }
        };
        text("tls-server-name", &cluster.tls_server_name, &mut out);
        flag("insecure-skip-tls-verify", cluster.insecure_skip_tls_verify, &mut out);
        text("certificate-authority-data", &BASE64_STANDARD.encode(cluster.authorities(files)?.unwrap_or_default()), &mut out);
        text("proxy-url", &cluster.proxy_url, &mut out);
        flag("disable-compression", cluster.disable_compression, &mut out);
        out.extend_from_slice(br#","config":"#);
        value_into(&cluster.plugin_extension, &mut out);
        out.extend_from_slice(b"},");
    }
    out.extend_from_slice(b"\"interactive\":false}}\n");
    Ok(String::from_utf8(out).expect("JSON is text"))
}
