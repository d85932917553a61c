"""Stories of what kube-controller-manager cleans up: each is done on one server, and returns what it has seen."""

import base64
import json
import os
import subprocess
import tempfile
import time

CORE = "/api/v1/namespaces"


def owner(of, **more):
    return {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"], "uid": of["metadata"]["uid"], **more}


def named(name, owners=(), finalizers=(), **more):
    return {"metadata": {"name": name, "ownerReferences": list(owners), "finalizers": list(finalizers)}, **more}


def conditions(namespace):
    return [[c["type"], c["status"], c["reason"], c["message"]] for c in (namespace or {}).get("status", {}).get("conditions", [])]


def condition(namespace, kind):
    return next((c["message"] for c in (namespace or {}).get("status", {}).get("conditions", []) if c["type"] == kind), "")


# Stories: each tells what it has seen.

def namespace_with_finalizers(server):
    server.made(CORE, named("held"))
    server.made(f"{CORE}/held/configmaps", named("plain"))
    server.made(f"{CORE}/held/configmaps", named("one", finalizers=["ex.io/a", "ex.io/b"]))
    server.made(f"{CORE}/held/secrets", named("two", finalizers=["ex.io/b"]))
    server.made("/apis/ex.io/v1/namespaces/held/things", {"apiVersion": "ex.io/v1", "kind": "Thing", **named("three", finalizers=["ex.io/a"])})
    server.deleted(f"{CORE}/held")
    seen = [conditions(server.until(f"{CORE}/held", lambda found: condition(found, "NamespaceFinalizersRemaining").startswith("Some content")))]
    for path in [f"{CORE}/held/configmaps/one", "/apis/ex.io/v1/namespaces/held/things/three"]:
        server.patched(path, {"metadata": {"finalizers": None}})
    seen.append(conditions(server.until(f"{CORE}/held", lambda found: "ex.io/a" not in condition(found, "NamespaceFinalizersRemaining"))))
    server.patched(f"{CORE}/held/secrets/two", {"metadata": {"finalizers": None}})
    server.gone(f"{CORE}/held")
    return seen


def namespace_with_pods(server):
    server.made(CORE, named("pods"))
    pod = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 8}
    server.made(f"{CORE}/pods/pods", named("bound", spec={**pod, "nodeName": "n"}))
    server.made(f"{CORE}/pods/pods", named("free", spec=pod))
    server.made(f"{CORE}/pods/configmaps", named("later"))
    server.deleted(f"{CORE}/pods")
    server.gone(f"{CORE}/pods/pods/free")
    # How the first look at the namespace ends is there for a moment only: seen or not.
    server.until(f"{CORE}/pods", lambda found: conditions(found))
    seen = [server.ask("GET", f"{CORE}/pods/configmaps/later")[0]]
    left = server.until(f"{CORE}/pods", lambda found: condition(found, "NamespaceDeletionContentFailure").startswith("Failed"))
    seen += [conditions(left), server.ask("GET", f"{CORE}/pods/configmaps/later")[0]]
    server.deleted(f"{CORE}/pods/pods/bound", gracePeriodSeconds=0)
    server.gone(f"{CORE}/pods")
    return seen


def namespace_with_owner_finalizer(server):
    """The finalizer of the namespace itself, and one of another controller in its spec."""
    server.made(CORE, named("mine", finalizers=["ex.io/hold"], spec={"finalizers": ["kubernetes", "ex.io/other"]}))
    server.deleted(f"{CORE}/mine")
    found = server.until(f"{CORE}/mine", lambda found: found and "kubernetes" not in found["spec"].get("finalizers", []))
    server.patched(f"{CORE}/mine", {"metadata": {"finalizers": None}})
    time.sleep(1)
    left = server.until(f"{CORE}/mine", lambda found: found)
    server.ask("PUT", f"{CORE}/mine/finalize", {**left, "spec": {}})
    server.gone(f"{CORE}/mine")
    return [conditions(found), found["status"]["phase"], left["spec"]]


