//! Planted violations: each is caught under its own name, and the clean history under none.

use super::*;
use crate::{
    history::Kind,
    object::{Draft, Filter, Resource, Select},
    truth::{Change, Ledger},
};

fn draft(name: &str, seq: u64) -> Draft {
    Draft { namespace: "faults-0".into(), name: name.into(), tier: 0, seq, payload_bytes: 8 }
}

fn everything() -> Filter {
    Filter { namespace: None, select: Select::All }
}

/// Revisions 2 (x), 3 (x, y and z in one transaction), 5 (x), 6 (y deleted), 8 (x).
fn truth() -> Expected {
    let ledger = Ledger::of(Resource::ConfigMaps);
    ledger.record(2, vec![Change::put(&draft("x", 1))]);
    ledger.record(3, vec![Change::put(&draft("x", 2)), Change::put(&draft("y", 3)), Change::put(&draft("z", 4))]);
    ledger.record(5, vec![Change::put(&draft("x", 5))]);
    ledger.record(6, vec![Change::delete("faults-0", "y")]);
    ledger.record(8, vec![Change::put(&draft("x", 6))]);
    ledger.eras()[0].expected(&everything())
}

fn listed(expected: &Expected, revision: u64, wanted: Wanted) -> Record {
    let items = expected.state_at(revision).into_iter().map(|(key, (revision, digest))| Item { key, revision, digest }).collect();
    Record::Listed { revision, wanted, items }
}

/// A list at 2 and everything after it, with a bookmark and a resume in the middle.
fn clean(expected: &Expected) -> Vec<Record> {
    let events: Vec<Record> = expected.groups[1..].iter().flat_map(|(_, e)| e.iter().copied().map(Record::Event)).collect();
    let mut records = vec![listed(expected, 2, Wanted::Newest { era: 0, head: 2 }), Record::Opened { from: 2 }];
    records.extend_from_slice(&events[..4]);
    records.extend([Record::Bookmark(5), Record::Ended { clean: true }, Record::Opened { from: 5 }]);
    records.extend_from_slice(&events[4..]);
    records
}

fn verdict(records: Vec<Record>, expiry: Expiry) -> Vec<Guarantee> {
    let expected = truth();
    let history = History { client: 1, filter: everything(), records, state: expected.state_at(u64::MAX) };
    let mut names: Vec<_> = check(&history, &[expected], expiry).into_iter().map(|v| v.guarantee).collect();
    names.dedup();
    names
}

fn planted(plant: impl FnOnce(&mut Vec<Record>)) -> Vec<Guarantee> {
    let mut records = clean(&truth());
    plant(&mut records);
    verdict(records, Expiry::Never)
}

fn event_at(records: &[Record], revision: u64) -> usize {
    records.iter().position(|r| matches!(r, Record::Event(e) if e.revision == revision)).expect("the clean history has it")
}

#[test]
fn a_clean_history_breaks_nothing() {
    assert_eq!(planted(|_| ()), []);
}

#[test]
fn a_lost_event_in_the_middle() {
    assert_eq!(planted(|r| drop(r.remove(event_at(r, 6)))), [Guarantee::Reliable]);
}

#[test]
fn a_lost_last_event() {
    assert_eq!(planted(|r| drop(r.pop())), [Guarantee::Reliable]);
}

#[test]
fn an_event_that_comes_twice() {
    let again = planted(|r| {
        let copy = r[event_at(r, 8)].clone();
        r.push(copy);
    });
    assert_eq!(again, [Guarantee::Unique]);
}

#[test]
fn an_event_repeated_after_a_resume() {
    let again = planted(|r| {
        r.retain(|record| !matches!(record, Record::Bookmark(_)));
        let copy = r[event_at(r, 5)].clone();
        let resumed = r.iter().position(|x| matches!(x, Record::Opened { from: 5 })).expect("it resumes");
        r.insert(resumed + 1, copy);
    });
    assert_eq!(again, [Guarantee::Unique]);
}

#[test]
fn a_revision_that_goes_back() {
    let back = planted(|r| {
        let copy = r[event_at(r, 3)].clone();
        r.push(copy);
    });
    assert!(back.contains(&Guarantee::Ordered), "{back:?}");
}

#[test]
fn a_torn_transaction() {
    assert_eq!(planted(|r| drop(r.remove(event_at(r, 3)))), [Guarantee::Atomic]);
}

#[test]
fn a_transaction_that_ends_with_its_stream() {
    let torn = planted(|r| {
        let at = event_at(r, 3) + 1;
        r.splice(at..at, [Record::Ended { clean: true }, Record::Opened { from: 3 }]);
    });
    assert_eq!(torn[0], Guarantee::Atomic);
}

#[test]
fn a_bookmark_too_early() {
    assert_eq!(planted(|r| r.insert(event_at(r, 6), Record::Bookmark(7))), [Guarantee::Bookmarkable]);
}

