//! What is counted shows up, under the right name and labels.

use super::*;

/// Of a resource that is loaded and empty.
const NOTHING: ResourceFigures = ResourceFigures {
    revision: 1,
    objects: 0,
    object_bytes: 0,
    indexes: 0,
    history_events: 0,
    history_bytes: 0,
    oldest_revision: 1,
    undecodable: 0,
};

fn text(metrics: &Metrics) -> String {
    String::from_utf8(metrics.render()).expect("UTF-8")
}

#[test]
fn a_request_is_counted_whichever_way_it_ends() {
    let metrics = Metrics::new();
    let served = metrics.served("apps", "v1", "deployments");
    let mut timer = served.request(Verb::List, Scope::Namespace);
    assert!(text(&metrics).contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1"));
    timer.set_code(200);
    timer.add_bytes(1500);
    drop(timer);
    drop(served.request(Verb::List, Scope::Namespace));
    served.request(Verb::Watch, Scope::Cluster).terminated(504);
    let text = text(&metrics);
    for line in [
        "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0",
        "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"apps\",resource=\"deployments\",scope=\"namespace\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 1",
        "apiserver_request_total{code=\"0\",component=\"apiserver\",dry_run=\"\",group=\"apps\",resource=\"deployments\",scope=\"namespace\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 1",
        "apiserver_response_sizes_sum{component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"namespace\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 1500",
        "apiserver_longrunning_requests{component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 0",
        "apiserver_request_terminations_total{code=\"504\",component=\"apiserver\",group=\"apps\",resource=\"deployments\",scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn resources_count_under_kube_apiservers_names() {
    let metrics = Metrics::new();
    let pods = metrics.resource("", "pods");
    pods.cache_events_received.inc();
    pods.show(Some(&ResourceFigures {
        revision: 3_000_000_000_000_007,
        objects: 5,
        object_bytes: 700,
        history_bytes: 90,
        oldest_revision: 1_000_000_000_000_003,
        ..NOTHING
    }));
    pods.consistent_read(true, false);
    pods.etcd_get().succeeded();
    drop(pods.etcd_create());
    metrics.unknown_keys.inc();
    metrics.served("", "v1", "pods").watch_list_duration(Scope::Resource).observe(0.3);
    let text = text(&metrics);
    for line in [
        "apiserver_watch_cache_events_received_total{group=\"\",resource=\"pods\"} 1",
        "apiserver_watch_cache_resource_version{group=\"\",resource=\"pods\"} 7",
        "apiserver_storage_objects{resource=\"pods\"} 5",
        "watchcache_resource_bytes{group=\"\",resource=\"pods\"} 700",
        "watchcache_history_bytes{group=\"\",resource=\"pods\"} 90",
        "watchcache_history_oldest_revision{group=\"\",resource=\"pods\"} 3",
        "apiserver_watch_cache_consistent_read_total{fallback=\"false\",group=\"\",resource=\"pods\",success=\"true\"} 1",
        "etcd_requests_total{group=\"\",operation=\"get\",resource=\"pods\"} 1",
        "etcd_request_errors_total{group=\"\",operation=\"get\",resource=\"pods\"} 0",
        "etcd_request_errors_total{group=\"\",operation=\"create\",resource=\"pods\"} 1",
        "etcd_requests_total{group=\"\",operation=\"create\",resource=\"pods\"} 1",
        "etcd_request_duration_seconds_count{group=\"\",operation=\"create\",resource=\"pods\"} 1",
        "watchcache_unknown_keys_total 1",
        "watchcache_undecodable_objects{group=\"\",resource=\"pods\"} 0",
        "apiserver_watch_list_duration_seconds_bucket{group=\"\",resource=\"pods\",scope=\"resource\",version=\"v1\",le=\"0.4\"} 1",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    #[cfg(target_os = "linux")]
    assert!(!text.contains("process_resident_memory_bytes 0\n") && text.contains("process_cpu_seconds_total"));
}

/// Definitions with ever new names left 26 series each.
#[test]
fn what_is_gone_is_forgotten_in_every_family() {
    let metrics = Metrics::new();
    let count = |of: [(&str, &str, &str); 3]| {
        for (group, version, resource) in of {
            let figures = metrics.resource(group, resource);
            figures.show(Some(&ResourceFigures { objects: 1, ..NOTHING }));
            figures.consistent_read(true, false);
            figures.etcd_get().succeeded();
            let served = metrics.served(group, version, resource);
            served.watch_list_duration(Scope::Cluster).observe(0.3);
            served.request(Verb::Watch, Scope::Cluster).terminated(504);
            served.request(Verb::List, Scope::Cluster).set_code(200);
        }
    };
    count([("", "v1", "pods"), ("ex.io", "v2", "gizmos"), ("ex.io", "v2", "gizmos")]);
    let before = text(&metrics);
    count([("ex.io", "v1", "gizmos"), ("ex.io", "v1", "widgets"), ("", "v1", "pods")]);
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains("ex.io"));
        lines.map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    };
    let (few, many) = (lines(&before), lines(&text(&metrics)));
    assert!(few.len() > 50 && many.len() > 2 * few.len(), "{} and {}", few.len(), many.len());
    metrics.forget(|group, version, resource| match version {
        Some(version) => matches!((group, version, resource), ("ex.io", "v2", "gizmos") | ("", "v1", "pods")),
        None => matches!((group, resource), ("ex.io", "gizmos") | ("", "pods")),
    });
    let after = text(&metrics);
    assert_eq!(lines(&after), few);
    assert!(after.contains("apiserver_storage_objects{resource=\"pods\"} 1") && after.contains("request_kind=\"readOnly\""));
}

/// Whoever computes with them would take "not sampled yet" for 0: the size of the store less what is free of it was 0 for five seconds.
#[test]
fn what_is_not_known_is_absent() {
    let metrics = Metrics::new();
    let pods = metrics.resource("", "pods");
    let sampled = [
        "watchcache_store_failed",
        "watchcache_store_stalled",
        "watchcache_store_size_bytes",
        "watchcache_store_free_bytes",
        "watchcache_store_quota_bytes",
        "watchcache_etcd_proven",
        "watchcache_feed_age_seconds",
        "watchcache_resource_age_seconds",
        "watchcache_history_events",
        "watchcache_history_bytes",
        "watchcache_history_oldest_revision",
        "watchcache_resource_bytes",
        "watchcache_undecodable_objects",
        "watchcache_selector_indexes",
        "apiserver_watch_cache_resource_version",
        "apiserver_resource_objects",
        "apiserver_storage_objects",
    ];
    let shown = || {
        let text = text(&metrics);
        sampled.into_iter().filter(|name| text.lines().any(|line| line.starts_with(name))).collect::<Vec<_>>()
    };
    assert_eq!(shown(), [""; 0]);
    pods.show(Some(&NOTHING));
    pods.show_age(Some(Duration::ZERO));
    for gauge in [&metrics.store_failed, &metrics.store_stalled, &metrics.etcd_proven] {
        gauge.set_is(false);
    }
    for gauge in [&metrics.store_size, &metrics.store_free, &metrics.store_quota] {
        gauge.set_bytes(0);
    }
    metrics.feed_age.set(0.0);
    assert_eq!(shown(), sampled, "0 is a value");
    assert_eq!(metrics.store_size.get(), Some(0.0));
    // A resource that is loaded anew, and a source that is lost.
    pods.show(None);
    pods.show_age(None);
    metrics.feed_age.clear();
    assert_eq!(shown(), sampled[..6]);
    assert_eq!(metrics.feed_age.get(), None);
}
