//! What expressions ask of the authorizer: they are evaluated without waiting, and again when it has answered.

use std::sync::Arc;

use parking_lot::Mutex;

use admission::hooks::{Authorizer, Decision, RightsQuestion};

/// Answers of the authorizer, and questions that wait for one.
#[derive(Debug, Default)]
struct Answers {
    known: Vec<(RightsQuestion, Decision)>,
    wanted: Vec<RightsQuestion>,
}

/// See the file's header.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder(Arc<Recorded>);

#[derive(Debug, Default)]
struct Recorded(Mutex<Answers>);

impl Authorizer for Recorded {
    fn decide(&self, question: &RightsQuestion) -> Decision {
        let answers = &mut *self.0.lock();
        if let Some((_, decision)) = answers.known.iter().find(|(known, _)| known == question) {
            return decision.clone();
        }
        if !answers.wanted.contains(question) {
            answers.wanted.push(question.clone());
        }
        Decision::default()
    }
}

impl Recorder {
    pub(super) fn authorizer(&self) -> Arc<dyn Authorizer> {
        self.0.clone()
    }

    pub(super) fn take_wanted(&self) -> Vec<RightsQuestion> {
        std::mem::take(&mut self.0.0.lock().wanted)
    }

    pub(super) fn note(&self, question: RightsQuestion, decision: Decision) {
        self.0.0.lock().known.push((question, decision));
    }
}

#[cfg(test)]
mod tests {
    use admission::hooks::RightsTarget;

    use super::*;

    #[test]
    fn what_is_not_known_is_wanted_once() {
        let recorder = Recorder::default();
        let question = RightsQuestion { account: None, verb: "get".to_owned(), target: RightsTarget::Path("/x".to_owned()) };
        let allowed = Decision { allowed: true, ..Decision::default() };
        for _ in 0..2 {
            assert_eq!(recorder.authorizer().decide(&question), Decision::default());
        }
        assert_eq!(recorder.take_wanted(), std::slice::from_ref(&question));
        recorder.note(question.clone(), allowed.clone());
        assert_eq!((recorder.authorizer().decide(&question), recorder.take_wanted()), (allowed, Vec::new()));
    }
}
