//! What stands in a kubeconfig file: its clusters, users and contexts, all of them read as client-go's decoder reads them, and
//! those that are chosen.

use std::collections::BTreeMap;

use go::quote::quoted;
use serde_json::Value;

use crate::node::Node;

/// The extension of a cluster that a credential plugin is told.
const PLUGIN_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// A file.
#[derive(Debug, Default)]
pub(super) struct File {
    current_context: String,
    clusters: Vec<(String, Cluster)>,
    users: Vec<(String, User)>,
    contexts: Vec<(String, Context)>,
}

/// What `context` has.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    cluster: String,
    user: String,
}

/// What `cluster` has.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) server: String,
    pub(super) tls_server_name: String,
    pub(super) insecure_skip_tls_verify: bool,
    pub(super) certificate_authority: String,
    pub(super) certificate_authority_data: Vec<u8>,
    pub(super) proxy_url: String,
    pub(super) disable_compression: bool,
    /// What is for credential plugins.
    pub(super) plugin_extension: Value,
}

/// What `user` has.
#[derive(Clone, Debug, Default)]
pub(super) struct User {
    pub(super) client_certificate: String,
    pub(super) client_certificate_data: Vec<u8>,
    pub(super) client_key: String,
    pub(super) client_key_data: Vec<u8>,
    pub(super) token: String,
    pub(super) token_file: String,
    pub(super) username: String,
    pub(super) password: String,
    pub(super) impersonate: String,
    pub(super) impersonate_uid: String,
    pub(super) impersonate_groups: Vec<String>,
    pub(super) impersonate_extra: Vec<(String, Vec<String>)>,
    pub(super) exec: Option<Exec>,
    /// Its name.
    pub(super) auth_provider: Option<String>,
}

/// What `exec` has.
#[derive(Clone, Debug, Default)]
pub(super) struct Exec {
    pub(super) api_version: String,
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) install_hint: String,
    pub(super) provide_cluster_info: bool,
    pub(super) interactive_mode: String,
}

/// The cluster and the user of a context, with their names.
pub(super) struct Chosen {
    pub(super) cluster_name: String,
    pub(super) cluster: Cluster,
    pub(super) user_name: String,
    pub(super) user: User,
    /// What is odd about it, though client-go takes it.
    pub(super) warnings: Vec<String>,
}

impl File {
    /// Reads the tree of a file.
    pub(super) fn read(tree: &Value) -> Result<File, String> {
        let root = Node::root(tree);
        let (version, kind) = (root.member("apiVersion")?.text()?, root.member("kind")?.text()?);
        if !matches!(version.as_str(), "" | "v1" | "/v1") || !matches!(kind.as_str(), "" | "Config") {
            let (version, kind) = (quoted(&version), quoted(if kind.is_empty() { "Config" } else { &kind }));
            return Err(format!("no kind {kind} is registered for version {version}: a kubeconfig file is of kind Config and version v1"));
        }
        let preferences = root.member("preferences")?;
        preferences.member("colors")?.flag()?;
        extensions(&preferences)?;
        extensions(&root)?;
        Ok(File {
            current_context: root.member("current-context")?.text()?,
            clusters: root.member("clusters")?.named(|named| Cluster::read(&named.member("cluster")?))?,
            users: root.member("users")?.named(|named| User::read(&named.member("user")?))?,
            contexts: root.member("contexts")?.named(|named| Context::read(&named.member("context")?))?,
        })
    }

    /// Returns all users, by name.
    pub(super) fn users(&self) -> &[(String, User)] {
        &self.users
    }

    /// Returns the name of the user of the current context; empty when there is none.
    pub(super) fn current_user(&self) -> &str {
        let current = self.contexts.iter().find(|(name, _)| *name == self.current_context);
        current.map_or("", |(_, context)| context.user.as_str())
    }

    /// What the current context names, or the only context where none is current: client-go refuses the latter. What a context
    /// names and the file does not have
    /// is as if it were there and empty, as in client-go.
    ///
    /// # Errors
    /// There is no such context.
    pub(super) fn chosen(&self) -> Result<Chosen, String> {
        let find = |name: &str| self.contexts.iter().find(|(other, _)| other == name);
        let (current, mut warnings) = (self.current_context.as_str(), Vec::new());
        let (name, context) = match (find(current), &self.contexts[..]) {
            (Some((name, context)), _) => (name.as_str(), context.clone()),
            (None, _) if !current.is_empty() => return Err(format!("context was not found for specified context: {current}")),
            (None, [(name, only)]) => (name.as_str(), only.clone()),
            (None, []) => (current, Context::default()),
            (None, _) => {
                return Err("no configuration has been provided: current-context is not set, and there are several contexts".to_owned());
            }
        };
        let user = self.users.iter().find(|(other, _)| *other == context.user).map(|(_, user)| user.clone());
        if user.is_none() && !context.user.is_empty() {
            warnings.push(format!("user {} was not found for context {}: no credentials are sent", quoted(&context.user), quoted(name)));
        }
        let cluster = self.clusters.iter().find(|(other, _)| *other == context.cluster).map(|(_, cluster)| cluster.clone());
        let Some(cluster) = cluster else {
            return Err(match context.cluster.as_str() {
                "" if self.contexts.is_empty() => "no configuration has been provided: there is no context".to_owned(),
                "" => format!("cluster was not specified for context {}", quoted(name)),
                cluster => format!("cluster {} was not found for context {}", quoted(cluster), quoted(name)),
            });
        };
        Ok(Chosen { cluster_name: context.cluster, cluster, user_name: context.user, user: user.unwrap_or_default(), warnings })
    }
}

