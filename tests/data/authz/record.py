#!/usr/bin/env python3
"""record.py KUBE_URL TOKEN [repaired]: record what a kube-apiserver decides; the files beside this one and src/auth/authz/bootstrap/objects.jsonl.

The server runs with --authorization-mode=Node,RBAC and --disable-admission-plugins=ServiceAccount on an empty etcd, without a controller-manager; TOKEN
belongs to system:masters. Needs nothing but Python. The random objects and questions are the same each time. A line of

  objects.jsonl   an object that was made: RBAC beyond the bootstrap objects, pods, volumes and what else says which node may read what
  reviews.jsonl   a SubjectAccessReview: its spec, and the status
  rules.jsonl     a SelfSubjectRulesReview: user, groups, namespace, and the status
  writes.jsonl    a dry run of writing an RBAC object: user, groups, URL's namespace and name, what was stored, what was sent, and code and message
  invalid.jsonl   a dry run of an object that nobody may write, perhaps: kind, what was stored, what was sent, and the message after `is invalid: `
  repairs.jsonl   a bootstrap object that was changed, and what became of it when kube-apiserver was started again. For this file run the script, start
                  kube-apiserver again, and run the script with the word `repaired`.
"""
import json, pathlib, random, ssl, sys, time, urllib.error, urllib.parse, urllib.request

KUBE, TOKEN = sys.argv[1:3]
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
HERE = pathlib.Path(__file__).resolve().parent
BOOTSTRAP = HERE.parents[2] / "src/auth/authz/bootstrap/objects.jsonl"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
KINDS = {"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings"}
RANDOM = random.Random(1363)


def call(method, path, body=None, user=None, groups=()):
    data = None if body is None else json.dumps(body).encode()
    ask = urllib.request.Request(KUBE + path, data, {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}, method=method)
    if user is None:
        try:
            with urllib.request.urlopen(ask, context=TLS) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)
    return impersonated(method, path, data, user, groups)


def impersonated(method, path, data, user, groups):
    """urllib joins equal headers, so that several groups need a connection of one's own."""
    import http.client
    url = urllib.parse.urlparse(KUBE)
    connection = http.client.HTTPSConnection(url.hostname, url.port, context=TLS)
    connection.putrequest(method, path)
    for name, value in [("Authorization", "Bearer " + TOKEN), ("Content-Type", "application/json"), ("Content-Length", str(len(data))), ("Impersonate-User", user.encode())]:
        connection.putheader(name, value)
    for group in groups:
        connection.putheader("Impersonate-Group", group.encode())
    connection.endheaders(data)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def make(path, body):
    code, answer = call("POST", path, body)
    if code not in (201, 409):
        raise SystemExit(f"POST {path}: {code} {answer}")
    return answer


