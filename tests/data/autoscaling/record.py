#!/usr/bin/env python3
"""record.py ETCD_URL KUBE_URL TOKEN [NAMESPACE]: record autoscalers.jsonl beside this file from a live kube-apiserver.

It must store JSON (--storage-media-type=application/json). Needs nothing but Python. Each case is written through one version or both. A line: what it is,
key, revision and stored value, then what a client gets: the object in v1 and v2, the metadata of v1 alone, and the row that a Table of v1 has (its cells);
and `back`, the object in v2 after the one in v1 was sent back, to itself and to its status.
"""
import base64, json, pathlib, ssl, sys, urllib.error, urllib.request

ETCD, KUBE, TOKEN = sys.argv[1:4]
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
NS = sys.argv[4] if len(sys.argv) > 4 else "autoscalers"
CARRIER = "autoscaling.alpha.kubernetes.io/"
REF = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
SELECTOR = {"matchLabels": {"b": "<1>", "a": "&"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}, {"key": "l", "operator": "Exists"}]}
THING = {"kind": "Service", "name": "s", "apiVersion": "v1"}


def call(method, path, body=None, accept="application/json", kind="application/json"):
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    ask = urllib.request.Request(KUBE + path, data, {"Authorization": "Bearer " + TOKEN, "Accept": accept, "Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(ask, context=TLS) as answer:
            return answer.read().decode().removesuffix("\n")
    except urllib.error.HTTPError as e:
        raise SystemExit(f"{method} {path} {body}: {e.code} {e.read().decode()}")


def stored(name):
    key = f"/registry/horizontalpodautoscalers/{NS}/{name}"
    ask = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
    found = json.load(urllib.request.urlopen(f"{ETCD}/v3/kv/range", ask))["kvs"][0]
    return key, int(found["mod_revision"]), base64.b64decode(found["value"]).decode().removesuffix("\n")


def path(version, name=""):
    return f"/apis/autoscaling/{version}/namespaces/{NS}/horizontalpodautoscalers" + ("/" + name if name else "")


def utilization(name, percent):
    return {"type": "Resource", "resource": {"name": name, "target": {"type": "Utilization", "averageUtilization": percent}}}


METRICS = [
    {"type": "Object", "object": {"describedObject": THING, "metric": {"name": "m", "selector": SELECTOR}, "target": {"type": "Value", "value": "2k"}}},
    {"type": "Object", "object": {"describedObject": {"kind": "K", "name": "n"}, "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1500m"}}},
    {"type": "Object", "object": {"describedObject": THING, "metric": {"name": "m", "selector": {}}, "target": {"type": "AverageValue", "value": "3", "averageValue": "0.5"}}},
    {"type": "Pods", "pods": {"metric": {"name": "packets-per-second"}, "target": {"type": "AverageValue", "averageValue": "1k"}}},
    {"type": "Pods", "pods": {"metric": {"name": "p", "selector": SELECTOR}, "target": {"type": "AverageValue", "averageValue": "1Gi", "value": "7", "averageUtilization": 5}}},
    utilization("cpu", 60), utilization("memory", 70), utilization("cpu", 65),
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}}},
    {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 5}}},
    {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c", "target": {"type": "AverageValue", "averageValue": "1Mi"}}},
    {"type": "External", "external": {"metric": {"name": "q", "selector": SELECTOR}, "target": {"type": "Value", "value": "30"}}},
    {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "30"}}},
    {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Utilization", "value": "1", "averageUtilization": 9}}},
]
CURRENT = [
    {"type": "Object", "object": {"describedObject": THING, "metric": {"name": "m", "selector": SELECTOR}, "current": {"value": "2k", "averageValue": "1"}}},
    {"type": "Object", "object": {"describedObject": THING, "metric": {"name": "m"}, "current": {}}},
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "1k"}}},
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"value": "1"}}},
    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "100m", "averageUtilization": 41}}},
    {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "5Mi", "averageUtilization": 42}}},
    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 43}}},
    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "3"}}},
    {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "current": {"averageUtilization": 7}}},
    {"type": "External", "external": {"metric": {"name": "q", "selector": SELECTOR}, "current": {"value": "0", "averageValue": "30"}}},
    {"type": "External", "external": {"metric": {"name": "q"}, "current": {}}},
    {"type": "", "resource": None},
]
CONDITIONS = [
    {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "R<eady>", "message": "a \"quoted\" \\ & é \u2028 \t 😀"},
    {"type": "ScalingActive", "status": "False"},
]
RULES = {"stabilizationWindowSeconds": 5, "selectPolicy": "Min", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}, {"type": "Percent", "value": 2, "periodSeconds": 8}],
         "tolerance": "0.05"}


