//! A SelfSubjectRulesReview of many rules, written while it is sent: the rules are those of the index of roles, however often one is bound.

use std::{mem, sync::Arc};

use serde_json::Value;

use super::piece_body::Pieces;
use auth::authz::{Rules, ToldRule, rbac::PolicyRule};
use codec::{Unencodable, stored};
use go::json::value_into;
use offload::run_blocking;

/// Bytes of rules, about, that are answered whole, in any form.
pub(super) const WHOLE_BYTES: usize = 256 << 10;
/// Bytes of rules, about, that are answered in other forms than compact JSON.
pub(super) const OTHER_FORMS_BYTES_MAX: usize = 4 << 20;

/// A review that is not written yet.
pub(super) struct RulesReview {
    /// What comes before the next rule, and what comes at the end.
    before: Vec<u8>,
    between: Vec<u8>,
    after: Vec<u8>,
    of_roles: Vec<Arc<[PolicyRule]>>,
    /// Which list is written, and the next rule of which role.
    list: usize,
    role: usize,
    rule: usize,
    is_first: bool,
}

const LISTS: usize = 2;

impl RulesReview {
    /// A review whose object is this one, but for its rules.
    pub(super) fn new(mut object: Value, rules: Rules) -> Option<Self> {
        const FIRST: &[u8] = br#""resourceRules":"#;
        const BETWEEN: &[u8] = br#","nonResourceRules":"#;
        let empty = [FIRST, b"null", BETWEEN, b"null"].concat();
        let Rules { of_roles, incomplete, errors } = rules;
        object["status"] = serde_json::to_value(Rules { of_roles: Vec::new(), incomplete, errors }).ok()?;
        let text = stored::render(false, &object);
        // No text of the object has such quotes.
        let at = memchr::memmem::find(&text, &empty)?;
        let before = text[..at + FIRST.len()].to_vec();
        let after = [&text[at + empty.len()..], b"\n"].concat();
        Some(Self { before, between: BETWEEN.to_vec(), after, of_roles, list: 0, role: 0, rule: 0, is_first: true })
    }

    /// Appends what the next rule says in this list, if it says anything; `None` after the last one.
    fn next_into(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let rules = self.of_roles.get(self.role)?;
        let Some(rule) = rules.get(self.rule) else {
            (self.role, self.rule) = (self.role + 1, 0);
            return Some(());
        };
        self.rule += 1;
        let told = if self.list == 0 { ToldRule::of_resources(rule) } else { ToldRule::of_paths(rule) };
        if let Some(told) = told {
            out.push(if mem::replace(&mut self.is_first, false) { b'[' } else { b',' });
            told_into(&told, out);
        }
        Some(())
    }
}

/// Appends a rule as the whole object would have it.
fn told_into(told: &ToldRule<'_>, out: &mut Vec<u8>) {
    for (nth, (name, texts)) in told.members().enumerate() {
        out.push(if nth == 0 { b'{' } else { b',' });
        value_into(&name.into(), out);
        out.push(b':');
        value_into(&if texts.is_empty() { Value::Null } else { texts.to_vec().into() }, out);
    }
    out.push(b'}');
}

impl RulesReview {
    fn some_into(&mut self, out: &mut Vec<u8>, limit: usize) {
        /// Rules that are looked at in one step, whether they say something or not.
        const LOOKS: usize = 4_096;
        let mut looks = 0;
        while !self.is_done() && out.len() < limit && (looks < LOOKS || out.is_empty()) {
            out.append(&mut self.before);
            looks += 1;
            if self.next_into(out).is_some() {
                continue;
            }
            out.extend_from_slice(if self.is_first { b"null" } else { b"]" });
            self.list += 1;
            (self.role, self.rule, self.is_first) = (0, 0, true);
            if self.list == LISTS {
                self.of_roles = Vec::new();
                out.append(&mut self.after);
            } else {
                out.append(&mut self.between);
            }
        }
    }
}

impl Pieces for RulesReview {
    /// One frame after the other is ready: others must go on while they are made.
    fn fill(&mut self, out: &mut Vec<u8>, limit: usize) -> Result<(), Unencodable> {
        run_blocking(|| self.some_into(out, limit));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.list == LISTS
    }

    fn held(&self) -> usize {
        self.of_roles.capacity() * size_of::<Arc<[PolicyRule]>>() + self.after.capacity()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_are_the_whole() {
        let rule = |names: &[&str], paths: &[&str]| PolicyRule {
            verbs: vec!["get".into()],
            api_groups: vec![String::new()],
            resources: if names.is_empty() { Vec::new() } else { vec!["configmaps".into()] },
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
            non_resource_urls: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        let role: Arc<[PolicyRule]> = Arc::new([
            rule(&["a<b\u{8}"], &[]),
            rule(&[], &["/x"]),
            rule(&["c", "d"], &["/y"]),
            rule(&[], &[]),
            PolicyRule { resources: vec!["pods".into()], ..PolicyRule::default() },
        ]);
        let paths_only: Arc<[PolicyRule]> = Arc::new([rule(&[], &["/x"])]);
        for (of_roles, errors) in
            [(vec![role.clone(), paths_only, Arc::new([]), role], vec!["\"resourceRules\":[],".to_owned()]), (Vec::new(), Vec::new())]
        {
            let rules = Rules { of_roles, incomplete: true, errors };
            let mut object = json!({"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {}});
            let mut review = RulesReview::new(object.clone(), rules.clone()).expect("a review");
            let (mut pieces, mut count) = (Vec::new(), 0);
            while !review.is_done() {
                let mut piece = Vec::new();
                review.fill(&mut piece, 1).expect("JSON");
                assert!(!piece.is_empty());
                pieces.extend(piece);
                count += 1;
            }
            object["status"] = serde_json::to_value(&rules).expect("JSON");
            let whole = [&stored::render(false, &object)[..], b"\n"].concat();
            assert_eq!(String::from_utf8_lossy(&pieces), String::from_utf8_lossy(&whole));
            assert!(count > 1 && review.held() == review.after.capacity());
        }
    }

    /// A role that is bound a hundred times is held once.
    #[test]
    fn what_is_bound_often_is_not_copied() {
        let role: Arc<[PolicyRule]> =
            (0..8_000).map(|at| PolicyRule { resource_names: vec![format!("n{at}")], ..PolicyRule::default() }).collect();
        let rules = Rules { of_roles: vec![role; 100], ..Rules::default() };
        assert!(rules.bytes_up_to(WHOLE_BYTES) > WHOLE_BYTES);
        let object = json!({"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {}});
        let review = RulesReview::new(object, rules).expect("a review");
        assert!(review.held() < 4_096);
    }
}
