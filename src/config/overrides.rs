//! `--etcd-servers-overrides`: which resources are in an etcd of their own, as kube-apiserver reads it.

use super::host_of;

/// kube-apiserver's words.
const INVALID: &str =
    "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated";

/// All resources of a group.
const ALL: &str = "*";

/// One override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// API group; empty for core.
    pub group: String,
    /// Plural name, or `*` for all of the group.
    pub resource: String,
    /// Endpoints, as in `Etcd::servers`.
    pub servers: Vec<String>,
}

impl Override {
    /// How well it fits a resource by the names that it is stored under; the name counts before `*`.
    #[must_use]
    pub fn fit(&self, group: &str, resource: &str) -> Option<u8> {
        match &*self.resource {
            _ if self.group != group => None,
            name if name == resource => Some(1),
            ALL => Some(0),
            _ => None,
        }
    }
}

/// Checks the values, which were separated at commas.
pub(super) fn overrides(values: &[String]) -> Result<Vec<Override>, String> {
    values.iter().map(|value| one(value)).collect()
}

fn one(value: &str) -> Result<Override, String> {
    let parts: Vec<&str> = value.split('#').collect();
    let [name, servers] = parts[..] else { return Err(INVALID.to_owned()) };
    let names: Vec<&str> = name.split('/').collect();
    let [group, resource] = names[..] else { return Err(INVALID.to_owned()) };
    let servers: Vec<String> = servers.split(';').map(str::to_owned).collect();
    if servers.iter().any(String::is_empty) {
        return Err(INVALID.to_owned());
    }
    let servers: Vec<String> = servers.iter().map(|url| url.trim().trim_end_matches('/').to_owned()).collect();
    if let Some(wrong) = servers.iter().find(|url| host_of(url).is_none()) {
        return Err(format!("--etcd-servers-overrides: {wrong:?} is not http://host:port or https://host:port"));
    }
    let tls = servers.iter().filter(|url| url.starts_with("https://")).count();
    if tls != 0 && tls != servers.len() {
        return Err(format!("--etcd-servers-overrides: {name} mixes http and https"));
    }
    Ok(Override { group: group.to_owned(), resource: resource.to_owned(), servers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<Override, String> {
        overrides(&[value.to_owned()]).map(|mut all| all.remove(0))
    }

    #[test]
    fn an_override_is_read_as_kube_apiserver_reads_it() {
        let events = read("/events#http://a:2379;http://b:2379/").expect("fits");
        assert_eq!(
            (&*events.group, &*events.resource, &events.servers[..]),
            ("", "events", &["http://a:2379".to_owned(), "http://b:2379".to_owned()][..])
        );
        assert_eq!((events.fit("", "events"), events.fit("", "pods"), events.fit("events.k8s.io", "events")), (Some(1), None, None));
        let apps = read("apps/*#https://a:2379").expect("fits");
        assert_eq!((apps.fit("apps", "deployments"), apps.fit("", "pods")), (Some(0), None));
        for wrong in
            ["", "events", "/events", "events#http://a", "a/b/c#http://a", "/events#", "/events#http://a;", "/events#http://a#http://b"]
        {
            assert_eq!(read(wrong), Err(INVALID.to_owned()), "{wrong}");
        }
        assert!(read("/events#a:2379").is_err_and(|why| why.contains("a:2379")));
        assert!(read("/events#http://a:1;https://b:1").is_err());
    }
}