def accounts(server):
    server.made(CORE, named("robots"))
    account, authorities = f"{CORE}/robots/serviceaccounts/default", f"{CORE}/robots/configmaps/kube-root-ca.crt"
    first = server.until(account, lambda found: found)
    is_there = lambda found: found and "BEGIN CERTIFICATE" in found["data"].get("ca.crt", "")
    published = server.until(authorities, is_there)
    seen = [sorted(first), sorted(published["data"]), published["metadata"]["annotations"]]
    server.deleted(account)
    server.until(account, lambda found: found and found["metadata"]["uid"] != first["metadata"]["uid"])
    server.patched(authorities, {"data": {"ca.crt": "wrong", "more": "x"}, "metadata": {"annotations": {"kubernetes.io/description": None, "mine": "y"}}})
    mended = server.until(authorities, is_there)
    seen += [sorted(mended["data"]), mended["metadata"]["annotations"]]
    server.patched(authorities, {"data": {"ca.crt": "wrong"}})
    server.until(authorities, is_there)
    server.deleted(authorities)
    server.until(authorities, is_there)
    secret = {"type": "kubernetes.io/service-account-token"}
    server.made(f"{CORE}/robots/serviceaccounts", named("robot"))
    for name, of in [("his", "robot"), ("nobodys", "nobody")]:
        body = named(name, **secret)
        body["metadata"]["annotations"] = {"kubernetes.io/service-account.name": of}
        server.made(f"{CORE}/robots/secrets", body)
    server.gone(f"{CORE}/robots/secrets/nobodys")
    his = server.until(f"{CORE}/robots/secrets/his", lambda found: "token" in found.get("data", {}))
    token = base64.b64decode(his["data"]["token"]).decode()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status, answer = server.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    uid = claims.pop("kubernetes.io/serviceaccount/service-account.uid")
    seen += [sorted(his["data"]), sorted(his["metadata"]["annotations"]), his["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == uid, claims,
             status, answer["status"].get("user", {}).get("username")]
    server.deleted(f"{CORE}/robots/serviceaccounts/robot")
    server.gone(f"{CORE}/robots/secrets/his")
    server.deleted(f"{CORE}/robots")
    server.gone(f"{CORE}/robots")
    return seen


def cascades(server):
    maps = f"{CORE}/default/configmaps"
    seen = []
    for propagation in ["Background", "Foreground", "Orphan"]:
        top = server.made(maps, named("top"))
        child = server.made(maps, named("child", [owner(top, blockOwnerDeletion=True, controller=True)]))
        server.made(maps, named("grandchild", [owner(child)]))
        server.made(maps, named("held", [owner(top, blockOwnerDeletion=True)], ["ex.io/hold"]))
        server.deleted(f"{maps}/top", propagation)
        if propagation == "Foreground":
            server.until(f"{maps}/held", lambda found: "deletionTimestamp" in found["metadata"])
            top = server.until(f"{maps}/top", lambda found: found)
            seen.append([top["metadata"]["finalizers"], "deletionTimestamp" in top["metadata"]])
        if propagation == "Background":
            server.until(f"{maps}/held", lambda found: "deletionTimestamp" in found["metadata"])
        if propagation == "Orphan":
            server.gone(f"{maps}/top")
            for name in ["child", "held"]:
                seen.append(server.until(f"{maps}/{name}", lambda found: "ownerReferences" not in found["metadata"])["metadata"].get("finalizers"))
            seen.append(len(server.until(f"{maps}/grandchild", lambda found: found)["metadata"]["ownerReferences"]))
            server.deleted(f"{maps}/child")
            server.deleted(f"{maps}/held")
        server.patched(f"{maps}/held", {"metadata": {"finalizers": None}})
        for name in ["top", "held", "child", "grandchild"]:
            server.gone(f"{maps}/{name}")
    return seen


def wrong_owners(server):
    maps = f"{CORE}/default/configmaps"
    server.made(CORE, named("elsewhere"))
    top = server.made(maps, named("lord"))
    stranger = server.made(f"{CORE}/elsewhere/configmaps", named("stranger", [owner(top)]))
    server.gone(f"{CORE}/elsewhere/configmaps/stranger")
    told = lambda found: [e for e in found["items"] if e["reason"] == "OwnerRefInvalidNamespace"]
    events = told(server.until(f"{CORE}/elsewhere/events", told))
    scoped = server.made("/apis/ex.io/v1/worlds", {"apiVersion": "ex.io/v1", "kind": "World", **named("scoped", [owner(top)])})
    of_world = lambda found: [e for e in told(found) if e["involvedObject"]["name"] == "scoped"]
    events += of_world(server.until(f"{CORE}/default/events", of_world))
    uids = {top["metadata"]["uid"]: "TOP", stranger["metadata"]["uid"]: "STRANGER", scoped["metadata"]["uid"]: "SCOPED"}
    seen = []
    for event in events:
        shown = {name: event.get(name) for name in ["type", "reason", "message", "count", "source", "involvedObject", "reportingComponent", "reportingInstance"]}
        shown["involvedObject"].pop("resourceVersion", None)
        text = json.dumps(shown, sort_keys=True)
        for uid, name in uids.items():
            text = text.replace(uid, name)
        seen.append(text)
    missing = {"apiVersion": "v1", "kind": "ConfigMap", "name": "lord", "uid": "not-this-one"}
    server.made(maps, named("wrong", [missing]))
    server.made(maps, named("half", [missing, owner(top)]))
    server.made(maps, named("unknown", [{**missing, "apiVersion": "nobody.io/v1", "kind": "Nobody"}]))
    server.gone(f"{maps}/wrong")
    seen.append([o["name"] for o in server.until(f"{maps}/half", lambda found: len(found["metadata"]["ownerReferences"]) == 1)["metadata"]["ownerReferences"]])
    server.deleted(f"{maps}/lord")
    server.gone(f"{maps}/half")
    seen += [server.ask("GET", f"{maps}/unknown")[0], server.ask("GET", "/apis/ex.io/v1/worlds/scoped")[0]]
    server.deleted(f"{maps}/unknown")
    server.deleted("/apis/ex.io/v1/worlds/scoped")
    server.deleted(f"{CORE}/elsewhere")
    server.gone(f"{CORE}/elsewhere")
    return seen


def circle(server):
    maps = f"{CORE}/default/configmaps"
    for propagation in ["Background", "Foreground"]:
        a = server.made(maps, named("a"))
        b = server.made(maps, named("b", [owner(a, blockOwnerDeletion=True)]))
        c = server.made(maps, named("c", [owner(b, blockOwnerDeletion=True)]))
        server.patched(f"{maps}/a", {"metadata": {"ownerReferences": [owner(c, blockOwnerDeletion=True)]}})
        server.deleted(f"{maps}/a", propagation)
        for name in "abc":
            server.gone(f"{maps}/{name}")
    return []


def jobs(server):
    path = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = server.made(path, named("done", spec={"ttlSecondsAfterFinished": 1, "suspend": True, "template": template}))
    server.made(f"{CORE}/default/configmaps", named("of-job", [owner({**job, "apiVersion": "batch/v1", "kind": "Job"}, blockOwnerDeletion=True)]))
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    finished = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ["FailureTarget", "Failed"]]
    server.patched(f"{path}/done/status", {"status": {"startTime": now, "conditions": finished}})
    server.gone(f"{path}/done")
    server.gone(f"{CORE}/default/configmaps/of-job")
    return []