#[test]
fn a_bookmark_inside_a_revision() {
    let inside = planted(|r| r.insert(event_at(r, 3) + 1, Record::Bookmark(3)));
    assert_eq!(inside, [Guarantee::Bookmarkable]);
}

#[test]
fn an_invented_event() {
    let invented = Event { kind: Kind::Added, key: 1, revision: 7, digest: 0 };
    assert_eq!(planted(|r| r.insert(event_at(r, 8), Record::Event(invented))), [Guarantee::Reliable]);
}

#[test]
fn a_wrong_body_and_a_wrong_type() {
    let wrong = |change: fn(&mut Event)| {
        planted(|r| {
            let at = event_at(r, 5);
            if let Record::Event(event) = &mut r[at] {
                change(event);
            }
        })
    };
    assert_eq!(wrong(|e| e.digest ^= 1), [Guarantee::Reliable]);
    assert_eq!(wrong(|e| e.kind = Kind::Added), [Guarantee::Reliable]);
}

#[test]
fn a_list_of_two_revisions() {
    let mixed = planted(|r| {
        if let (Record::Listed { items, .. }, later) = (&mut r[0], truth().state_at(5)) {
            let (revision, digest) = later[&items[0].key];
            items[0] = Item { revision, digest, ..items[0] };
        }
    });
    assert_eq!(mixed, [Guarantee::Together]);
}

#[test]
fn a_list_older_than_an_acknowledged_write() {
    let stale = planted(|r| r[0] = listed(&truth(), 2, Wanted::Newest { era: 0, head: 3 }));
    assert_eq!(stale, [Guarantee::Fresh]);
    let stale = planted(|r| r[0] = listed(&truth(), 2, Wanted::AtLeast(5)));
    assert_eq!(stale, [Guarantee::Fresh]);
}

#[test]
fn a_410_is_allowed_by_rule_and_below_the_floor_only() {
    let with = |floor: u64, expiry: Expiry| {
        let expected = truth();
        let mut records = clean(&expected);
        records.extend([Record::Expired { requested: 8, floor: Some(floor) }, listed(&expected, 8, Wanted::AtLeast(8))]);
        verdict(records, expiry)
    };
    assert_eq!(with(9, Expiry::BelowFloor), []);
    assert_eq!(with(9, Expiry::Never), [Guarantee::Resumable]);
    assert_eq!(with(8, Expiry::Anyhow), []);
    assert_eq!(with(8, Expiry::BelowFloor), [Guarantee::Resumable]);
}

#[test]
fn a_client_that_ends_with_another_state() {
    let expected = truth();
    let mut state = expected.state_at(u64::MAX);
    state.insert(7, (1, 1));
    let history = History { client: 1, filter: everything(), records: clean(&expected), state };
    let found = check(&history, &[expected], Expiry::Never);
    assert_eq!(found.iter().map(|v| v.guarantee).collect::<Vec<_>>(), [Guarantee::Complete]);
}

/// Revisions 2 and 3 stand in the backup; 5 and later happened twice, differently.
fn two_eras() -> [Expected; 2] {
    let ledger = Ledger::of(Resource::ConfigMaps);
    ledger.record(2, vec![Change::put(&draft("x", 1))]);
    ledger.record(5, vec![Change::put(&draft("x", 2))]);
    ledger.record(9, vec![Change::put(&draft("x", 3))]);
    ledger.restored(3);
    ledger.record(5, vec![Change::put(&draft("y", 4))]);
    let eras = ledger.eras();
    [eras[0].expected(&everything()), eras[1].expected(&everything())]
}

#[test]
fn a_session_lives_in_one_era() {
    let eras = two_eras();
    let judge = |records: Vec<Record>| {
        let history = History { client: 1, filter: everything(), records, state: eras[1].state_at(u64::MAX) };
        let found = check(&history, &eras, Expiry::Anyhow);
        found.into_iter().map(|v| v.guarantee).collect::<Vec<_>>()
    };
    let before = [listed(&eras[0], 2, Wanted::Any), Record::Event(eras[0].groups[1].1[0]), Record::Event(eras[0].groups[2].1[0])];
    let mut relisted = before.to_vec();
    relisted.extend([Record::Ended { clean: true }, Record::Expired { requested: 9, floor: None }, listed(&eras[1], 5, Wanted::Any)]);
    assert_eq!(judge(relisted), []);

    let mut unaware = before[..2].to_vec();
    unaware.push(Record::Event(eras[1].groups[1].1[0]));
    assert!(!judge(unaware).is_empty(), "events of two eras in one session");

    let mut silent = before.to_vec();
    silent.push(Record::Bookmark(9));
    assert_eq!(judge(silent), [Guarantee::Complete], "a client that still believes in the undone era");
}
