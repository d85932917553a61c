//! Random operations against a naive model: every answer, at every revision that is not compacted.

use std::collections::BTreeMap;

use proto::range_request::{SortOrder, SortTarget};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

const STEPS: usize = 1_500;
const SEEDS: u64 = 4;

/// Value, created, version.
type Value = (String, i64, i64);

/// One whole map a revision.
struct Model {
    states: Vec<BTreeMap<String, (Value, i64)>>,
    compacted: i64,
}

impl Model {
    /// Revision 1 is empty.
    fn new() -> Self {
        Self { states: vec![BTreeMap::new(); 2], compacted: -1 }
    }

    fn revision(&self) -> i64 {
        self.states.len() as i64 - 1
    }

    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<String, (Value, i64)>, i64)) {
        let mut next = self.states.last().expect("never empty").clone();
        change(&mut next, self.states.len() as i64);
        self.states.push(next);
    }

    fn put(state: &mut BTreeMap<String, (Value, i64)>, key: &str, value: &str, at: i64) {
        let (created, version) = state.get(key).map_or((at, 1), |((_, created, version), _)| (*created, version + 1));
        state.insert(key.to_owned(), ((value.to_owned(), created, version), at));
    }

    /// Keys of `[from, to)` after a revision.
    fn range(&self, at: i64, from: &str, to: &str) -> Vec<(String, Value, i64)> {
        let state = &self.states[at as usize];
        state
            .iter()
            .filter(|(key, _)| &***key >= from && &***key < to)
            .map(|(key, (value, at))| (key.clone(), value.clone(), *at))
            .collect()
    }
}

fn key(random: &mut StdRng) -> String {
    format!("k{:02}", random.random_range(0..30))
}

#[tokio::test]
async fn every_answer_is_the_models() {
    for seed in 0..SEEDS {
        let (_store, mut client) = fresh().await;
        let (mut random, mut model) = (StdRng::seed_from_u64(seed), Model::new());
        for step in 0..STEPS {
            change(&mut client, &mut model, &mut random).await;
            if step % 3 == 0 {
                compare(&mut client, &model, &mut random, &format!("seed {seed}, step {step}")).await;
            }
        }
    }
}

async fn change(client: &mut Client, model: &mut Model, random: &mut StdRng) {
    let (from, to) = (key(random), key(random));
    match random.random_range(0..20) {
        0..10 => {
            let value = random.random::<u32>().to_string();
            let answer = client.put(PutRequest { prev_kv: true, ..putting(from.clone(), value.clone()) }).await.expect("put");
            let before = model.states.last().expect("never empty").get(&from).map(|((value, ..), _)| value.clone());
            assert_eq!(answer.prev_kv.map(|kv| text(&kv.value).to_owned()), before);
            model.change(|state, at| Model::put(state, &from, &value, at));
            assert_eq!(answer.header.expect("a header").revision, model.revision());
        }
        10..14 => {
            let gone = model.range(model.revision(), &from, &to);
            let answer = client.delete_range(delete(from.clone()).until(to.clone())).await.expect("done");
            assert_eq!(answer.deleted, gone.len() as i64);
            if !gone.is_empty() {
                model.change(|state, _| gone.iter().for_each(|(key, ..)| drop(state.remove(key))));
            }
        }
        14..18 => {
            // A put of one key and a deletion of another, if a version is what it is guessed to be.
            let guess = random.random_range(0..3);
            let written = model.states.last().expect("never empty").get(&from).map_or(0, |((_, _, version), _)| *version);
            let when = [version(&from, guess)];
            let mut then: Vec<RequestOp> = vec![putting(from.clone(), "txn").into()];
            if from != to {
                then.push(delete(to.clone()).into());
            }
            let answer = client.txn(txn(when, then)).await.expect("done");
            assert_eq!(answer.succeeded, written == guess);
            if answer.succeeded {
                model.change(|state, at| {
                    Model::put(state, &from, "txn", at);
                    if from != to {
                        state.remove(&to);
                    }
                });
            }
            assert_eq!(answer.header.expect("a header").revision, model.revision());
        }
        _ => {
            let at = random.random_range(model.revision() - 20..model.revision() + 2);
            let outcome = client.compact(at, false).await;
            if at <= model.compacted {
                assert_eq!(refusal(outcome).1, "etcdserver: mvcc: required revision has been compacted");
            } else if at > model.revision() {
                assert_eq!(refusal(outcome).1, "etcdserver: mvcc: required revision is a future revision");
            } else {
                outcome.expect("done");
                model.compacted = at;
            }
        }
    }
}

async fn compare(client: &mut Client, model: &Model, random: &mut StdRng, place: &str) {
    let newest = model.revision();
    let at = if random.random() { newest } else { random.random_range((newest - 40).max(1)..=newest) };
    let (from, to, limit) = (key(random), key(random), random.random_range(0..8));
    let (descending, keys_only) = (random.random::<bool>(), random.random::<bool>());
    let mut range = RangeRequest { limit, revision: at, keys_only, ..get(from.clone()).until(to.clone()) };
    if descending {
        range.set_sort_target(SortTarget::Mod);
        range.set_sort_order(SortOrder::Descend);
    }
    let outcome = client.range(range).await;
    if at < model.compacted {
        assert_eq!(refusal(outcome).1, "etcdserver: mvcc: required revision has been compacted", "{place}");
        return;
    }
    let answer = outcome.expect(place);
    let mut want = model.range(at, &from, &to);
    assert_eq!(answer.count, want.len() as i64, "{place}");
    assert_eq!(answer.header.expect("a header").revision, newest, "{place}");
    if descending {
        want.sort_by_key(|(_, _, at)| std::cmp::Reverse(*at));
    }
    let limit = if limit == 0 { usize::MAX } else { limit as usize };
    assert_eq!(answer.more, want.len() > limit, "{place}");
    want.truncate(limit);
    let found = answer.kvs.iter().map(|kv| {
        let value = (text(&kv.value).to_owned(), kv.create_revision, kv.version);
        (text(&kv.key).to_owned(), value, kv.mod_revision)
    });
    let want = want
        .into_iter()
        .map(|(key, (value, created, version), at)| (key, (if keys_only { String::new() } else { value }, created, version), at));
    assert_eq!(found.collect::<Vec<_>>(), want.collect::<Vec<_>>(), "{place}: [{from}, {to}) at {at} of {newest}");
}
