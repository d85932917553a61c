//! Which of kube-controller-manager's controllers this server does itself: `--controllers`, with its names and its meaning.

use std::collections::BTreeSet;

/// One of kube-controller-manager's controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Empties namespaces that are deleted.
    Namespace,
    /// Deletes what belongs to what is gone.
    GarbageCollector,
    /// Gives each namespace its service account `default`.
    ServiceAccount,
    /// Fills token Secrets of service accounts, and deletes those whose account is gone.
    ServiceAccountToken,
    /// Publishes the authority of this server in each namespace.
    RootCaPublisher,
    /// Deletes Pods that no kubelet will end.
    PodGarbageCollector,
    /// Deletes finished Jobs after their time.
    TtlAfterFinished,
    /// Deletes old CertificateSigningRequests.
    CsrCleaner,
    /// Deletes bootstrap tokens that have expired.
    TokenCleaner,
    /// Keeps the status of quotas.
    ResourceQuota,
    /// Lets go of claims that no Pod uses.
    ClaimProtection,
    /// Lets go of volumes that are not bound.
    VolumeProtection,
    /// Lets go of classes of attributes that nobody names.
    AttributesClassProtection,
    /// Signs `kube-public/cluster-info` with the bootstrap tokens.
    BootstrapSigner,
}

/// A controller, its name, the name that it had before, and whether `*` has it.
struct Known {
    controller: Controller,
    name: &'static str,
    alias: &'static str,
    by_default: bool,
}

const KNOWN: [Known; 14] = [
    Known { controller: Controller::Namespace, name: "namespace-controller", alias: "namespace", by_default: true },
    Known { controller: Controller::GarbageCollector, name: "garbage-collector-controller", alias: "garbagecollector", by_default: true },
    Known { controller: Controller::ServiceAccount, name: "serviceaccount-controller", alias: "serviceaccount", by_default: true },
    Known {
        controller: Controller::ServiceAccountToken,
        name: "serviceaccount-token-controller",
        alias: "serviceaccount-token",
        by_default: true,
    },
    Known {
        controller: Controller::RootCaPublisher,
        name: "root-ca-certificate-publisher-controller",
        alias: "root-ca-cert-publisher",
        by_default: true,
    },
    Known { controller: Controller::PodGarbageCollector, name: "pod-garbage-collector-controller", alias: "podgc", by_default: true },
    Known {
        controller: Controller::TtlAfterFinished,
        name: "ttl-after-finished-controller",
        alias: "ttl-after-finished",
        by_default: true,
    },
    Known {
        controller: Controller::CsrCleaner,
        name: "certificatesigningrequest-cleaner-controller",
        alias: "csrcleaner",
        by_default: true,
    },
    Known { controller: Controller::ResourceQuota, name: "resourcequota-controller", alias: "resourcequota", by_default: true },
    Known {
        controller: Controller::ClaimProtection,
        name: "persistentvolumeclaim-protection-controller",
        alias: "pvc-protection",
        by_default: true,
    },
    Known {
        controller: Controller::VolumeProtection,
        name: "persistentvolume-protection-controller",
        alias: "pv-protection",
        by_default: true,
    },
    Known {
        controller: Controller::AttributesClassProtection,
        name: "volumeattributesclass-protection-controller",
        alias: "volumeattributesclass-protection-controller",
        by_default: true,
    },
    Known { controller: Controller::TokenCleaner, name: "token-cleaner-controller", alias: "tokencleaner", by_default: false },
    Known { controller: Controller::BootstrapSigner, name: "bootstrap-signer-controller", alias: "bootstrapsigner", by_default: false },
];

/// What `*` has.
const ALL: &str = "*";

/// The controllers that are enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<Controller>);

impl Selection {
    /// Reads the list: `*` enables all that are on by default, a name that one, `-` before a name disables it; of two entries about one controller the first
    /// counts. An empty list enables none.
    ///
    /// # Errors
    /// A name that is no controller's.
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, String> {
        let entries: Vec<&str> = list.iter().map(|entry| entry.as_ref().trim()).filter(|entry| !entry.is_empty()).collect();
        let is_known = |name: &str| KNOWN.iter().any(|known| known.name == name || known.alias == name);
        if let Some(wrong) = entries.iter().find(|entry| **entry != ALL && !is_known(entry.trim_start_matches('-'))) {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            return Err(format!("{wrong:?} is not in the list of known controllers: {}", names.join(", ")));
        }
        Ok(Self(KNOWN.iter().filter(|known| known.is_enabled(&entries)).map(|known| known.controller).collect()))
    }

    /// Whether this one is enabled.
    #[must_use]
    pub fn has(&self, controller: Controller) -> bool {
        self.0.contains(&controller)
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Known {
    fn is_enabled(&self, entries: &[&str]) -> bool {
        let said = |entry: &&str| match entry.strip_prefix('-') {
            Some(name) => (name == self.name || name == self.alias).then_some(false),
            None => (*entry == self.name || *entry == self.alias).then_some(true),
        };
        entries.iter().find_map(said).unwrap_or_else(|| self.by_default && entries.contains(&ALL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Result<Vec<&'static str>, String> {
        let selection = Selection::parse(list)?;
        Ok(KNOWN.iter().filter(|known| selection.has(known.controller)).map(|known| known.name).collect())
    }

    #[test]
    fn a_list_means_what_it_means_to_kube_controller_manager() {
        assert_eq!(names(&["*"]).map(|names| names.len()), Ok(12));
        assert_eq!(names(&["*", "tokencleaner", "bootstrapsigner"]).map(|names| names.len()), Ok(14));
        assert_eq!(names(&["*", "-namespace-controller", "-garbagecollector"]).map(|names| names.len()), Ok(10));
        assert_eq!(names(&["namespace"]), Ok(vec!["namespace-controller"]));
        assert_eq!(names(&["-namespace", "namespace-controller"]), Ok(vec![]), "the first counts");
        assert_eq!((names(&[]), names(&[""])), (Ok(vec![]), Ok(vec![])));
        assert!(names(&["*", "-cronjob-controller"]).is_err_and(|why| why.starts_with("\"-cronjob-controller\" is not in the list")));
    }
}