def bare(object, kind):
    """Without what differs each time."""
    metadata = {k: v for k, v in object["metadata"].items() if k not in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")}
    return {"kind": kind, "apiVersion": GROUP + "/v1", **{k: v for k, v in object.items() if k not in ("kind", "apiVersion")}, "metadata": metadata}


def listed(kind):
    code, answer = call("GET", f"{RBAC}/{KINDS[kind]}")
    return [bare(object, kind) for object in answer["items"]]


def write(path, objects):
    path.write_text("".join(json.dumps(object, ensure_ascii=False, separators=(",", ":")) + "\n" for object in objects))
    print(len(objects), path.name)


NAMESPACES = ["default", "team-a", "team-b"]
USERS = ["alice", "bob", "carol", 'o"dd é', "system:serviceaccount:team-a:robot", "system:serviceaccount:default:builder", "system:serviceaccount:team-b:robot"]
GROUPS = ["dev", "ops", "qa", "system:authenticated", "system:serviceaccounts:team-a", "system:monitoring"]
VERBS = ["get", "list", "watch", "create", "update", "delete", "deletecollection", "*"]
API_GROUPS = ["", "apps", "batch", "ex.io", "*"]
RESOURCES = ["pods", "pods/log", "pods/status", "configmaps", "deployments", "deployments/scale", "*/scale", "*/log", "pods/*", "*"]
NAMES = ["a", "b", "c"]
URLS = ["/metrics", "/healthz*", "/logs/*", "/api/*", "/a**", "/version", "*"]


def some(of, most):
    return RANDOM.sample(of, RANDOM.randint(1, min(most, len(of))))


def rare_star(of, most):
    chosen = some(of, most)
    return [c for c in chosen if c != "*"] or chosen if RANDOM.random() < 0.8 else chosen


def rule(namespaced):
    if not namespaced and RANDOM.random() < 0.25:
        return {"verbs": rare_star(["get", "post", "put", "*"], 2), "nonResourceURLs": rare_star(URLS, 3)}
    made = {"verbs": rare_star(VERBS, 4), "apiGroups": rare_star(API_GROUPS, 2), "resources": rare_star(RESOURCES, 3)}
    if RANDOM.random() < 0.3:
        made["resourceNames"] = some(NAMES, 2)
    return made


def subject(namespaced):
    kind = RANDOM.choice(["User", "Group", "ServiceAccount"])
    if kind == "ServiceAccount":
        made = {"kind": kind, "name": RANDOM.choice(["robot", "builder"]), "namespace": RANDOM.choice(NAMESPACES)}
        if namespaced and RANDOM.random() < 0.4:
            del made["namespace"]
        return made
    return {"kind": kind, "apiGroup": GROUP, "name": RANDOM.choice(USERS[:5] if kind == "User" else GROUPS[:3] + GROUPS[4:])}


def make_rbac():
    for i in range(14):
        make(f"{RBAC}/clusterroles", {"metadata": {"name": f"cr-{i}"}, "rules": [rule(False) for _ in range(RANDOM.randint(0, 3))]})
    granter = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
    make(f"{RBAC}/clusterroles", {"metadata": {"name": "granter"}, "rules": [{"verbs": ["create", "get", "update"], "apiGroups": [GROUP], "resources": granter}]})
    make(f"{RBAC}/clusterroles", {"metadata": {"name": "escalator"}, "rules": [{"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["r-0"]},
                                                                              {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["admin", "cr-1"]}]})
    make(f"{RBAC}/clusterroles", {"metadata": {"name": "nearly-everything"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, {"verbs": ["get"], "nonResourceURLs": ["*"]}]})
    make(f"{RBAC}/clusterroles", {"metadata": {"name": "aggregate", "labels": {"team": "a"}}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "x"}}]}, "rules": []})
    for name, role, to in [("granter", "granter", "granters"), ("escalator", "escalator", "escalators"), ("nearly", "nearly-everything", "nearly")]:
        make(f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
                                             "subjects": [{"kind": "Group", "apiGroup": GROUP, "name": to}]})
    for i in range(14):
        role = {"apiGroup": GROUP, "kind": "ClusterRole", "name": f"cr-{RANDOM.randint(0, 16)}"}
        make(f"{RBAC}/clusterrolebindings", {"metadata": {"name": f"crb-{i}"}, "roleRef": role, "subjects": [subject(False) for _ in range(RANDOM.randint(0, 3))]})
    for namespace in NAMESPACES:
        for i in range(6):
            make(f"{RBAC}/namespaces/{namespace}/roles", {"metadata": {"name": f"r-{i}"}, "rules": [rule(True) for _ in range(RANDOM.randint(0, 3))]})
        for i in range(12):
            kind = RANDOM.choice(["Role", "ClusterRole"])
            name = f"r-{RANDOM.randint(0, 7)}" if kind == "Role" else RANDOM.choice([f"cr-{RANDOM.randint(0, 15)}", "system:basic-user", "system:node"])
            make(f"{RBAC}/namespaces/{namespace}/rolebindings", {"metadata": {"name": f"rb-{i}"}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
                                                                 "subjects": [subject(True) for _ in range(RANDOM.randint(0, 4))]})