def spec(**members):
    return {"scaleTargetRef": REF, "maxReplicas": 3, **members}


def annotated(**texts):
    return {"annotations": {CARRIER + name.replace("_", "-"): text for name, text in texts.items()}}


V1_METRICS = [
    {"type": "Object", "object": {"target": THING, "metricName": "m", "targetValue": "2000", "selector": SELECTOR}},
    {"type": "Object", "object": {"target": THING, "metricName": "m", "targetValue": "0", "averageValue": 2}},
    {"type": "Object", "object": {"target": THING, "metricName": "m", "targetValue": "4", "averageValue": "2"}},
    {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "1000m", "selector": {"matchLabels": {"a": None}}}},
    {"TYPE": "Resource", "Resource": {"NAME": "memory", "targetaverageutilization": 5, "unknown": [1]}},
    {"type": "ContainerResource", "containerResource": {"name": "cpu", "targetAverageValue": "1", "container": "c"}, "pods": None},
    {"type": "External", "external": {"metricName": "q", "metricSelector": SELECTOR, "targetValue": "1e3"}},
    {"type": "External", "external": {"metricName": "q", "targetAverageValue": "12"}},
]
V1_CURRENT = [
    {"type": "Object", "object": {"target": {"kind": "K"}, "metricName": "m", "currentValue": "5"}},
    {"type": "Pods", "pods": {"metricName": "m"}},
    {"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 9, "currentAverageValue": "5"}},
    {"type": "ContainerResource", "containerResource": {"name": "cpu", "currentAverageUtilization": 9, "container": "c"}},
    {"type": "External", "external": {"metricName": "q", "currentValue": 7, "currentAverageValue": " 8 "}},
    None,
]
V1_CONDITIONS = [{"type": "T", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05.678+01:00", "Reason": "r"}, {"lastTransitionTime": None}]
GO_RULES = {"StabilizationWindowSeconds": 5, "selectPolicy": "Min", "POLICIES": [{"Type": "Pods", "value": 1, "PeriodSeconds": 9}], "Tolerance": "0.05"}

# Name: the writes, each a method, a version, `status` or not, and a body.
CASES = {
    "v1-bare": [("POST", "v1", "", {"spec": spec()})],
    "v1-target": [("POST", "v1", "", {"metadata": {"labels": {"l": "m"}, "finalizers": ["ex.io/f"]}, "spec": spec(minReplicas=2, targetCPUUtilizationPercentage=55)})],
    "v2-bare": [("POST", "v2", "", {"metadata": {"annotations": {"z": "<z>", "a": "a"}}, "spec": spec()})],
    "v2-memory": [("POST", "v2", "", {"metadata": {"finalizers": ["ex.io/f"], "annotations": {"autoscaling.alpha.kubernetes.io/n": "n", "b": "c"}},
                                     "spec": spec(metrics=[utilization("memory", 5)])})],
    "v2-all": [("POST", "v2", "", {"metadata": {"labels": {"l": "m"}}, "spec": spec(metrics=METRICS, behavior={"scaleUp": RULES, "scaleDown": {"selectPolicy": "Disabled"}})}),
               ("PUT", "v2", "status", {"spec": spec(), "status": {"observedGeneration": 3, "lastScaleTime": "2026-01-02T03:04:05Z", "currentReplicas": 2, "desiredReplicas": 3,
                                                                    "currentMetrics": CURRENT, "conditions": CONDITIONS}})],
    "v2-behavior": [("POST", "v2", "", {"spec": spec(behavior={})})],
    "v2-behavior-up": [("POST", "v2", "", {"spec": spec(metrics=[utilization("cpu", 1)], behavior={"scaleUp": {"tolerance": "1", "stabilizationWindowSeconds": 0}})})],
    "v2-status": [("POST", "v2", "", {"spec": spec()}), ("PUT", "v2", "status", {"spec": spec(), "status": {"desiredReplicas": 0, "currentMetrics": [], "conditions": CONDITIONS[1:]}})],
    "v2-no-annotation": [("POST", "v2", "", {"metadata": annotated(metrics="[]", scale_up_tolerance="1"), "spec": spec()})],
    "v1-annotations": [("POST", "v1", "", {"metadata": annotated(metrics=json.dumps(V1_METRICS), behavior=json.dumps({"ScaleUp": GO_RULES}), other="kept"),
                                           "spec": spec(targetCPUUtilizationPercentage=33)}),
                       ("PUT", "v1", "status", {"metadata": annotated(current_metrics=json.dumps(V1_CURRENT), conditions=json.dumps(V1_CONDITIONS)), "spec": spec(),
                                                "status": {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 77}})],
    "v1-status": [("POST", "v1", "", {"spec": spec()}),
                  ("PUT", "v1", "status", {"spec": spec(), "status": {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 77}})],
    "v1-emptied": [("POST", "v1", "", {"metadata": annotated(metrics="[]", behavior="{}"), "spec": spec()}),
                   ("PUT", "v1", "status", {"metadata": annotated(current_metrics="[]", conditions="null"), "spec": spec(),
                                            "status": {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 77}})],
    "v1-malformed": [("POST", "v1", "", {"metadata": annotated(metrics="{", behavior="[1]", conditions="x", current_metrics="7", scale_down_tolerance="1"), "spec": spec()}),
                     ("PUT", "v1", "status", {"metadata": annotated(current_metrics='[{"type":1}]', conditions='[{"lastTransitionTime":"now"}]'), "spec": spec(),
                                              "status": {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 78}})],
    "v1-half-malformed": [("POST", "v1", "", {"metadata": annotated(metrics='[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":1.5}}]',
                                                                    behavior=json.dumps({"ScaleDown": GO_RULES, "ScaleUp": None})), "spec": spec(targetCPUUtilizationPercentage=5)})],
    "v2-then-v1": [("POST", "v2", "", {"spec": spec(metrics=METRICS, behavior={"scaleDown": RULES})}),
                   ("PUT", "v1", "", {"metadata": {"labels": {"only": "this"}}, "spec": spec(targetCPUUtilizationPercentage=9)})],
}


def main():
    call("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    lines = []
    for name, writes in CASES.items():
        for method, version, sub, body in writes:
            whole = {"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/" + version, **body, "metadata": {"name": name, **body.get("metadata", {})}}
            call(method, path(version) if method == "POST" else path(version, name) + ("/" + sub if sub else ""), whole)
        shown = {version: call("GET", path(version, name)) for version in ("v1", "v2")}
        key, revision, value = stored(name)
        partial = call("GET", path("v1", name), accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        table = call("GET", path("v1", name) + "?includeObject=None", accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        cells = json.loads(table)["rows"][0]["cells"]
        for sub in ("", "/status"):
            call("PUT", path("v1", name) + sub, json.dumps({**json.loads(shown["v1"]), "metadata": {**json.loads(shown["v1"])["metadata"], "resourceVersion": ""}}))
        back = call("GET", path("v2", name))
        lines.append(json.dumps({"what": name, "key": key, "revision": revision, "stored": value, **shown, "partial": partial, "cells": cells[:-1], "back": back}))
    pathlib.Path(__file__).with_name("autoscalers.jsonl").write_text("\n".join(lines) + "\n")
    call("DELETE", "/api/v1/namespaces/" + NS)
    print(len(lines), "recorded")


main()
