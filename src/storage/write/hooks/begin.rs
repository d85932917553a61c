//! Which webhooks a write begins with: what the cache has of their configurations, and which of them are for its resource.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    ConfiguredHook, Form, HookSession,
    configured::{All, Known, LIMITS},
    named::Named,
    session::Hooks,
};
use crate::write::{
    Writer,
    by::By,
    failure::WriteError,
    object_ref::{ObjectRef, stored_tree},
};
use admission::{
    hooks::{Hook, HookKind, is_exempt},
    plugins::{Lookup, Plugin},
};
use webhook::{Caller, Endpoint};

impl Writer {
    /// Returns the webhooks for a write of a client through this subresource; none if none can be asked.
    ///
    /// # Errors
    /// The cache of configurations is not loaded in time.
    pub(in crate::write) async fn hooks_for<'a>(
        &self,
        target: &ObjectRef,
        by: &By<'a>,
        (form, subresource): (Form<'a>, &'a str),
        (options, dry_run): (Value, bool),
    ) -> Result<Option<HookSession<'a>>, WriteError> {
        let Some(client) = by.client else { return Ok(None) };
        let named = Named { target, form, subresource };
        let mutating = self.hooks_of(named, HookKind::Mutating).await?;
        let validating = self.hooks_of(named, HookKind::Validating).await?;
        let mutating_policies = self.policies_of(named, HookKind::Mutating).await?;
        let policies = self.policies_of(named, HookKind::Validating).await?;
        if mutating.is_empty() && validating.is_empty() && mutating_policies.is_empty() && policies.is_empty() {
            return Ok(None);
        }
        Ok(Some(HookSession {
            client,
            form,
            subresource,
            options,
            dry_run,
            is_of_many: by.is_of_many,
            mutating,
            validating,
            mutating_policies,
            policies,
            state: Mutex::default(),
        }))
    }

    /// Returns those of a kind with a rule for this resource.
    async fn hooks_of(&self, named: Named<'_>, kind: HookKind) -> Result<Hooks, WriteError> {
        let plugin = match kind {
            HookKind::Mutating => Plugin::MutatingAdmissionWebhook,
            HookKind::Validating => Plugin::ValidatingAdmissionWebhook,
        };
        let (group, _, object_kind) = named.kind();
        if !self.admitting.plugins.has(plugin) || is_exempt(group, object_kind) {
            return Ok(Hooks::new());
        }
        let all: All = self.configured_hooks(named.target, kind).await?;
        if all.is_empty() {
            return Ok(Hooks::new());
        }
        let resources = self.resources.load_full();
        let equivalents = named.equivalents(&resources);
        let is_asked = |hook: &ConfiguredHook| named.may_match(&hook.hook.criteria, &equivalents);
        Ok(all.iter().cloned().enumerate().filter(|(_, hook)| is_asked(hook)).collect())
    }
}

fn lookup(kind: HookKind) -> Lookup {
    match kind {
        HookKind::Mutating => Lookup::MutatingWebhookConfiguration,
        HookKind::Validating => Lookup::ValidatingWebhookConfiguration,
    }
}

impl Writer {
    /// Returns the webhooks of a kind: all that this server has stored, and all that others have stored and the cache has seen.
    ///
    /// # Errors
    /// The cache of configurations is not loaded in time.
    pub(super) async fn configured_hooks(&self, target: &ObjectRef, kind: HookKind) -> Result<All, WriteError> {
        self.await_lookup(target, lookup(kind)).await?;
        let Some(resource) = self.looked_up(lookup(kind)) else { return Ok(All::default()) };
        let known = resource.handle.published.known();
        let at = (known.snapshot.epoch, known.snapshot.applied);
        {
            let read = self.admitting.hooks.of(kind).lock();
            if read.at == Some(at) {
                return Ok(read.all.clone());
            }
        }
        if known.snapshot.store.scan(b"", b"").next().is_none() {
            *self.admitting.hooks.of(kind).lock() = Known { at: Some(at), ..Known::default() };
            return Ok(All::default());
        }
        let read = || {
            let resolver = registry::resolver(&self.resources, &self.prefix);
            let mut before = std::mem::take(&mut self.admitting.hooks.of(kind).lock().read);
            let mut now = Known { at: Some(at), ..Known::default() };
            let mut all = Vec::new();
            // By name, as the store has them.
            for object in known.snapshot.store.scan(b"", b"") {
                let name = object.name().to_owned();
                let hooks = match before.remove(&name) {
                    Some((revision, hooks)) if revision == object.revision => hooks,
                    _ => {
                        let tree = stored_tree(&resource, object).unwrap_or_default();
                        let configured = |hook: Hook| {
                            let endpoint = Endpoint { place: hook.place.clone(), bundle: hook.bundle.clone() };
                            let caller = Caller::new(endpoint, resolver.clone(), LIMITS).known_by(self.admitting.identities.of(kind));
                            Arc::new(ConfiguredHook { caller, hook })
                        };
                        Hook::all_of(&tree).into_iter().map(configured).collect()
                    }
                };
                all.extend(hooks.iter().cloned());
                now.read.insert(name, (object.revision, hooks));
            }
            now.all = Arc::new(all);
            now
        };
        let now = self.offload.run(true, read).await;
        let all = now.all.clone();
        let mut known = self.admitting.hooks.of(kind).lock();
        // Another write may have read a newer state meanwhile.
        if known.at.is_none_or(|before| before.1 <= at.1) {
            *known = now;
        }
        Ok(all)
    }
}
