#!/usr/bin/env python3
"""record.py KUBE_URL TOKEN: record created.jsonl beside this file from a live kube-apiserver.

A line: the collection, what was sent with POST ?dryRun=All, what was answered (without managedFields). Runs with --disable-admission-plugins
ServiceAccount. Needs nothing but Python.
"""
import json, pathlib, ssl, sys, urllib.error, urllib.request

KUBE, TOKEN = sys.argv[1:3]
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
NS = "default"
CASES = []


def case(collection, kind, **members):
    """`collection` is `v1/pods` or `apps/v1/deployments`; its namespace comes by itself unless it begins with `/`."""
    cluster, path = collection.startswith("/"), collection.strip("/").split("/")
    root = "/api/v1" if len(path) == 2 else "/apis/" + "/".join(path[:2])
    name = members.pop("name", "a%d" % len(CASES))
    metadata = {"name": name, **members.pop("metadata", {})}
    body = {"apiVersion": "/".join(path[:-1]), "kind": kind, "metadata": metadata, **members}
    CASES.append((root + ("" if cluster else "/namespaces/" + NS) + "/" + path[-1], body))


C = {"name": "c", "image": "i"}
HTTP = {"httpGet": {"port": 80}}
RICH = {
    "initContainers": [{"name": "i", "image": "r.io/i:v1", "ports": [{"containerPort": 1}], "startupProbe": {"grpc": {"port": 3}}, "restartPolicy": "Always",
                        "resources": {"limits": {"cpu": "1.5"}}}],
    "containers": [
        {"name": "a", "image": "a:latest", "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
         "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "V"},
                 {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
         "resources": {"limits": {"cpu": "0.5", "memory": "100u"}, "requests": {"memory": "10u"}},
         "livenessProbe": HTTP, "readinessProbe": {"tcpSocket": {"port": "x"}, "periodSeconds": 3},
         "lifecycle": {"postStart": HTTP, "preStop": {"httpGet": {"port": 80, "path": "x", "scheme": "HTTPS"}}}},
        {"name": "b", "image": "x/b@sha256:" + "0a" * 32, "terminationMessagePolicy": "FallbackToLogsOnError"},
        {"name": "d", "image": "localhost:5000/d", "imagePullPolicy": "Never"},
        {"name": "e", "image": "e:1", "resources": {"limits": {"memory": "1Gi"}}},
    ],
    "volumes": [
        {"name": "none"}, {"name": "host", "hostPath": {"path": "/x"}}, {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "map", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
        {"name": "iscsi", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2026-01.io.x:y", "lun": 0}},
        {"name": "rbd", "rbd": {"monitors": ["m"], "image": "i"}},
        {"name": "down", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "azure", "azureDisk": {"diskName": "d", "diskURI": "https://x/blob.vhd"}},
        {"name": "all", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "m"}},
            {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.uid"}}]}}]}},
        {"name": "scale", "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s"}, "volumeName": "v"}},
        {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500u"}}}}}},
        {"name": "empty", "emptyDir": {"sizeLimit": "1.5Gi"}}, {"name": "image", "image": {"reference": "i:1"}},
        {"name": "latest", "image": {"reference": "i"}},
    ],
}
L = {"app": "x"}
SELECT = {"selector": {"matchLabels": L}}


def template(spec=None, **more):
    return {"template": {"metadata": {"labels": L}, "spec": {"containers": [C], **more} if spec is None else {**spec, **more}}}


for kind, path in [("Deployment", "apps/v1/deployments"), ("ReplicaSet", "apps/v1/replicasets"), ("StatefulSet", "apps/v1/statefulsets"), ("DaemonSet", "apps/v1/daemonsets")]:
    case(path, kind, spec={**SELECT, **template()})
    rich = {**RICH, "hostNetwork": True}
    rich["containers"] = [dict(c, ports=[dict(p, hostPort=p["containerPort"]) for p in c.get("ports", [])]) for c in RICH["containers"]]
    rich["initContainers"] = [dict(c, ports=[dict(p, hostPort=p["containerPort"]) for p in c.get("ports", [])]) for c in RICH["initContainers"]]
    case(path, kind, spec={**SELECT, **template(rich)})
case("apps/v1/deployments", "Deployment", spec={**SELECT, **template(), "replicas": 0, "strategy": {"type": "Recreate"}})
case("apps/v1/deployments", "Deployment", spec={**SELECT, **template(), "strategy": {"rollingUpdate": {"maxSurge": 3}}, "revisionHistoryLimit": 0})
case("apps/v1/daemonsets", "DaemonSet", spec={**SELECT, **template(), "updateStrategy": {"type": "OnDelete"}})
case("apps/v1/daemonsets", "DaemonSet", spec={**SELECT, **template(), "updateStrategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}},
     metadata={"annotations": {"a": "b"}})
case("apps/v1/statefulsets", "StatefulSet", spec={**SELECT, **template(), "updateStrategy": {"type": "OnDelete"}})
case("apps/v1/statefulsets", "StatefulSet", spec={**SELECT, **template(), "updateStrategy": {"type": "RollingUpdate"}})
case("apps/v1/statefulsets", "StatefulSet", spec={**SELECT, **template(), "serviceName": "s", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {}},
     "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
     "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]})
case("apps/v1/controllerrevisions", "ControllerRevision", revision=1, data={"x": 1})
case("v1/pods", "Pod", spec={"containers": [C]})
case("v1/pods", "Pod", spec={**RICH, "serviceAccountName": "default"})
case("v1/pods", "Pod", spec={"hostNetwork": True, "enableServiceLinks": False, "containers": [dict(C, ports=[{"containerPort": 80}])], "schedulerName": "s",
     "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "dnsPolicy": "Default", "securityContext": {"runAsUser": 1}})
for resources in [{"limits": {"cpu": "1", "memory": "1Gi"}}, {"requests": {"cpu": "1"}}, {"limits": {"cpu": "0.5", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                  {"limits": {"cpu": "0"}}, {"limits": {"ephemeral-storage": "1Gi"}}, {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}]:
    case("v1/pods", "Pod", spec={"containers": [dict(C, resources=resources)]})
case("v1/pods", "Pod", spec={"containers": [C], "schedulingGates": [{"name": "g.io/x"}]})
case("v1/podtemplates", "PodTemplate", **template())
case("v1/podtemplates", "PodTemplate", **template(RICH))
case("v1/replicationcontrollers", "ReplicationController", spec=template())
case("v1/replicationcontrollers", "ReplicationController", spec={**template(RICH), "selector": L, "replicas": 0}, metadata={"labels": {"own": "l"}})
JOB = template(restartPolicy="Never")
case("batch/v1/jobs", "Job", spec=JOB)
case("batch/v1/jobs", "Job", spec={"template": {"spec": JOB["template"]["spec"]}}, metadata={"labels": {"own": "l"}})
case("batch/v1/jobs", "Job", spec={**JOB, "parallelism": 2})
case("batch/v1/jobs", "Job", spec={**JOB, "completions": 2})
case("batch/v1/jobs", "Job", spec={**JOB, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1})
case("batch/v1/jobs", "Job", spec={**JOB, "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}})
case("batch/v1/jobs", "Job", spec={**JOB, "manualSelector": True, **SELECT, "suspend": True})
case("batch/v1/cronjobs", "CronJob", spec={"schedule": "* * * * *", "jobTemplate": {"spec": JOB}})
case("batch/v1/cronjobs", "CronJob", spec={"schedule": "* * * * *", "suspend": True, "failedJobsHistoryLimit": 0, "concurrencyPolicy": "Forbid",
     "jobTemplate": {"spec": template(RICH, restartPolicy="OnFailure")}})
P = [{"port": 80}]
case("v1/services", "Service", spec={"ports": P})
case("v1/services", "Service", spec={"ports": [{"name": "a", "port": 80, "targetPort": "x"}, {"name": "b", "port": 81, "targetPort": 0, "protocol": "UDP"}], "clusterIP": "None", "selector": L})
case("v1/services", "Service", spec={"type": "NodePort", "ports": P, "sessionAffinity": "ClientIP"})
case("v1/services", "Service", spec={"type": "LoadBalancer", "ports": P, "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}})
case("v1/services", "Service", spec={"type": "ExternalName", "externalName": "x.y"})
case("v1/services", "Service", spec={"ports": P, "externalIPs": ["1.2.3.4"], "sessionAffinityConfig": {}})
case("v1/endpoints", "Endpoints", subsets=[{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"name": "t", "port": 80}, {"name": "u", "port": 53, "protocol": "UDP"}]}])
case("v1/endpoints", "Endpoints")
case("discovery.k8s.io/v1/endpointslices", "EndpointSlice", addressType="IPv4", endpoints=[{"addresses": ["10.1.2.3"]}], ports=[{"port": 80}, {"name": "u", "protocol": "UDP", "port": 53}])
case("v1/secrets", "Secret")
case("v1/secrets", "Secret", type="ex.io/t", stringData={"a": "b"})
case("v1/configmaps", "ConfigMap", data={})
case("v1/configmaps", "ConfigMap", data={"a": "b"}, binaryData={"b": "AA=="})
case("v1/serviceaccounts", "ServiceAccount")
case("v1/serviceaccounts", "ServiceAccount", secrets=[{"name": "s"}], automountServiceAccountToken=False)
case("v1/limitranges", "LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "100u", "memory": "1Mi"}, "defaultRequest": {"cpu": "1"}},
     {"type": "Pod", "max": {"cpu": "8"}}]})
case("v1/limitranges", "LimitRange", spec={"limits": [{"type": "Container"}, {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]})
case("v1/resourcequotas", "ResourceQuota", spec={"hard": {"cpu": "1500u", "pods": "10"}})
case("/v1/namespaces", "Namespace")
case("/v1/namespaces", "Namespace", spec={"finalizers": ["ex.io/f"]})
case("/v1/nodes", "Node")
case("/v1/nodes", "Node", status={"capacity": {"cpu": "4", "memory": "8Gi"}})
case("/v1/nodes", "Node", status={"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3500u"}})
PV = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
case("/v1/persistentvolumes", "PersistentVolume", spec={**PV, "hostPath": {"path": "/x"}})
case("/v1/persistentvolumes", "PersistentVolume", spec={**PV, "rbd": {"monitors": ["m"], "image": "i"}, "persistentVolumeReclaimPolicy": "Delete", "volumeMode": "Block"})
case("/v1/persistentvolumes", "PersistentVolume", spec={**PV, "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2026-01.io.x:y", "lun": 0}})
case("/v1/persistentvolumes", "PersistentVolume", spec={**PV, "azureDisk": {"diskName": "d", "diskURI": "https://x/blob.vhd"}})
case("/v1/persistentvolumes", "PersistentVolume", spec={**PV, "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "s", "namespace": "n"}, "volumeName": "v"}})
PVC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
case("v1/persistentvolumeclaims", "PersistentVolumeClaim", spec=PVC)
case("v1/persistentvolumeclaims", "PersistentVolumeClaim", spec={**PVC, "volumeMode": "Block", "dataSource": {"kind": "PersistentVolumeClaim", "name": "o"}})
case("v1/persistentvolumeclaims", "PersistentVolumeClaim", spec={**PVC, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "o"}})
case("/storage.k8s.io/v1/storageclasses", "StorageClass", provisioner="p.io/x")
case("/storage.k8s.io/v1/storageclasses", "StorageClass", provisioner="p.io/x", reclaimPolicy="Retain", volumeBindingMode="WaitForFirstConsumer")
case("/storage.k8s.io/v1/csidrivers", "CSIDriver", spec={})
case("/storage.k8s.io/v1/csidrivers", "CSIDriver", spec={"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"], "fsGroupPolicy": "None", "seLinuxMount": True})
case("/storage.k8s.io/v1/csinodes", "CSINode", spec={"drivers": [{"name": "d", "nodeID": "n"}]})
case("storage.k8s.io/v1/csistoragecapacities", "CSIStorageCapacity", storageClassName="s", capacity="1500u")
case("/storage.k8s.io/v1/volumeattachments", "VolumeAttachment", spec={"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}})
case("/storage.k8s.io/v1/volumeattachments", "VolumeAttachment", spec={"attacher": "a", "nodeName": "n", "source": {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}}}})
case("/storage.k8s.io/v1/volumeattributesclasses", "VolumeAttributesClass", driverName="d.io", parameters={"a": "b"})
case("networking.k8s.io/v1/ingresses", "Ingress", spec={"rules": [{"http": {"paths": [{"pathType": "Prefix", "path": "/", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]})
case("/networking.k8s.io/v1/ingressclasses", "IngressClass", spec={"controller": "c.io/x", "parameters": {"kind": "K", "name": "n", "apiGroup": "g.io"}})
case("/networking.k8s.io/v1/ingressclasses", "IngressClass", spec={"controller": "c.io/x"})
case("networking.k8s.io/v1/networkpolicies", "NetworkPolicy", spec={"podSelector": {}})
case("networking.k8s.io/v1/networkpolicies", "NetworkPolicy", spec={"podSelector": {}, "egress": [{"ports": [{"port": 80}, {"protocol": "UDP"}]}], "ingress": [{"ports": [{}]}]})
case("networking.k8s.io/v1/networkpolicies", "NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Egress"], "egress": []})
case("/networking.k8s.io/v1/servicecidrs", "ServiceCIDR", spec={"cidrs": ["10.9.0.0/24"]})
case("/networking.k8s.io/v1/ipaddresses", "IPAddress", name="10.9.0.1", spec={"parentRef": {"resource": "services", "namespace": "n", "name": "s"}})
TARGET = {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3}
case("autoscaling/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler", spec=TARGET)
case("autoscaling/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler", spec={**TARGET, "minReplicas": 2, "behavior": {}})
case("autoscaling/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler", spec={**TARGET, "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]},
     "scaleDown": {"selectPolicy": "Disabled"}}, "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}]})
case("autoscaling/v1/horizontalpodautoscalers", "HorizontalPodAutoscaler", spec=TARGET)
case("autoscaling/v1/horizontalpodautoscalers", "HorizontalPodAutoscaler", spec={**TARGET, "minReplicas": 2, "targetCPUUtilizationPercentage": 50})
case("policy/v1/poddisruptionbudgets", "PodDisruptionBudget", spec={"minAvailable": 1, **SELECT})
ROLE = {"kind": "Role", "name": "r"}
SUBJECTS = [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]
case("rbac.authorization.k8s.io/v1/rolebindings", "RoleBinding", roleRef=ROLE, subjects=SUBJECTS)
case("rbac.authorization.k8s.io/v1/rolebindings", "RoleBinding", roleRef={**ROLE, "apiGroup": "rbac.authorization.k8s.io"})
case("/rbac.authorization.k8s.io/v1/clusterrolebindings", "ClusterRoleBinding", roleRef={"kind": "ClusterRole", "name": "r"}, subjects=SUBJECTS)
case("rbac.authorization.k8s.io/v1/roles", "Role", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])
case("/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRole")
HOOK = {"name": "h.ex.io", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": ["ex.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["foos"]}]}
SET = {"failurePolicy": "Ignore", "matchPolicy": "Exact", "timeoutSeconds": 3, "objectSelector": {"matchLabels": L}}
for kind, plural in [("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"), ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations")]:
    case("/admissionregistration.k8s.io/v1/" + plural, kind, webhooks=[HOOK, {**HOOK, **SET, "name": "i.ex.io", "clientConfig": {"url": "https://x.y"}}])
    case("/admissionregistration.k8s.io/v1/" + plural, kind)
MATCH = {"resourceRules": [{"apiGroups": ["ex.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["foos"]}]}
case("/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec={"validations": [{"expression": "true"}], "matchConstraints": MATCH})
case("/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
     spec={"policyName": "p", "validationActions": ["Deny"], "matchResources": {**MATCH, "excludeResourceRules": MATCH["resourceRules"]}})
case("/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", spec={"policyName": "p", "validationActions": ["Deny"]})
case("/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", "MutatingAdmissionPolicy", spec={"matchConstraints": MATCH, "reinvocationPolicy": "Never",
     "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/x', value: 1}]"}}]})
case("/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", spec={"policyName": "p", "matchResources": {}})
case("/apiregistration.k8s.io/v1/apiservices", "APIService", name="v1.ex.io", spec={"group": "ex.io", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
     "service": {"name": "s", "namespace": "n"}, "insecureSkipTLSVerify": True})
FLOW = {"priorityLevelConfiguration": {"name": "exempt"}}
case("/flowcontrol.apiserver.k8s.io/v1/flowschemas", "FlowSchema", spec=FLOW)
case("/flowcontrol.apiserver.k8s.io/v1/flowschemas", "FlowSchema", spec={**FLOW, "matchingPrecedence": 5, "distinguisherMethod": {"type": "ByUser"}})
LEVEL = "/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
case(LEVEL, "PriorityLevelConfiguration", spec={"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}})
case(LEVEL, "PriorityLevelConfiguration", spec={"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Queue", "queuing": {"queues": 9}}}})
case(LEVEL, "PriorityLevelConfiguration", spec={"type": "Limited", "limited": {"lendablePercent": 3, "limitResponse": {"type": "Queue", "queuing": {"handSize": 1}}}})
case("/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", value=5)
case("/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", value=5, preemptionPolicy="Never")
case("/node.k8s.io/v1/runtimeclasses", "RuntimeClass", handler="h", overhead={"podFixed": {"cpu": "100m"}})
case("coordination.k8s.io/v1/leases", "Lease", spec={"holderIdentity": "h"})
case("events.k8s.io/v1/events", "Event", eventTime="2026-01-01T00:00:00.000000Z", reason="R", action="A", type="Normal", reportingController="c.io/x", reportingInstance="i",
     regarding={"kind": "Pod", "namespace": NS, "name": "p"})
case("v1/events", "Event", involvedObject={"kind": "Pod", "namespace": NS, "name": "p"})
REQUEST = {"name": "r", "exactly": {"deviceClassName": "c"}}
DEVICES = {"devices": {"requests": [REQUEST, {"name": "s", "exactly": {"deviceClassName": "c", "allocationMode": "All", "tolerations": [{"key": "k", "value": "v"}]}},
    {"name": "t", "firstAvailable": [{"name": "u", "deviceClassName": "c"}, {"name": "v", "deviceClassName": "c", "count": 2}]}]}}
case("resource.k8s.io/v1/resourceclaims", "ResourceClaim", spec=DEVICES)
case("resource.k8s.io/v1/resourceclaimtemplates", "ResourceClaimTemplate", spec={"spec": DEVICES})
case("/resource.k8s.io/v1/deviceclasses", "DeviceClass", spec={})
case("/resource.k8s.io/v1/resourceslices", "ResourceSlice", spec={"driver": "d.io", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
     "devices": [{"name": "d", "capacity": {"m": {"value": "1Gi"}}}]})


def post(path, body):
    ask = urllib.request.Request(KUBE + path + "?dryRun=All", json.dumps(body).encode(), {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
    with urllib.request.urlopen(ask, context=TLS) as answer:
        return json.load(answer)


def main():
    lines, refused = [], 0
    for path, body in CASES:
        try:
            got = post(path, body)
        except urllib.error.HTTPError as e:
            print("refused:", path, e.read().decode()[:600], file=sys.stderr)
            refused += 1
            continue
        got["metadata"].pop("managedFields", None)
        lines.append(json.dumps({"path": path, "sent": body, "got": got}, separators=(",", ":"), sort_keys=True))
    pathlib.Path(__file__).with_name("created.jsonl").write_text("\n".join(lines) + "\n")
    print(len(lines), "recorded,", refused, "refused")


main()
