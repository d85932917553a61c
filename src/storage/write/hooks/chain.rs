//! The order in which webhooks are asked about an object, and what their answers do to it.

use std::collections::HashSet;

use futures_util::future::join_all;
use serde_json::Value;

use super::{
    ask::{Asking, Reply},
    named::Named,
    session::{Done, HookSession, Hooks, Step, Wanted},
};
use crate::write::{failure::WriteError, object_ref::ObjectRef, plugins::PluginSession};
use admission::{Operation, hooks::HookKind, plugins::Notes};

/// The webhooks that may have to be asked again, or the policies that may have to be evaluated again.
#[derive(Default)]
pub(super) struct Reinvocation {
    /// They were asked, and want to be asked again when the object changes.
    asked: HashSet<String>,
    /// They are asked again.
    again: HashSet<String>,
    /// Some webhook has changed the object.
    is_needed: bool,
    /// A patched object was decoded before. The first time the times of its managers lose what is less than a second, which counts as a change in
    /// kube-apiserver; a custom resource has lost it already.
    is_decoded: bool,
}

impl Reinvocation {
    /// The object has changed.
    pub(super) fn require(&mut self) {
        self.again.extend(self.asked.drain());
    }

    /// The chain has to run once more.
    pub(super) const fn need(&mut self) {
        self.is_needed = true;
    }

    /// Notes one that was asked, and wants to be asked again.
    pub(super) fn note(&mut self, key: String) {
        self.asked.insert(key);
    }

    /// Returns whether one is asked again.
    pub(super) fn is_again(&self, key: &str) -> bool {
        self.again.contains(key)
    }
}

impl HookSession<'_> {
    /// Asks what a write wants to know. `plugins` are asked with the mutating ones.
    pub(in crate::write) async fn ask(&self, plugins: &PluginSession<'_>, target: &ObjectRef, wanted: Wanted) -> Done {
        let mut notes = Notes::default();
        let outcome = match wanted.step {
            Step::Mutation => self.mutated(plugins, target, &wanted, &mut notes).await,
            Step::Validation => self.validated(plugins, target, &wanted, &mut notes).await.map(|()| Value::Null),
            Step::Deletion => self.deleted(plugins, target, &wanted, &mut notes).await.map(|()| Value::Null),
        };
        Done { of: wanted, outcome, notes }
    }

    /// Changes an object. The whole chain runs once more if a webhook has changed something: plugins always, webhooks if they want that and something was
    /// changed after them.
    async fn mutated(
        &self,
        plugins: &PluginSession<'_>,
        target: &ObjectRef,
        wanted: &Wanted,
        notes: &mut Notes,
    ) -> Result<Value, WriteError> {
        let old = wanted.old.as_ref();
        let mut object = wanted.object.clone();
        let is_decoded = Named { target, form: self.form, subresource: self.subresource }.is_custom();
        let mut again = Reinvocation { is_decoded, ..Reinvocation::default() };
        let (mut policies, mut after_policies) = (Reinvocation::default(), None);
        for round in 0..2 {
            let before = object.clone();
            plugins.change_whole(target, old, &mut object).await?;
            if !self.mutating_policies.is_empty() {
                if after_policies.is_some_and(|after| after != object) {
                    policies.require();
                }
                let operation = if old.is_some() { Operation::Update } else { Operation::Create };
                let asking = Asking { session: self, plugins, target, operation, object: Some(&object), old, deletion: None };
                object = asking.mutated(round, &mut policies).await?;
                after_policies = Some(object.clone());
            }
            if round == 1 && before != object {
                again.require();
            }
            self.run_mutating(plugins, (target, old), round, &mut object, &mut again, notes).await?;
            if !again.is_needed && !policies.is_needed {
                break;
            }
        }
        Ok(object)
    }

    async fn run_mutating(
        &self,
        plugins: &PluginSession<'_>,
        (target, old): (&ObjectRef, Option<&Value>),
        round: usize,
        object: &mut Value,
        again: &mut Reinvocation,
        notes: &mut Notes,
    ) -> Result<(), WriteError> {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        for (index, hook) in &self.mutating {
            let asking = Asking { session: self, plugins, target, operation, object: Some(object), old, deletion: None };
            let Some(question) = asking.question(hook).await? else { continue };
            if round == 1 && !again.again.contains(&hook.hook.id) {
                continue;
            }
            let reply = asking.ask(HookKind::Mutating, (round, *index), hook, &question, notes).await;
            let changed = match &reply {
                Ok(Reply::Changed { differs, .. }) => !std::mem::replace(&mut again.is_decoded, true) || *differs,
                _ => false,
            };
            notes.annotate_mutation(&hook.hook, (round, *index), changed);
            if changed {
                again.require();
                again.is_needed = true;
            }
            if hook.hook.is_reinvoked {
                again.asked.insert(hook.hook.id.clone());
            }
            match reply? {
                Reply::Changed { object: new, .. } => *object = *new,
                Reply::Unchanged | Reply::FailedOpen => {}
            }
        }
        Ok(())
    }

    /// Judges an object. All are asked at once; of several refusals that of the first webhook counts.
    async fn validated(
        &self,
        plugins: &PluginSession<'_>,
        target: &ObjectRef,
        wanted: &Wanted,
        notes: &mut Notes,
    ) -> Result<(), WriteError> {
        let old = wanted.old.as_ref();
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let object = Some(&wanted.object);
        let asking = Asking { session: self, plugins, target, operation, object, old, deletion: None };
        asking.policies(notes).await?;
        asking.all(&self.validating, notes).await
    }

    /// Judges a deletion: webhooks that change objects may refuse it, too.
    async fn deleted(&self, plugins: &PluginSession<'_>, target: &ObjectRef, wanted: &Wanted, notes: &mut Notes) -> Result<(), WriteError> {
        let old = wanted.old.as_ref();
        let asking =
            Asking { session: self, plugins, target, operation: Operation::Delete, object: None, old, deletion: Some(&wanted.object) };
        for (index, hook) in &self.mutating {
            let Some(question) = asking.question(hook).await? else { continue };
            let reply = asking.ask(HookKind::Mutating, (0, *index), hook, &question, notes).await;
            notes.annotate_mutation(&hook.hook, (0, *index), false);
            reply?;
        }
        asking.policies(notes).await?;
        asking.all(&self.validating, notes).await
    }
}

impl Asking<'_> {
    /// Asks validating webhooks, all at once.
    async fn all(&self, hooks: &Hooks, notes: &mut Notes) -> Result<(), WriteError> {
        let mut questions = Vec::new();
        for (_, hook) in hooks {
            if let Some(question) = self.question(hook).await? {
                questions.push((hook, question));
            }
        }
        let replies = questions.iter().enumerate().map(async |(index, (hook, question))| {
            let mut notes = Notes::default();
            (self.ask(HookKind::Validating, (0, index), hook, question, &mut notes).await, notes)
        });
        let mut refused = None;
        for (reply, own) in join_all(replies).await {
            notes.warnings.extend(own.warnings);
            notes.annotations.extend(own.annotations);
            refused = refused.or(reply.err());
        }
        refused.map_or(Ok(()), Err)
    }
}