def foreground_blocks(server):
    """Who is waited for: dependents that block, and no others, until they block no more; what owns itself waits for ever."""
    maps = f"{CORE}/default/configmaps"
    seen = []
    for name, blocks in [("blocks", True), ("passes", False), ("untold", None)]:
        top = server.made(maps, named(f"{name}-top"))
        more = {} if blocks is None else {"blockOwnerDeletion": blocks}
        server.made(maps, named(f"{name}-held", [owner(top, **more)], ["ex.io/hold"]))
        server.made(maps, named(f"{name}-two", [owner(top, **more), owner(server.made(maps, named(f"{name}-other")), blockOwnerDeletion=True)]))
        server.deleted(f"{maps}/{name}-top", "Foreground")
        held = server.until(f"{maps}/{name}-held", lambda found: "deletionTimestamp" in found["metadata"])
        if not blocks:
            server.gone(f"{maps}/{name}-top")
        two = server.until(f"{maps}/{name}-two", lambda found: len(found["metadata"]["ownerReferences"]) == 1)
        seen.append([name, held["metadata"]["finalizers"], [o["name"] for o in two["metadata"]["ownerReferences"]], server.ask("GET", f"{maps}/{name}-top")[0]])
        server.patched(f"{maps}/{name}-held", {"metadata": {"finalizers": None}})
        server.gone(f"{maps}/{name}-top")
        server.gone(f"{maps}/{name}-held")
        server.deleted(f"{maps}/{name}-other")
        server.gone(f"{maps}/{name}-two")
    for name in ["freed", "left"]:
        top = server.made(maps, named(f"{name}-top"))
        server.made(maps, named(f"{name}-held", [owner(top, blockOwnerDeletion=True)], ["ex.io/hold"]))
        server.deleted(f"{maps}/{name}-top", "Foreground")
        server.until(f"{maps}/{name}-held", lambda found: "deletionTimestamp" in found["metadata"])
        server.patched(f"{maps}/{name}-held", {"metadata": {"ownerReferences": [owner(top, blockOwnerDeletion=False)] if name == "freed" else None}})
        server.gone(f"{maps}/{name}-top")
        server.patched(f"{maps}/{name}-held", {"metadata": {"finalizers": None}})
        server.gone(f"{maps}/{name}-held")
    for propagation in ["Background", "Orphan", "Foreground"]:
        own = server.made(maps, named("self"))
        server.patched(f"{maps}/self", {"metadata": {"ownerReferences": [owner(own, blockOwnerDeletion=True)]}})
        server.deleted(f"{maps}/self", propagation)
        if propagation != "Foreground":
            server.gone(f"{maps}/self")
    time.sleep(2)
    stuck = server.until(f"{maps}/self", lambda found: True)
    seen.append(stuck and stuck["metadata"]["finalizers"])
    if stuck:
        server.patched(f"{maps}/self", {"metadata": {"ownerReferences": None}})
    server.gone(f"{maps}/self")
    return seen


