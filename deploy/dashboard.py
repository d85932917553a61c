#!/usr/bin/env python3
"""dashboard.py [--check]: make the dashboard of Grafana, deploy/helm/watchcache/monitoring/dashboard.json, of the list of panels below.

With --check nothing is written; the status is 1 when the file says something else. tests/monitoring/run.py evaluates each expression on what running servers answer.
"""

import json
import pathlib
import sys

FILE = pathlib.Path(__file__).parent / "helm/watchcache/monitoring/dashboard.json"
WIDTH = 24

# What each selector begins with.
HERE = 'job=~"$job", instance=~"$instance"'
# And of metrics with a resource.
OF = HERE + ', resource=~"$resource"'


def rate(metric, labels=HERE):
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


def per(by, metric, labels=HERE):
    return f"sum by ({by}) ({rate(metric, labels)})"


def quantile(share, by, metric, labels=HERE):
    return f"histogram_quantile({share}, sum by (le, {by}) ({rate(metric + '_bucket', labels)}))"


def most(expression):
    return f"topk(10, {expression})"


# Names that kube-apiserver has too are only asked for of the targets of the variables, which are watchcaches: so "all" of them is a list, and not `.*`.
# (title, what it tells, unit, [(legend, expression)], width; "stat" for a number)
ROWS = [
    ("Overview", [
        ("Ready", "Whether /readyz passes, at the worst of them.", "bool", [("", f"min(watchcache_ready{{{HERE}}})")], 4, "stat"),
        ("Behind", "How old memory may be, at the oldest. 1 or 2 s is healthy, up to 6 s with an upstream as the source.", "s", [("", f"max(watchcache_feed_age_seconds{{{HERE}}})")], 4, "stat"),
        ("Open watches", "Of all resources.", "short", [("", f'sum(apiserver_longrunning_requests{{verb="WATCH", {HERE}}})')], 4, "stat"),
        ("Objects", "In memory, at the server that has most.", "short", [("", f"max(sum by (instance) (apiserver_resource_objects{{{HERE}}}))")], 4, "stat"),
        ("Memory", "Resident, at the largest.", "bytes", [("", f"max(process_resident_memory_bytes{{{HERE}}})")], 4, "stat"),
        ("First certificate ends in", "Of those that are shown to clients, etcd or upstream.", "s", [("", f"min(watchcache_certificate_expiration_timestamp_seconds{{{HERE}}} - time())")], 4, "stat"),
        ("Requests by code", "Those that are answered here; a watch counts at its end.", "reqps", [("{{code}}", per("code", "apiserver_request_total"))], 12),
        ("Servers", "By version and commit.", "short", [("{{version}} {{commit}}", f"count by (version, commit) (watchcache_build_info{{{HERE}}})")], 12),
    ]),
    ("Feed: from etcd or upstream to memory", [
        ("Age of memory", "By server. From 5 s on it is behind etcd. With an upstream as the source: how long that has said nothing.", "s", [("{{instance}}", f"watchcache_feed_age_seconds{{{HERE}}}")], 8),
        ("Follows", "0 while it is behind.", "bool", [("{{instance}}", f"watchcache_feed_up{{{HERE}}}")], 8),
        ("Oldest resources", "Each of them may have a source of its own. An upstream proves a quiet resource once a minute.", "s", [("{{instance}} {{resource}}", most(f"watchcache_resource_age_seconds{{{OF}}}"))], 8),
        ("Events received", "By resource, the ten with most.", "eps", [("{{resource}}", most(per("resource", "apiserver_watch_cache_events_received_total", OF)))], 8),
        ("Loads", "How often a resource was loaded, since the start of the server. More than once: etcd or upstream was away for longer than it keeps its history.", "short", [("{{instance}} {{resource}}", most(f"apiserver_watch_cache_initializations_total{{{OF}}}"))], 8),
        ("Progress told by the source", "Bookmarks a second, of all resources.", "eps", [("{{instance}}", per("instance", "etcd_bookmark_total", OF))], 8),
        ("Requests to etcd", "By operation. None where objects come from an upstream.", "reqps", [("{{operation}}", per("operation", "etcd_requests_total", OF))], 8),
        ("Requests to etcd that failed", "A transaction whose condition does not hold has not failed.", "reqps", [("{{operation}}", per("operation", "etcd_request_errors_total", OF))], 8),
        ("Time of requests to etcd", "99 of 100 are faster.", "s", [("{{operation}}", quantile(0.99, "operation", "etcd_request_duration_seconds", OF))], 8),
    ]),
    ("Resources", [
        ("Objects", "The ten resources with most.", "short", [("{{resource}}", most(f"max by (resource) (apiserver_resource_objects{{{OF}}})"))], 8),
        ("Events in history", "Limit: --ring-events-limit.", "short", [("{{instance}} {{resource}}", most(f"watchcache_history_events{{{OF}}}"))], 8),
        ("Values that cannot be read", "While there are any, the resource is answered 500, or forwarded.", "short", [("{{instance}} {{resource}}", most(f"watchcache_undecodable_objects{{{OF}}}"))], 8),
        ("Indexes for selectors", "Labels and fields by which objects are found without a scan.", "short", [("{{instance}} {{resource}}", most(f"watchcache_selector_indexes{{{OF}}}"))], 8),
        ("Keys of no resource", "Under the prefix of etcd.", "eps", [("{{instance}}", rate("watchcache_unknown_keys_total"))], 8),
        ("Definitions read", "CustomResourceDefinitions, one for each write of one.", "eps", [("{{instance}}", rate("watchcache_definitions_read_total"))], 8),
    ]),
    ("Watches", [
        ("Open watches", "The ten resources with most.", "short", [("{{resource}}", most(f'sum by (resource) (apiserver_longrunning_requests{{verb="WATCH", {OF}}})'))], 8),
        ("Events sent", "The ten resources with most.", "eps", [("{{resource}}", most(per("resource", "apiserver_watch_events_total", OF)))], 8),
        ("Bytes sent", "The ten resources with most.", "Bps", [("{{resource}}", most(per("resource", "apiserver_watch_events_sizes_sum", OF)))], 8),
        ("Initial and replayed events", "What watches are told when they begin, and when they fell back to the ring.", "eps", [("{{resource}}", most(per("resource", "apiserver_init_events_total", OF)))], 8),
        ("Time until the initial events are sent", "99 of 100 are faster.", "s", [("{{resource}}", most(quantile(0.99, "resource", "apiserver_watch_list_duration_seconds", OF)))], 8),
        ("Watches that are too old", "Answered 410 when they began: history does not reach back to what they asked for.", "cps", [("{{resource}}", most(per("resource", "watchcache_watches_too_old_total", OF)))], 8),
        ("Slow watches ended", "History has evicted events that they had not been sent.", "cps", [("{{resource}}", most(per("resource", "apiserver_terminated_watchers_total", OF)))], 8),
        ("Filters", "Bytes of the different scopes and selectors of open watches.", "bytes", [("{{instance}}", f"watchcache_watch_filters_bytes{{{HERE}}}")], 8),
        ("Events of the cache that were dispatched", "Taken up for watches.", "eps", [("{{resource}}", most(per("resource", "apiserver_watch_cache_events_dispatched_total", OF)))], 8),
    ]),
    ("Reads, by who answers", [
        ("Lists", "From memory, and from etcd.", "reqps", [
            ("memory", f"sum({rate('apiserver_cache_list_total', OF)})"),
            ("etcd", f"sum({rate('apiserver_storage_list_total', OF)})"),
        ], 8),
        ("Objects of lists", "Looked at, and returned. Far apart: a selector without an index.", "cps", [
            ("looked at in memory", f"sum({rate('apiserver_cache_list_fetched_objects_total', OF)})"),
            ("returned from memory", f"sum({rate('apiserver_cache_list_returned_objects_total', OF)})"),
            ("looked at in etcd", f"sum({rate('apiserver_storage_list_evaluated_objects_total', OF)})"),
            ("returned from etcd", f"sum({rate('apiserver_storage_list_returned_objects_total', OF)})"),
        ], 8),
        ("Consistent reads", "Whether memory was new enough in time, and whether etcd or upstream answered instead.", "reqps", [("in time: {{success}}, elsewhere: {{fallback}}", per("success, fallback", "apiserver_watch_cache_consistent_read_total", OF))], 8),
        ("Wait for memory to be new enough", "99 of 100 are shorter. After 3 s etcd or upstream is asked.", "s", [("{{resource}}", most(quantile(0.99, "resource", "apiserver_watch_cache_read_wait_seconds", OF)))], 8),
        ("Requests by verb", "A watch counts at its end.", "reqps", [("{{verb}}", per("verb", "apiserver_request_total", OF))], 8),
        ("Time of reads", "99 of 100 are faster.", "s", [("{{verb}}", quantile(0.99, "verb", "apiserver_request_duration_seconds", 'verb=~"GET|LIST", ' + OF))], 8),
        ("Bytes of answers", "Of GET and LIST.", "Bps", [("{{verb}}", per("verb", "apiserver_response_sizes_sum", OF))], 8),
        ("Under way", "Limits: --max-requests-inflight, --max-mutating-requests-inflight.", "short", [("{{instance}} {{request_kind}}", f"apiserver_current_inflight_requests{{{HERE}}}")], 8),
        ("Pieces of gzip lists", "If lists repeat and few pieces are shared, raise --compressed-lists-bytes-limit.", "cps", [("{{result}}", per("result", "watchcache_list_blocks_total"))], 8),
    ]),
    ("Writes and the embedded store", [
        ("Writes", "By verb.", "reqps", [("{{verb}}", per("verb", "apiserver_request_total", 'verb!~"GET|LIST|WATCH", ' + OF))], 8),
        ("Time of writes", "99 of 100 are faster.", "s", [("{{verb}}", quantile(0.99, "verb", "apiserver_request_duration_seconds", 'verb!~"GET|LIST|WATCH", ' + OF))], 8),
        ("Time of transactions", "99 of 100 are faster.", "s", [("{{operation}}", quantile(0.99, "operation", "etcd_request_duration_seconds", 'operation=~"create|update|delete", ' + OF))], 8),
        ("Store on disk", "The file, and what of it is kept changes; the quota, if there is one.", "bytes", [
            ("file {{instance}}", f"watchcache_store_size_bytes{{{HERE}}}"),
            ("in use {{instance}}", f"watchcache_store_size_bytes{{{HERE}}} - watchcache_store_free_bytes{{{HERE}}}"),
            ("quota {{instance}}", f"watchcache_store_quota_bytes{{{HERE}}} > 0"),
        ], 12),
        ("Store in trouble", "Failed: writes are refused until a restart. Stalled: the disk takes no write.", "bool", [
            ("failed {{instance}}", f"watchcache_store_failed{{{HERE}}}"),
            ("stalled {{instance}}", f"watchcache_store_stalled{{{HERE}}}"),
        ], 12),
    ]),
    ("Read replica", [
        ("Forwarded, by reason", "What upstream has answered, and why not this server.", "reqps", [("{{reason}}", per("reason", "watchcache_forwarded_requests_total"))], 8),
        ("Forwarded, by code", "What upstream has said.", "reqps", [("{{code}}", per("code", "watchcache_forwarded_requests_total"))], 8),
        ("Upstream answers", "When it was asked last.", "bool", [("{{instance}} {{server}}", f"watchcache_upstream_up{{{HERE}}}")], 8),
        ("The etcd is upstream's", "1 when upstream has said so. Servers without an upstream, and those whose objects come from upstream itself, are not shown.", "bool", [("{{instance}}", f"watchcache_etcd_proven{{{HERE}}}")], 8),
        ("Incomplete", "Resources of which upstream has something else: they are forwarded.", "short", [("{{instance}}", f"sum by (instance) (watchcache_incomplete{{{OF}}})")], 8),
        ("Documents kept", "Discovery and the like, answered as upstream said last, for it did not answer.", "reqps", [("{{instance}}", rate("watchcache_kept_answers_total"))], 8),
        ("Loads refused", "Resources of upstream that do not fit into --memory-budget.", "cps", [("{{resource}}", per("resource", "watchcache_loads_refused_total", OF))], 24),
    ]),
    ("Process", [
        ("CPU", "Cores.", "short", [("{{instance}}", rate("process_cpu_seconds_total"))], 8),
        ("Memory", "Resident, and --memory-budget.", "bytes", [
            ("{{instance}}", f"process_resident_memory_bytes{{{HERE}}}"),
            ("budget {{instance}}", f"watchcache_memory_budget_bytes{{{HERE}}} > 0"),
        ], 8),
        ("Done without", "What the server gives up to keep within its budget.", "bool", [("{{instance}} {{what}}", f"watchcache_memory_given_up{{{HERE}}}")], 8),
        ("Connections", "Limit: --max-connections.", "short", [("{{kind}}", f"sum by (kind) (watchcache_connections{{{HERE}}})")], 8),
        ("Connections refused and closed", "By the reason.", "cps", [("{{reason}}", per("reason", "watchcache_connections_closed_total"))], 8),
        ("Bytes that clients make it hold", "Limits: --unread-bytes-limit, --request-bodies-bytes-limit, and 128 MiB of heads.", "bytes", [
            ("unread answers {{instance}}", f"watchcache_unread_bytes{{{HERE}}}"),
            ("bodies {{instance}}", f"watchcache_request_body_bytes{{{HERE}}}"),
            ("heads {{instance}}", f"watchcache_head_bytes{{{HERE}}}"),
        ], 8),
        ("Open files", "Share of those that it may open.", "percentunit", [("{{instance}}", f"process_open_fds{{{HERE}}} / process_max_fds{{{HERE}}}")], 8),
        ("Log lines dropped", "full: too many wait; failed: the write failed; flood: one line came again and again.", "cps", [("{{reason}}", per("reason", "watchcache_log_lines_dropped_total"))], 8),
        ("Audit events", "Told, and lost.", "eps", [
            ("told", f"sum({rate('apiserver_audit_event_total')})"),
            ("lost by {{plugin}}", per("plugin", "apiserver_audit_error_total")),
        ], 8),
    ]),
]

SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def panel(number, place, title, what, unit, targets, kind="timeseries"):
    defaults = {"unit": "short" if unit == "bool" else unit}
    if unit == "bool":
        steps = [{"color": "text", "value": None}]
        mappings = {"0": {"text": "no", "index": 0}, "1": {"text": "yes", "index": 1}}
        defaults |= {"min": 0, "max": 1, "mappings": [{"type": "value", "options": mappings}], "thresholds": {"mode": "absolute", "steps": steps}}
    body = {"id": number, "type": kind, "title": title, "description": what, "datasource": SOURCE, "gridPos": place}
    body["fieldConfig"] = {"defaults": defaults, "overrides": []}
    if kind == "stat":
        body["options"] = {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "graphMode": "area", "colorMode": "value", "justifyMode": "auto", "orientation": "auto",
            "textMode": "auto", "wideLayout": True, "showPercentChange": False, "percentChangeColorMode": "standard",
        }
    else:
        body["options"] = {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}, "tooltip": {"mode": "multi", "sort": "desc"}}
    body["targets"] = [
        {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expression, "legendFormat": legend or "__auto", "instant": kind == "stat", "range": kind != "stat"}
        for at, (legend, expression) in enumerate(targets)
    ]
    return body


def panels():
    made, y = [], 0
    for name, row in ROWS:
        made.append({"id": len(made) + 1, "type": "row", "title": name, "collapsed": False, "panels": [], "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}})
        y, x, height = y + 1, 0, 0
        for title, what, unit, targets, width, *kind in row:
            if x + width > WIDTH:
                x, y = 0, y + height
            height = 4 if kind else 8
            made.append(panel(len(made) + 1, {"x": x, "y": y, "w": width, "h": height}, title, what, unit, targets, *kind))
            x += width
        y += height
    return made


def variable(name, label, query, **more):
    return more | {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "refresh": 2, "sort": 1, "multi": True, "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]}, "query": {"query": query, "refId": "Variable-" + name},
    }


def dashboard():
    return {
        "uid": "watchcache", "title": "watchcache", "tags": ["kubernetes", "watchcache"], "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1,
        "time": {"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "", "annotations": {"list": []}, "links": [],
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {"text": "default", "value": "default"}, "hide": 0},
            variable("job", "Job", "label_values(watchcache_build_info, job)"),
            variable("instance", "Server", 'label_values(watchcache_build_info{job=~"$job"}, instance)'),
            variable("resource", "Resource", f"label_values(apiserver_resource_objects{{{HERE}}}, resource)", allValue=".*"),
        ]},
        "panels": panels(),
    }


def main():
    text = json.dumps(dashboard(), indent=1) + "\n"
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text() != text:
            sys.exit(f"{FILE} is not what {__file__} makes: run it")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        FILE.write_text(text)


main()