impl Context {
    fn read(node: &Node<'_>) -> Result<Context, String> {
        node.member("namespace")?.text()?;
        extensions(node)?;
        Ok(Context { cluster: node.member("cluster")?.text()?, user: node.member("user")?.text()? })
    }
}

impl Cluster {
    fn read(node: &Node<'_>) -> Result<Cluster, String> {
        let extension = extensions(node)?.into_iter().find(|(name, _)| name == PLUGIN_EXTENSION);
        Ok(Cluster {
            server: node.member("server")?.text()?,
            tls_server_name: node.member("tls-server-name")?.text()?,
            insecure_skip_tls_verify: node.member("insecure-skip-tls-verify")?.flag()?,
            certificate_authority: node.member("certificate-authority")?.text()?,
            certificate_authority_data: node.member("certificate-authority-data")?.bytes()?,
            proxy_url: node.member("proxy-url")?.text()?,
            disable_compression: node.member("disable-compression")?.flag()?,
            plugin_extension: extension.map(|(_, value)| value.clone()).unwrap_or_default(),
        })
    }
}

impl User {
    fn read(node: &Node<'_>) -> Result<User, String> {
        extensions(node)?;
        let (exec, provider) = (node.member("exec")?, node.member("auth-provider")?);
        let extra = node.member("as-user-extra")?.members()?;
        if provider.is_there() {
            provider.member("config")?.members()?.iter().try_for_each(|(_, value)| value.text().map(drop))?;
        }
        Ok(User {
            client_certificate: node.member("client-certificate")?.text()?,
            client_certificate_data: node.member("client-certificate-data")?.bytes()?,
            client_key: node.member("client-key")?.text()?,
            client_key_data: node.member("client-key-data")?.bytes()?,
            token: node.member("token")?.text()?,
            token_file: node.member("tokenFile")?.text()?,
            username: node.member("username")?.text()?,
            password: node.member("password")?.text()?,
            impersonate: node.member("as")?.text()?,
            impersonate_uid: node.member("as-uid")?.text()?,
            impersonate_groups: node.member("as-groups")?.texts()?,
            impersonate_extra: extra.iter().map(|(key, values)| Ok(((*key).to_owned(), values.texts()?))).collect::<Result<_, String>>()?,
            exec: exec.is_there().then(|| Exec::read(&exec)).transpose()?,
            auth_provider: provider.is_there().then(|| provider.member("name")?.text()).transpose()?,
        })
    }
}

impl Exec {
    fn read(node: &Node<'_>) -> Result<Exec, String> {
        let env = node.member("env")?.items()?;
        let env = env.iter().map(|one| Ok((one.member("name")?.text()?, one.member("value")?.text()?)));
        let mut exec = Exec {
            api_version: node.member("apiVersion")?.text()?,
            command: node.member("command")?.text()?,
            args: node.member("args")?.texts()?,
            env: env.collect::<Result<_, String>>()?,
            install_hint: node.member("installHint")?.text()?,
            provide_cluster_info: node.member("provideClusterInfo")?.flag()?,
            interactive_mode: node.member("interactiveMode")?.text()?,
        };
        let is_beta = matches!(exec.api_version.as_str(), "client.authentication.k8s.io/v1beta1" | "client.authentication.k8s.io/v1alpha1");
        if exec.interactive_mode.is_empty() && is_beta {
            exec.interactive_mode = "IfAvailable".to_owned();
        }
        Ok(exec)
    }
}

/// The extensions of an object, each of which has a name of its own; nulls do not count.
fn extensions<'a>(node: &Node<'a>) -> Result<Vec<(String, &'a Value)>, String> {
    let (node, mut all) = (node.member("extensions")?, BTreeMap::new());
    for item in node.items()? {
        let name = item.member("name")?.text()?;
        let before = all.insert(name.clone(), item.member("extension")?.value());
        if before.is_some_and(|before| !before.is_null()) {
            return node.wrong(&format!("duplicate name {}", quoted(&name)));
        }
    }
    Ok(all.into_iter().collect())
}