def orphans(server):
    """Custom resources are let go as others are, and keep their other owners; what is deleted as an orphan leaves its own dependents."""
    maps, things = f"{CORE}/default/configmaps", "/apis/ex.io/v1/namespaces/default/things"
    of = lambda body: {"apiVersion": "ex.io/v1", "kind": "Thing", **body}
    left, right = server.made(things, of(named("left"))), server.made(things, of(named("right")))
    server.made(things, of(named("both", [owner(left), owner(right, controller=True, blockOwnerDeletion=True)])))
    server.made(maps, named("only", [owner(right)], ["ex.io/hold"]))
    server.deleted(f"{things}/right", "Orphan")
    server.gone(f"{things}/right")
    both = server.until(f"{things}/both", lambda found: len(found["metadata"]["ownerReferences"]) == 1)["metadata"]["ownerReferences"]
    only = server.until(f"{maps}/only", lambda found: "ownerReferences" not in found["metadata"])
    seen = [[o["name"] for o in both], only["metadata"]["finalizers"], "deletionTimestamp" in only["metadata"]]
    server.deleted(f"{things}/left")
    server.gone(f"{things}/both")
    server.patched(f"{maps}/only", {"metadata": {"finalizers": None}})
    server.deleted(f"{maps}/only")
    return seen


def definition_of(plural, kind):
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.late.io"},
            "spec": {"group": "late.io", "scope": "Namespaced", "names": names, "versions": versions}}


