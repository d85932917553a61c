//! What a webhook has allowed last, for when it does not answer. Each user has a share: who asks for many things pushes out nobody else's.

use std::collections::HashMap;

use recent::Recent;
use tokio::time::Instant;

use crate::authz::webhook::Digested;
use crate::authz::{Decision, Reason, Verdict};

/// About the bytes of one verdict with its key, without its texts.
const VERDICT_BYTES: usize = 512;
/// About the bytes of all of them, and the part of them that is one user's at most.
const BYTES_MAX: usize = 16 << 20;
const USERS_PART: usize = 16;

/// See the file's header.
pub(super) struct LastVerdicts {
    users: HashMap<String, Recent<Digested, Verdict, Instant>>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for LastVerdicts {
    fn default() -> Self {
        Self { users: HashMap::new(), bytes: 0, bytes_max: BYTES_MAX }
    }
}

impl LastVerdicts {
    /// What was said last to this user.
    pub(super) fn get(&mut self, user: &str, question: &Digested, now: Instant) -> Option<Verdict> {
        let own = self.users.get_mut(user)?;
        let before = own.bytes();
        let verdict = own.get(question, now).cloned();
        let after = own.bytes();
        if own.is_empty() {
            self.users.remove(user);
        }
        self.bytes -= before - after;
        verdict
    }

    /// Keeps what was said. What is not allowed is kept only where something was.
    pub(super) fn put(&mut self, user: &str, question: Digested, verdict: &Verdict, now: Instant, until: Instant) {
        let is_allowed = verdict.decision == Decision::Allow;
        if until <= now || !is_allowed && self.get(user, &question, now).is_none() {
            return;
        }
        let texts = user.len() + verdict.reason.to_string().len();
        // Why something is refused is not worth its bytes: it takes the place of a yes, which must go.
        let kept = if is_allowed { verdict.clone() } else { Verdict { decision: verdict.decision, reason: Reason::NONE, error: None } };
        let bytes = VERDICT_BYTES + if is_allowed { texts } else { 0 };
        let share = self.bytes_max / USERS_PART;
        let own = self.users.entry(user.to_owned()).or_insert_with(|| Recent::new(usize::MAX, share));
        let before = own.bytes();
        own.put(question, kept, bytes, now, Some(until));
        self.bytes = self.bytes - before + own.bytes();
        if own.is_empty() {
            self.users.remove(user);
        }
        while self.bytes > self.bytes_max {
            self.make_room(now);
        }
    }

    /// Lets go of what is over, and of something of who has most.
    fn make_room(&mut self, now: Instant) {
        self.users.retain(|_, own| {
            own.forget(now);
            !own.is_empty()
        });
        if let Some(largest) = self.users.values_mut().max_by_key(|own| own.bytes()) {
            // Half of it, so that this is rare.
            for _ in 0..largest.len().div_ceil(2) {
                largest.pop();
            }
        }
        self.users.retain(|_, own| !own.is_empty());
        self.bytes = self.users.values().map(Recent::bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::User;
    use crate::authz::webhook::{Settings, Version, Webhook};
    use crate::authz::{Attributes, Target};

    fn question(path: &str) -> Digested {
        let (allowed_ttl, refused_ttl) = (None, None);
        let webhook = Webhook::new(Settings {
            name: "w".to_owned(),
            version: Version::V1,
            allowed_ttl,
            refused_ttl,
            denies_on_error: false,
            is_host: false,
        });
        webhook.question(&Attributes { user: &User::default(), verb: "get", target: Target::Path(path) }).digest()
    }

    #[test]
    fn who_asks_for_many_things_pushes_out_nobody_elses() {
        let now = Instant::now();
        let until = now + Duration::from_secs(60);
        let mut last = LastVerdicts { bytes_max: 64 * VERDICT_BYTES * 2, ..LastVerdicts::default() };
        last.put("jane", question("/a"), &Verdict::ALLOW, now, until);
        for user in ["many", "more", "most"] {
            (0..1_000).for_each(|nth| last.put(user, question(&format!("/{nth}")), &Verdict::ALLOW, now, until));
        }
        assert!(last.get("jane", &question("/a"), now).is_some() && last.get("most", &question("/999"), now).is_some());
        (0..1_000).for_each(|nth| last.put(&nth.to_string(), question("/"), &Verdict::ALLOW, now, until));
        assert!(last.bytes <= last.bytes_max && last.bytes == last.users.values().map(Recent::bytes).sum::<usize>());
        assert_eq!(
            (last.get("jane", &question("/a"), until).is_none(), last.get("most", &question("/999"), until).is_none()),
            (true, true)
        );
    }

    #[test]
    fn a_refusal_is_kept_only_over_a_yes() {
        let now = Instant::now();
        let until = now + Duration::from_secs(60);
        let (mut last, refused) = (LastVerdicts::default(), Verdict::no_opinion("x".repeat(2 << 20)));
        last.put("jane", question("/a"), &refused, now, until);
        assert!(last.users.is_empty());
        last.put("jane", question("/a"), &Verdict::ALLOW, now, until);
        last.put("jane", question("/a"), &refused, now, until);
        assert_eq!(last.get("jane", &question("/a"), now).map(|verdict| verdict.decision), Some(Decision::NoOpinion));
        last.put("jane", question("/a"), &Verdict::ALLOW, now, now);
        assert!(last.get("jane", &question("/a"), until).is_none() && last.users.is_empty() && last.bytes == 0);
    }
}