def pod(name, node, namespace="default", annotations=None, status=None, **spec):
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    made = make(f"/api/v1/namespaces/{namespace}/pods", {"metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec}})
    if status:
        code, answer = call("PUT", f"/api/v1/namespaces/{namespace}/pods/{name}/status", {**made, "status": {**made["status"], **status}})
        assert code == 200, answer


CONTAINER = {"image": "i", "envFrom": [{"secretRef": {"name": "s-from"}}, {"configMapRef": {"name": "c-from"}}],
             "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s-key", "key": "k"}}}, {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c-key", "key": "k"}}}]}
VOLUMES = [
    {"name": "v0", "secret": {"secretName": "s-volume"}}, {"name": "v1", "configMap": {"name": "c-volume"}},
    {"name": "v2", "projected": {"sources": [{"secret": {"name": "s-projected"}}, {"configMap": {"name": "c-projected"}}]}},
    {"name": "v3", "persistentVolumeClaim": {"claimName": "claim"}},
    {"name": "v4", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
    {"name": "v5", "azureFile": {"secretName": "s-azure", "shareName": "s"}}, {"name": "v6", "cephfs": {"monitors": ["m"], "secretRef": {"name": "s-ceph"}}},
    {"name": "v7", "cinder": {"volumeID": "v", "secretRef": {"name": "s-cinder"}}}, {"name": "v8", "flexVolume": {"driver": "d/d", "secretRef": {"name": "s-flex"}}},
    {"name": "v9", "rbd": {"monitors": ["m"], "image": "i", "secretRef": {"name": "s-rbd"}}},
    {"name": "v10", "scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s-scale"}}},
    {"name": "v11", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:a", "lun": 0, "secretRef": {"name": "s-iscsi"}}},
    {"name": "v12", "storageos": {"volumeName": "v", "secretRef": {"name": "s-storageos"}}}, {"name": "v13", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s-csi"}}},
]


def volume(name, source, claim="claim"):
    make("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source, **({"claimRef": {"namespace": "default", "name": claim}} if claim else {})}})


def make_nodes():
    pod("full", "n1", serviceAccountName="runner", imagePullSecrets=[{"name": "s-pull"}], volumes=VOLUMES,
        containers=[{"name": "c", **CONTAINER}], initContainers=[{"name": "i", "image": "i", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s-init", "key": "k"}}}]}],
        resourceClaims=[{"name": "direct", "resourceClaimName": "rc-direct"}, {"name": "made", "resourceClaimTemplateName": "t"}, {"name": "unmade", "resourceClaimTemplateName": "t"}],
        status={"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "rc-made"}]})
    pod("other", "n2", volumes=[{"name": "v", "secret": {"secretName": "s-other"}}, {"name": "w", "persistentVolumeClaim": {"claimName": "claim-2"}}])
    pod("mirror", "n1", annotations={"kubernetes.io/config.mirror": "x"})
    pod("waiting", "", volumes=[{"name": "v", "secret": {"secretName": "s-waiting"}}])
    secret = {"secretRef": {"name": "ps", "namespace": "stores"}}
    csi = {name + "SecretRef": {"name": "p-" + name.lower(), "namespace": "stores"} for name in ("controllerPublish", "controllerExpand", "nodePublish", "nodeStage", "nodeExpand")}
    volume("pv-csi", {"csi": {"driver": "d", "volumeHandle": "h", **csi}})
    volume("pv-azure", {"azureFile": {"secretName": "p-azure", "shareName": "s", "secretNamespace": "stores"}})
    volume("pv-azure-bare", {"azureFile": {"secretName": "p-azure-bare", "shareName": "s"}})
    volume("pv-ceph", {"cephfs": {"monitors": ["m"], "secretRef": {"name": "p-ceph"}}})
    volume("pv-rbd", {"rbd": {"monitors": ["m"], "image": "i", "secretRef": {"name": "p-rbd", "namespace": "stores"}}}, "claim-2")
    volume("pv-flex", {"flexVolume": {"driver": "d/d", "secretRef": {"name": "p-flex", "namespace": "stores"}}}, "full-v4")
    volume("pv-cinder", {"cinder": {"volumeID": "v", "secretRef": {"name": "p-cinder", "namespace": "stores"}}})
    volume("pv-scale", {"scaleIO": {"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "p-scale"}}})
    volume("pv-iscsi", {"iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:a", "lun": 0, "secretRef": {"name": "p-iscsi"}}})
    volume("pv-free", {"csi": {"driver": "d", "volumeHandle": "h2", "nodePublishSecretRef": {"name": "p-free", "namespace": "stores"}}}, None)
    for node in ("n1", "n2"):
        make("/apis/storage.k8s.io/v1/volumeattachments", {"metadata": {"name": "va-" + node}, "spec": {"attacher": "a", "nodeName": node, "source": {"persistentVolumeName": "pv-csi"}}})
        make("/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": "slice-" + node}, "spec": {
            "driver": "d.io", "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "nodeName": node, "devices": []}})


def objects():
    before = {line for line in BOOTSTRAP.read_text().splitlines()}
    made = [o for kind in KINDS for o in listed(kind) if json.dumps(o, ensure_ascii=False, separators=(",", ":")) not in before]
    for kind, path in [("Pod", "/api/v1/pods"), ("PersistentVolume", "/api/v1/persistentvolumes"), ("VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments"),
                       ("ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices")]:
        for object in call("GET", path)[1]["items"]:
            object["metadata"] = {k: v for k, v in object["metadata"].items() if k not in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")}
            made.append({"kind": kind, **{k: v for k, v in object.items() if k in ("metadata", "spec")}, "status": {k: v for k, v in object.get("status", {}).items() if "Claim" in k}})
    return made


def asks():
    for _ in range(300):
        spec = {"user": RANDOM.choice(USERS), "groups": some(GROUPS, 3)}
        if RANDOM.random() < 0.2:
            path = RANDOM.choice(["/metrics", "/healthz", "/healthz/ping", "/logs/", "/logs/x", "/api/v1", "/abc", "/a", "/version", "/livez", "/"])
            spec["nonResourceAttributes"] = {"path": path, "verb": RANDOM.choice(["get", "post"])}
        else:
            resource, _, sub = RANDOM.choice(["pods", "pods/log", "pods/status", "configmaps", "deployments", "deployments/scale", "nodes", "selfsubjectrulesreviews"]).partition("/")
            group = {"deployments": "apps", "selfsubjectrulesreviews": "authorization.k8s.io"}.get(resource, RANDOM.choice(["", "", "apps", "ex.io"]))
            spec["resourceAttributes"] = {"verb": RANDOM.choice(VERBS[:7]), "group": group, "resource": resource, "subresource": sub,
                                          "namespace": RANDOM.choice(NAMESPACES + [""]), "name": RANDOM.choice(NAMES + ["", ""])}
        yield spec
    yield {"user": "x", "groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}
    yield {"user": "x", "nonResourceAttributes": {"path": "/x", "verb": "get"}}
    yield from node_asks()


def node_asks():
    def ask(verb, resource, name="", namespace="default", node="n1", groups=("system:nodes", "system:authenticated"), **more):
        gr, _, sub = resource.partition("/")
        plain, _, group = gr.partition(".")
        return {"user": "system:node:" + node, "groups": list(groups),
                "resourceAttributes": {"verb": verb, "group": group, "resource": plain, "subresource": sub, "namespace": namespace, "name": name, **more}}
    secrets = ["pull", "from", "key", "init", "volume", "projected", "azure", "ceph", "cinder", "flex", "rbd", "scale", "iscsi", "storageos", "csi", "other", "waiting"]
    for name in secrets:
        yield ask("get", "secrets", "s-" + name)
    for name in ["from", "key", "volume", "projected", "other"]:
        yield ask(RANDOM.choice(["get", "list", "watch"]), "configmaps", "c-" + name)
    for name in ["controllerpublish", "controllerexpand", "nodepublish", "nodestage", "nodeexpand", "azure", "azure-bare", "ceph", "rbd", "flex", "cinder", "scale", "iscsi", "free"]:
        for namespace in ("stores", "default"):
            yield ask("get", "secrets", "p-" + name, namespace)
    for name in ["csi", "azure", "ceph", "rbd", "flex", "free", "none"]:
        yield ask("get", "persistentvolumes", "pv-" + name, "")
    for claim in ["claim", "claim-2", "full-v4", "other-v4"]:
        yield ask("get", "persistentvolumeclaims", claim)
    for claim in ["rc-direct", "rc-made", "rc-none"]:
        yield ask("get", "resourceclaims.resource.k8s.io", claim)
    for node in ["n1", "n2", "n3", ""]:
        for verb, resource, name, namespace in [
                ("get", "secrets", "s-pull", "default"), ("get", "pods", "full", "default"), ("get", "volumeattachments.storage.k8s.io", "va-n1", ""), ("get", "nodes", "n1", ""),
                ("get", "nodes", "", ""), ("update", "nodes", "n1", ""), ("patch", "nodes/status", "n1", ""), ("delete", "nodes", "n1", ""), ("get", "nodes/status", "n1", ""),
                ("get", "leases.coordination.k8s.io", "n1", "kube-node-lease"), ("get", "resourceslices.resource.k8s.io", "slice-n1", ""), ("get", "serviceaccounts", "runner", "default")]:
            yield ask(verb, resource, name, namespace, node)
    for verb in ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]:
        for resource, name, namespace in [
                ("secrets", "s-pull", "default"), ("secrets", "", "default"), ("secrets", "s-pull", ""), ("secrets/x", "s-pull", "default"), ("configmaps", "c-key", "default"),
                ("persistentvolumeclaims", "claim", "default"), ("persistentvolumeclaims/status", "claim", "default"), ("persistentvolumes", "pv-csi", ""), ("persistentvolumes/status", "pv-csi", ""),
                ("resourceclaims.resource.k8s.io", "rc-direct", "default"), ("serviceaccounts", "runner", "default"), ("serviceaccounts/token", "runner", "default"),
                ("serviceaccounts/token", "nobody", "default"), ("serviceaccounts/token", "", "default"), ("serviceaccounts", "runner", ""), ("leases.coordination.k8s.io", "n1", "kube-node-lease"),
                ("leases.coordination.k8s.io", "n2", "kube-node-lease"), ("leases.coordination.k8s.io", "n1", "default"), ("csinodes.storage.k8s.io", "n1", ""),
                ("csinodes.storage.k8s.io", "n2", ""), ("csinodes.storage.k8s.io/x", "n1", ""), ("resourceslices.resource.k8s.io", "slice-n1", ""), ("resourceslices.resource.k8s.io", "slice-n2", ""),
                ("resourceslices.resource.k8s.io/x", "slice-n1", ""), ("nodes", "n1", ""), ("nodes", "n2", ""), ("nodes/proxy", "n1", ""), ("pods", "full", "default"), ("pods", "other", "default"),
                ("pods", "mirror", "default"), ("pods", "waiting", "default"), ("pods", "", ""), ("pods/status", "full", "default"), ("pods/eviction", "full", "default"), ("pods/exec", "full", "default"),
                ("podcertificaterequests.certificates.k8s.io", "x", "default"), ("services", "", ""), ("events", "x", "default"), ("certificatesigningrequests.certificates.k8s.io", "x", "")]:
            yield ask(verb, resource, name, namespace)
    for resource, field in [("pods", "spec.nodeName"), ("resourceslices.resource.k8s.io", "spec.nodeName"), ("pods", "metadata.namespace"), ("podcertificaterequests.certificates.k8s.io", "spec.nodeName")]:
        for verb in ("list", "watch", "deletecollection"):
            for raw in (f"{field}=n1", f"{field}==n1", f"{field}!=n1", f"{field}=n2", f"x=y,{field}=n1"):
                yield ask(verb, resource, "", "", fieldSelector={"rawSelector": raw})
    for groups in [(), ("system:authenticated",), ("system:nodes",)]:
        yield ask("get", "secrets", "s-pull", groups=groups)
    yield {"user": "system:node:n1", "groups": ["system:nodes"], "nonResourceAttributes": {"path": "/healthz", "verb": "get"}}


def reviews():
    for spec in asks():
        code, answer = call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        assert code == 201, answer
        yield {"spec": spec, "status": answer["status"]}


def rules():
    who = [(user, some(GROUPS, 2)) for user in USERS for _ in range(2)] + [("system:node:n1", ["system:nodes"]), ("x", ["system:masters"]), ("system:node:", ["system:nodes", "dev"])]
    for user, groups in who:
        for namespace in NAMESPACES:
            code, answer = call("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": namespace}}, user, groups + ["system:authenticated"])
            assert code == 201, answer
            yield {"user": user, "groups": groups + ["system:authenticated"], "namespace": namespace, "status": answer["status"]}


def path_of(kind, namespace, name=""):
    return RBAC + (f"/namespaces/{namespace}" if namespace else "") + "/" + KINDS[kind] + ("/" + name if name else "") + "?dryRun=All"


def writes():
    def write(kind, object, namespace="", name="", stored=None, user="alice", groups=("granters", "dev")):
        groups = list(groups) + ["system:authenticated"]
        object = {"kind": kind, "apiVersion": GROUP + "/v1", **object}
        code, answer = call("PUT" if name else "POST", path_of(kind, namespace, name), object, user, groups)
        said = {k: answer[k] for k in ("message", "reason") if k in answer} if answer["kind"] == "Status" else {}
        return {"user": user, "groups": groups, "kind": kind, "namespace": namespace, "name": name, "stored": stored, "object": object, "code": code, **said}

    def ref(kind, name, **more):
        return {"apiGroup": GROUP, "kind": kind, "name": name, **more}

    who = [(user, ["granters", *some(GROUPS, 2)]) for user in USERS]
    for i in range(40):
        user, groups = RANDOM.choice(who)
        namespace = RANDOM.choice(["", *NAMESPACES])
        object = {"metadata": {"name": f"new-{i}"}, "rules": [rule(bool(namespace)) for _ in range(RANDOM.randint(0, 3))]}
        yield write("Role" if namespace else "ClusterRole", object, namespace, user=user, groups=groups)
    for i in range(40):
        user, groups = RANDOM.choice(who)
        namespace = RANDOM.choice(["", *NAMESPACES])
        role = ref("Role", f"r-{RANDOM.randint(0, 7)}") if namespace and RANDOM.random() < 0.6 else ref("ClusterRole", f"cr-{RANDOM.randint(0, 15)}")
        yield write("RoleBinding" if namespace else "ClusterRoleBinding", {"metadata": {"name": f"new-{i}"}, "roleRef": role}, namespace, user=user, groups=groups)
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    for groups in [("granters",), ("granters", "nearly"), ("granters", "escalators"), ("system:masters",)]:
        for rules in [everything, [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "nodes/log"]}, {"verbs": ["get", "post"], "nonResourceURLs": ["/x", "/y*"]}], [], None]:
            yield write("ClusterRole", {"metadata": {"name": "new"}, "rules": rules}, groups=groups)
        yield write("ClusterRole", {"metadata": {"name": "new"}, "rules": [], "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}, groups=groups)
        for kind, name in [("ClusterRole", "admin"), ("ClusterRole", "cr-1"), ("ClusterRole", "cluster-admin"), ("ClusterRole", "missing"), ("Role", "r-0"), ("Role", "missing"), ("Other", "x"), ("ClusterRole", ""), ("ClusterRole", "a/b"), ("Role", "%")]:
            yield write("ClusterRoleBinding", {"metadata": {"name": "new"}, "roleRef": ref(kind, name)}, groups=groups)
            yield write("RoleBinding", {"metadata": {"name": "new"}, "roleRef": ref(kind, name)}, "default", groups=groups)
        yield write("RoleBinding", {"metadata": {"name": "new"}, "roleRef": ref("ClusterRole", "admin", apiGroup="ex.io")}, "default", groups=groups)
        for kind, namespace, name in [("Role", "default", "r-0"), ("Role", "default", "r-1"), ("ClusterRole", "", "nearly-everything"), ("ClusterRole", "", "aggregate"),
                                      ("ClusterRoleBinding", "", "nearly"), ("RoleBinding", "default", "rb-3")]:
            stored = call("GET", path_of(kind, namespace, name).split("?")[0])[1]
            metadata = stored["metadata"]
            for changed in [stored, {**stored, "metadata": {**metadata, "finalizers": ["ex.io/f"], "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
                            {**stored, "metadata": {**metadata, "labels": {"l": "m"}}}]:
                yield write(kind, changed, namespace, name, stored, groups=groups)
        yield write("Role", {"metadata": {"name": "made"}, "rules": everything}, "default", "made", groups=groups)


def invalid():
    """Objects that an administrator may not write either."""
    def sent(kind, object, namespace="", name="", stored=None):
        object = {"kind": kind, "apiVersion": GROUP + "/v1", "metadata": {"name": name or "new"}, **object}
        code, answer = call("PUT" if name else "POST", path_of(kind, namespace, name), object)
        assert code in (200, 201, 422), answer
        message = answer["message"].split(" is invalid: ", 1)[1] if code == 422 else ""
        return {"kind": kind, "stored": stored, "object": object, "message": message}

    texts = [[], ["a"], ["a", "*"]]
    for namespace in ("", "default"):
        role = "Role" if namespace else "ClusterRole"
        for verbs in texts[:2]:
            for groups in texts[:2]:
                for resources in texts:
                    for urls in texts[::2]:
                        yield sent(role, {"rules": [{"verbs": verbs, "apiGroups": groups, "resources": resources, "nonResourceURLs": urls}]}, namespace)
        yield sent(role, {"rules": [{}, {"verbs": ["get"], "resourceNames": ["x"], "nonResourceURLs": ["/<\""]}, {"verbs": None}]}, namespace)
        binding = role + "Binding"
        good = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"}
        for change in [{"apiGroup": "x"}, {"apiGroup": ""}, {"kind": ""}, {"kind": "Role"}, {"kind": 'role"<'}, {"name": ""}, {"name": "."}, {"name": ".."}, {"name": "a/b%"}, {"name": "Ä b:c"}, {"kind": "x", "name": "", "apiGroup": "y"}]:
            yield sent(binding, {"roleRef": {**good, **change}}, namespace)
        yield sent(binding, {}, namespace)
        for kind in ["User", "Group", "ServiceAccount", "", "Robot"]:
            for subject in [{"name": ""}, {"name": "jane"}, {"name": "Jane D"}, {"name": "a.b", "namespace": "x"}, {"name": "jane", "apiGroup": "x"}, {"name": "jane", "apiGroup": GROUP, "namespace": "y"}, {}, {"name": "x" * 254, "namespace": "Y_"}]:
                yield sent(binding, {"roleRef": good, "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "x"}, {"kind": kind, **subject}]}, namespace)
        name = "rb-3" if namespace else "granter"
        stored = call("GET", path_of(binding, namespace, name))[1]
        for change in [{"name": "other"}, {"kind": "Role"}, {"apiGroup": "x"}, {}]:
            yield sent(binding, {"roleRef": {**stored["roleRef"], **change}}, namespace, name, stored)
        yield sent(binding, {"roleRef": stored["roleRef"], "subjects": [{"kind": "Group"}]}, namespace, name, stored)
    selectors = [[], [{}], [{"matchLabels": {"a": "b"}}], [{"matchLabels": {"a b": "c", "b": "-", "_": "x" * 64}}]]
    for key, operator, values in [("k", "In", ["x"]), ("k", "In", []), ("k", "NotIn", None), ("k", "Exists", ["x"]), ("k", "DoesNotExist", ["x"]), ("k", "in", ["x"]), ("", "Exists", []), ("a/b/c", "In", ["x y", "z", "-"]), ("UP/x", "", [])]:
        selectors.append([{"matchLabels": {"x": "y"}}, {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values is not None else {})}]}])
    for selector in selectors:
        yield sent("ClusterRole", {"aggregationRule": {"clusterRoleSelectors": selector}})
    yield sent("ClusterRole", {"aggregationRule": {}, "rules": [{}]})
    stored = call("GET", path_of("ClusterRole", "", "aggregate"))[1]
    for selector in selectors[3:5]:
        yield sent("ClusterRole", {"aggregationRule": {"clusterRoleSelectors": selector}}, "", "aggregate", stored)


def damages():
    """Kind, namespace, name and what is changed of it; None deletes it."""
    def metadata(**members):
        return lambda o: o["metadata"].update(members)

    def body(**members):
        return lambda o: o.update(members)

    def role(o):
        o["roleRef"]["name"] = "view"

    def both(*changes):
        return lambda o: [change(o) for change in changes]

    def first_resource(o):
        o["rules"][0]["resources"].pop(0)

    star = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    other = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    jane = {"kind": "User", "apiGroup": GROUP, "name": "jane"}
    protected = metadata(annotations={"rbac.authorization.kubernetes.io/autoupdate": "false"})
    return [
        ("ClusterRole", "", "system:basic-user", first_resource), ("ClusterRole", "", "admin", body(aggregationRule=None, rules=[star])),
        ("ClusterRole", "", "edit", body(aggregationRule=other)), ("ClusterRole", "", "view", metadata(labels={"l": "m"})),
        ("ClusterRole", "", "system:discovery", both(protected, body(rules=[]))), ("ClusterRole", "", "system:node-proxier", metadata(labels={}, annotations={})),
        ("ClusterRole", "", "system:monitoring", both(metadata(labels={"kubernetes.io/bootstrapping": "x"}), lambda o: o["rules"].append(star))),
        ("ClusterRole", "", "system:kube-dns", body(aggregationRule=other)), ("ClusterRole", "", "cluster-admin", body(rules=[star])),
        ("ClusterRole", "", "system:volume-scheduler", body(rules=[star])), ("ClusterRole", "", "system:heapster", None),
        ("ClusterRoleBinding", "", "system:discovery", body(subjects=[])), ("ClusterRoleBinding", "", "system:basic-user", both(metadata(labels={}), lambda o: o["subjects"].append(jane))),
        ("ClusterRoleBinding", "", "system:node-proxier", both(role, metadata(labels={"l": "m"}))), ("ClusterRoleBinding", "", "system:kube-dns", both(role, protected)),
        ("ClusterRoleBinding", "", "system:monitoring", None),
        ("Role", "kube-system", "extension-apiserver-authentication-reader", body(rules=[])), ("Role", "kube-system", "system:controller:token-cleaner", body(rules=[star])),
        ("RoleBinding", "kube-public", "system:controller:bootstrap-signer", body(subjects=[jane])), ("RoleBinding", "kube-system", "system:controller:token-cleaner", None),
    ]


def damage():
    for kind, namespace, name, change in damages():
        path = path_of(kind, namespace, name).split("?")[0]
        object = call("GET", path)[1]
        before = None
        if change is not None:
            ref = json.dumps(object.get("roleRef"))
            change(object)
            if json.dumps(object.get("roleRef")) != ref:
                call("DELETE", path)
                del object["metadata"]["resourceVersion"], object["metadata"]["uid"]
                code, answer = call("POST", path.rsplit("/", 1)[0], object)
            else:
                code, answer = call("PUT", path, object)
            assert code < 300, answer
            before = bare(answer, kind)
        else:
            call("DELETE", path)
        yield {"kind": kind, "namespace": namespace, "name": name, "before": before}


def repaired():
    for line in (HERE / "repairs.jsonl").read_text().splitlines():
        case = json.loads(line)
        code, object = call("GET", path_of(case["kind"], case["namespace"], case["name"]).split("?")[0])
        assert code == 200, object
        yield {**case, "after": bare(object, case["kind"])}


def main():
    if sys.argv[3:] == ["repaired"]:
        return write(HERE / "repairs.jsonl", list(repaired()))
    bootstrap = [o for kind in KINDS for o in listed(kind)]
    if not any(o["metadata"]["name"] == "granter" for o in bootstrap):
        write(BOOTSTRAP, bootstrap)
    for namespace in NAMESPACES[1:]:
        make("/api/v1/namespaces", {"metadata": {"name": namespace}})
    make_rbac()
    make_nodes()
    time.sleep(3)
    write(HERE / "objects.jsonl", objects())
    write(HERE / "reviews.jsonl", list(reviews()))
    write(HERE / "rules.jsonl", list(rules()))
    write(HERE / "writes.jsonl", list(writes()))
    write(HERE / "invalid.jsonl", list(invalid()))
    write(HERE / "repairs.jsonl", list(damage()))


main()