def definition_goes(server):
    """A definition goes, and with it owners and dependents; another one comes, and only then it is known that an owner of its kind is not there."""
    definitions, maps = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"{CORE}/default/configmaps"
    gears = "/apis/late.io/v1/namespaces/default/gears"
    of = lambda body: {"apiVersion": "late.io/v1", "kind": "Gear", **body}
    server.made(definitions, definition_of("gears", "Gear"))
    server.until(gears, lambda found: found)
    map_of_gear = server.made(maps, named("gear-top"))
    # It is gone before anybody follows its kind.
    top = server.made(gears, of(named("early")))
    server.made(maps, named("of-early", [owner(top, blockOwnerDeletion=True)]))
    server.deleted(f"{gears}/early")
    server.gone(f"{maps}/of-early", 400)
    top = server.made(gears, of(named("top")))
    server.made(maps, named("of-gear", [owner(top, blockOwnerDeletion=True)]))
    server.made(gears, of(named("of-map", [owner(map_of_gear)])))
    missing = {"apiVersion": "late.io/v1", "kind": "Wheel", "name": "nobody", "uid": "nobodys"}
    server.made(maps, named("of-wheel", [missing]))
    server.deleted(f"{definitions}/gears.late.io")
    server.gone(f"{definitions}/gears.late.io")
    server.gone(f"{maps}/of-gear")
    seen = [server.ask("GET", f"{maps}/{name}")[0] for name in ["gear-top", "of-wheel"]]
    server.deleted(f"{maps}/gear-top", "Foreground")
    server.gone(f"{maps}/gear-top")
    server.made(definitions, definition_of("wheels", "Wheel"))
    server.gone(f"{maps}/of-wheel", 400)
    server.deleted(f"{definitions}/wheels.late.io")
    return seen


def owned_events(server):
    """Events are nobody's dependents; Leases, which change all the time, are."""
    server.made(CORE, named("events"))
    missing = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "nobodys"}
    event = named("owned", [missing], involvedObject={"kind": "ConfigMap", "namespace": "events", "name": "x"}, reason="R", message="m", type="Normal",
                  source={"component": "c"}, firstTimestamp="2026-01-01T00:00:00Z", lastTimestamp="2026-01-01T00:00:00Z", count=1)
    server.made(f"{CORE}/events/events", event)
    leases = "/apis/coordination.k8s.io/v1/namespaces/events/leases"
    server.made(leases, named("owned", [missing], spec={"holderIdentity": "x"}))
    server.gone(f"{leases}/owned")
    time.sleep(1)
    seen = server.ask("GET", f"{CORE}/events/events/owned")[0]
    server.deleted(f"{CORE}/events")
    server.gone(f"{CORE}/events")
    return [seen]


def many_owners(server):
    """As many owners as a body holds, of whom one is there; then none."""
    maps = f"{CORE}/default/configmaps"
    missing = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": f"many-{number}"} for number in range(3000)]
    there = server.made(maps, named("of-many"))
    server.made(maps, named("many", [*missing, owner(there)]))
    server.made(maps, named("many-lost", missing))
    left = server.until(f"{maps}/many", lambda found: len(found["metadata"]["ownerReferences"]) == 1)
    server.gone(f"{maps}/many-lost")
    server.deleted(f"{maps}/of-many")
    server.gone(f"{maps}/many")
    return [[o["name"] for o in left["metadata"]["ownerReferences"]]]


def namespace_that_stays(server):
    """A finalizer that nobody takes away; what comes into a namespace that goes; the conditions while it stays, and that nothing changes any more."""
    server.made(CORE, named("stays"))
    maps = f"{CORE}/stays/configmaps"
    server.made(maps, named("held", finalizers=["ex.io/never"]))
    server.deleted(f"{CORE}/stays")
    path = f"{CORE}/stays"
    first = server.until(path, lambda found: condition(found, "NamespaceFinalizersRemaining").startswith("Some content"))
    refused = server.ask("POST", maps, named("late"))
    # Service accounts and authorities do not come back either.
    server.gone(f"{path}/serviceaccounts/default")
    time.sleep(4)
    left = server.until(path, lambda found: found)
    again = server.deleted(path)
    seen = [conditions(first), refused[0], refused[1].get("message"), refused[1].get("details"), conditions(left), again, left["spec"],
            [server.ask("GET", f"{path}/{more}")[0] for more in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"]]]
    server.patched(f"{maps}/held", {"metadata": {"finalizers": None}})
    server.gone(path)
    return seen


def token_secrets(server):
    """What is taken out of a token Secret is filled in again; one of another account of the same name is not his."""
    server.made(CORE, named("tokens"))
    accounts, secrets = f"{CORE}/tokens/serviceaccounts", f"{CORE}/tokens/secrets"
    account = server.made(accounts, named("robot"))
    body = lambda secret, **of: {"type": "kubernetes.io/service-account-token",
                                 "metadata": {"name": secret, "annotations": {f"kubernetes.io/service-account.{key}": value for key, value in of.items()}}}
    server.made(secrets, body("his", name="robot"))
    server.made(secrets, body("of-uid", name="robot", uid=account["metadata"]["uid"]))
    is_full = lambda found: found and {"token", "ca.crt", "namespace"} <= set(found.get("data") or {})
    first = server.until(f"{secrets}/his", is_full)
    server.until(f"{secrets}/of-uid", is_full)
    server.made(secrets, body("of-another", name="robot", uid="another"))
    server.gone(f"{secrets}/of-another")
    server.patched(f"{secrets}/his", {"data": {"ca.crt": base64.b64encode(b"wrong").decode(), "namespace": None, "more": "eA=="}})
    mended = server.until(f"{secrets}/his", lambda found: is_full(found) and found["data"]["ca.crt"] == first["data"]["ca.crt"])
    seen = [sorted(mended["data"]), mended["data"]["token"] == first["data"]["token"], mended["data"]["namespace"]]
    server.patched(f"{secrets}/his", {"data": {"token": None}})
    mended = server.until(f"{secrets}/his", is_full)
    seen += [sorted(mended["metadata"]["annotations"]), "labels" in mended["metadata"], sorted(server.until(f"{accounts}/robot", lambda found: found))]
    # The account is another one now.
    server.deleted(f"{accounts}/robot")
    server.made(accounts, named("robot"))
    server.gone(f"{secrets}/his")
    server.gone(f"{secrets}/of-uid")
    server.deleted(f"{CORE}/tokens")
    server.gone(f"{CORE}/tokens")
    return seen


def bootstrap(server):
    """Bootstrap tokens sign cluster-info while they may, and go when their time has come."""
    secrets, maps = f"{CORE}/kube-system/secrets", f"{CORE}/kube-public/configmaps"
    at = lambda seconds: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))

    def token(of, space=secrets, name=None, kind="bootstrap.kubernetes.io/token", **data):
        data = {"token-id": of, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", **{key.replace("_", "-"): value for key, value in data.items()}}
        return server.made(space, {**named(name or f"bootstrap-token-{of}"), "type": kind, "stringData": {key: value for key, value in data.items() if value is not None}})

    server.made(maps, named("cluster-info", data={"kubeconfig": "content", "jws-kubeconfig-aaaaaa": "of nobody", "mine": "x"}))
    token("abcdef")
    token("bcdefg", expiration=at(20))
    token("cdefgh", usage_bootstrap_signing="no", expiration=at(3600))
    token("defghi", kind="Opaque", expiration=at(-60))
    token("efghij", expiration=at(-60))
    token("fghijk", expiration="soon")
    token("ghijkl", space=f"{CORE}/default/secrets", expiration=at(-60))
    token("hijklm", name="bootstrap-token-other")
    data = lambda found: (found or {}).get("data", {})
    signatures = lambda found: sorted(key for key in data(found) if key.startswith("jws"))
    both = server.until(f"{maps}/cluster-info", lambda found: signatures(found) == ["jws-kubeconfig-abcdef", "jws-kubeconfig-bcdefg"])
    seen = [data(both)]
    for gone in ["bootstrap-token-efghij", "bootstrap-token-fghijk", "bootstrap-token-bcdefg"]:
        server.gone(f"{secrets}/{gone}")
    one = server.until(f"{maps}/cluster-info", lambda found: signatures(found) == ["jws-kubeconfig-abcdef"])
    server.patched(f"{maps}/cluster-info", {"data": {"jws-kubeconfig-abcdef": "spoiled"}})
    server.until(f"{maps}/cluster-info", lambda found: data(found) == data(one))
    server.patched(f"{maps}/cluster-info", {"data": {"kubeconfig": "another"}})
    seen.append(data(server.until(f"{maps}/cluster-info", lambda found: data(found)["jws-kubeconfig-abcdef"] != data(one)["jws-kubeconfig-abcdef"])))
    left = [f"{secrets}/bootstrap-token-{of}" for of in ["abcdef", "cdefgh", "defghi", "other"]] + [f"{CORE}/default/secrets/bootstrap-token-ghijkl"]
    seen.append([server.ask("GET", path)[0] for path in left])
    for path in left:
        server.deleted(path)
    seen.append(data(server.until(f"{maps}/cluster-info", lambda found: not signatures(found))))
    server.deleted(f"{maps}/cluster-info")
    return seen


def lost_pods(server):
    """Pods of nodes that are gone, and Pods that are deleted and that no kubelet will end."""
    server.made(CORE, named("lost"))
    pods, nodes = f"{CORE}/lost/pods", "/api/v1/nodes"
    of = lambda node=None: {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now, "lastHeartbeatTime": now, "reason": "r", "message": "m"}]}}
    taint = [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]
    for name, taints, is_ready in [("lost-there", [], True), ("lost-off", taint, False), ("lost-tainted", taint, True)]:
        server.made(nodes, {**named(name), "spec": {"taints": taints}})
        if is_ready:
            server.patched(f"{nodes}/{name}/status", ready)
    for name, node, phase in [("orphan", "nobody", "Running"), ("done", "nobody", "Succeeded"), ("kept", "lost-there", "Running"), ("off", "lost-off", "Running"),
                              ("tainted", "lost-tainted", "Running"), ("free", None, None), ("waits", None, None)]:
        server.made(pods, named(name, finalizers=["ex.io/hold"] if name in ["orphan", "free", "done", "off"] else [], spec=of(node)))
        if phase:
            server.patched(f"{pods}/{name}/status", {"status": {"phase": phase, "conditions": [{"type": "PodReadyToStartContainers", "status": "True", "lastTransitionTime": now}]}})
    for name in ["free", "off", "tainted", "kept"]:
        server.deleted(f"{pods}/{name}", gracePeriodSeconds=20)
    seen = []
    for name in ["free", "off", "orphan", "done"]:
        is_told = lambda found: "deletionTimestamp" in found["metadata"] and found["metadata"]["deletionGracePeriodSeconds"] == 0 and found["status"]["phase"] in ["Failed", "Succeeded"]
        pod = server.until(f"{pods}/{name}", is_told, 200)
        told = [{key: value for key, value in c.items() if key != "lastTransitionTime"} for c in pod["status"].get("conditions", [])]
        seen.append([name, pod["status"]["phase"], pod["status"].get("observedGeneration"), pod["metadata"].get("generation"), told])
    seen.append([server.ask("GET", f"{pods}/{name}")[0] for name in ["kept", "tainted", "waits"]])
    for name in ["free", "off", "orphan", "done"]:
        server.patched(f"{pods}/{name}", {"metadata": {"finalizers": None}})
        server.gone(f"{pods}/{name}")
    for name in ["there", "off", "tainted"]:
        server.deleted(f"{nodes}/lost-{name}")
    # Their nodes are gone now.
    server.deleted(f"{CORE}/lost")
    server.gone(f"{CORE}/lost", 200)
    return seen


def timed_jobs(server):
    """A TTL counts from the end, not before; it may be changed."""
    path = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = lambda **more: {"suspend": True, "template": template, **more}
    at = lambda seconds=0: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))

    def finish(name):
        status = {"startTime": at(-5), "completionTime": at(), "succeeded": 1, "uncountedTerminatedPods": {}}
        ended = [{"type": kind, "status": "True", "lastTransitionTime": at()} for kind in ["SuccessCriteriaMet", "Complete"]]
        server.patched(f"{path}/{name}/status", {"status": {**status, "conditions": ended}})

    for name, ttl in [("at-once", 0), ("never", None), ("later", 3600), ("running", 0)]:
        server.made(path, named(name, spec=spec(**({} if ttl is None else {"ttlSecondsAfterFinished": ttl}))))
    held = server.made(path, named("held-job", spec=spec(ttlSecondsAfterFinished=1)))
    server.made(f"{CORE}/default/configmaps", named("held-of-job", [owner({**held, "apiVersion": "batch/v1", "kind": "Job"}, blockOwnerDeletion=True)], ["ex.io/hold"]))
    for name in ["at-once", "never", "later", "held-job"]:
        finish(name)
    server.gone(f"{path}/at-once")
    server.patched(f"{path}/later", {"spec": {"ttlSecondsAfterFinished": 1}})
    server.gone(f"{path}/later")
    held = server.until(f"{path}/held-job", lambda found: "deletionTimestamp" in found["metadata"])
    seen = [held["metadata"]["finalizers"]] + [server.ask("GET", f"{path}/{name}")[0] for name in ["never", "running"]]
    server.patched(f"{CORE}/default/configmaps/held-of-job", {"metadata": {"finalizers": None}})
    for name in ["held-job"]:
        server.gone(f"{path}/{name}")
    for name in ["never", "running"]:
        server.deleted(f"{path}/{name}", "Background")
    return seen


def requests_of_old(server):
    """Certificate requests of some age."""
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *arguments: subprocess.run(["openssl", *arguments], check=True, stderr=subprocess.DEVNULL, cwd=folder)
        run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key", "-subj", "/CN=x", "-out", "csr")
        run("req", "-x509", "-key", "key", "-subj", "/CN=x", "-days", "9", "-out", "crt")
        read = lambda name: base64.b64encode(open(os.path.join(folder, name), "rb").read()).decode()
        request, certificate = read("csr"), read("crt")
    at = lambda hours: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600 * hours))
    for name, kind, hours, issued in OLD_REQUESTS:
        spec = {"request": request, "signerName": "ex.io/test", "usages": ["client auth"]}
        server.made(path, named(name, spec=spec))
        if kind:
            conditions = [{"type": kind, "status": "True", "reason": "r", "message": "m", "lastUpdateTime": at(hours)}]
            server.patched(f"{path}/{name}/{'status' if kind == 'Failed' else 'approval'}", {"status": {"conditions": conditions}})
        if issued:
            server.patched(f"{path}/{name}/status", {"status": {"certificate": certificate}})


OLD_REQUESTS = [("pending", None, 0, False), ("denied", "Denied", 0, False), ("denied-old", "Denied", 2, False), ("failed", "Failed", 0, False), ("failed-old", "Failed", 2, False),
                ("approved-old", "Approved", 2, False), ("approved-older", "Approved", 25, False), ("issued", "Approved", 0, True), ("issued-old", "Approved", 2, True)]


def requests(server):
    """Of kube-controller-manager this is what its source says: it looks when it starts, before it knows of any, and then an hour later."""
    if server.name == "kube-apiserver":
        return ["approved-old", "denied", "failed", "issued", "pending"]
    requests_of_old(server)
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    for name in ["denied-old", "failed-old", "approved-older", "issued-old"]:
        server.gone(f"{path}/{name}")
    left = sorted(item["metadata"]["name"] for item in server.listed(path))
    for name in left:
        server.deleted(f"{path}/{name}")
    return left


STORIES = [namespace_with_finalizers, namespace_with_pods, namespace_with_owner_finalizer, namespace_that_stays, accounts, token_secrets, cascades, foreground_blocks, orphans,
           wrong_owners, many_owners, owned_events, circle, definition_goes, jobs, timed_jobs, requests, bootstrap, lost_pods]
