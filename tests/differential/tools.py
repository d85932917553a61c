#!/usr/bin/env python3
"""kubectl's and Helm's server-side apply, and `kubectl explain`, on watchcache and on a kube-apiserver: what both tools print must be the same, and what is stored.

    tests/differential/run.sh PEERS watchcache tests/differential/tools.py --kubectl PEERS/kubectl --helm PEERS/helm
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
import time

NAMESPACE = "tools"
EXPLAINED = """configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims persistentvolumes pods podtemplates replicationcontrollers
    resourcequotas secrets serviceaccounts services mutatingwebhookconfigurations validatingwebhookconfigurations validatingadmissionpolicies customresourcedefinitions apiservices
    controllerrevisions daemonsets deployments replicasets statefulsets tokenreviews subjectaccessreviews horizontalpodautoscalers cronjobs jobs certificatesigningrequests leases
    endpointslices flowschemas prioritylevelconfigurations ingressclasses ingresses networkpolicies runtimeclasses poddisruptionbudgets roles rolebindings clusterroles
    priorityclasses csidrivers csinodes storageclasses volumeattachments""".split()


def manifest(replicas=2, image="nginx:1", more=True):
    labels = {"app": "web", "of": "tools"}
    container = {"name": "web", "image": image, "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "1"}]}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": labels}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}}
    configs = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{nth}", "labels": {"of": "tools"}}, "data": {"k": image}} for nth in range(3 if more else 1)]
    return {"apiVersion": "v1", "kind": "List", "items": [deployment, *configs]}


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: tried\nversion: 0.1.0\n",
    "values.yaml": "image: nginx:1\nextra: true\n",
    "templates/all.yaml": """apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}, labels: {app: tried}}
data: {image: {{ .Values.image }}, a: "1"}
---
{{ if .Values.extra }}
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}}
stringData: {password: x}
---
{{ end }}
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  selector: {matchLabels: {app: tried}}
  template: {metadata: {labels: {app: tried}}, spec: {containers: [{name: c, image: {{ .Values.image }}}]}}
""",
}


class Side:
    """A server, and what the tools said of it."""

    def __init__(self, url, options, directory):
        self.options, self.directory, self.said = options, directory, []
        os.makedirs(f"{directory}/home")
        self.kubeconfig = f"{directory}/kubeconfig"
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
                  "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": os.path.abspath(options.ca)}}],
                  "users": [{"name": "u", "user": {"token": options.token}}]}
        self.write("kubeconfig", config)

    def write(self, name, content):
        path = f"{self.directory}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def run(self, *command, counts=True):
        environment = {"PATH": os.environ["PATH"], "HOME": f"{self.directory}/home", "KUBECONFIG": self.kubeconfig}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        told = f"{' '.join(os.path.basename(word) for word in command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
        told = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( [+-]\d{4} UTC)?Z?|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}|\b\d+m?s\b", "TIME", told)
        if counts:
            self.said.append(told)
        return done

    def kubectl(self, *arguments, counts=True):
        return self.run(self.options.kubectl, *arguments, counts=counts)

    def stored(self, resource, name):
        """Notes an object, without what differs from server to server."""
        object = json.loads(self.kubectl("get", resource, name, "-o", "json", "--show-managed-fields", counts=False).stdout)
        for member in ("uid", "resourceVersion", "creationTimestamp"):
            object["metadata"].pop(member, None)
        entries = object["metadata"].get("managedFields", [])
        for entry in entries:
            entry.pop("time", None)
        entries.sort(key=lambda entry: (entry["manager"], entry["operation"], entry.get("subresource", "")))
        self.said.append(f"{resource}/{name} {json.dumps(object, sort_keys=True)}")

    def apply(self, *flags, **content):
        return self.kubectl("apply", "--server-side", "-f", self.write("manifest.json", manifest(**content)), *flags)

    def kubectls(self):
        self.kubectl("create", "namespace", NAMESPACE)
        self.apply()
        self.stored("deployment", "web")
        self.apply(replicas=3)
        self.kubectl("scale", "deployment", "web", "--replicas=5")
        self.apply(replicas=2)
        self.apply("--field-manager=other", image="nginx:2", replicas=5)
        self.apply("--field-manager=other", "--force-conflicts", image="nginx:2", replicas=5)
        self.stored("deployment", "web")
        self.apply("--dry-run=server", "--force-conflicts", image="nginx:3")
        self.kubectl("diff", "--server-side", "--force-conflicts", "-f", self.write("manifest.json", manifest(image="nginx:2", replicas=5)))
        self.apply("--prune", "-l", "of=tools", "--prune-allowlist=core/v1/ConfigMap", "--force-conflicts", image="nginx:2", replicas=5, more=False)
        self.kubectl("get", "configmaps", "-l", "of=tools", "-o", "name")
        # What an older kubectl applied, and a newer one takes over.
        self.kubectl("apply", "-f", self.write("old.json", manifest(more=False)["items"][1] | {"metadata": {"name": "old"}}))
        self.kubectl("apply", "--server-side", "-f", self.write("old.json", manifest(image="nginx:9", more=False)["items"][1] | {"metadata": {"name": "old"}}))
        self.stored("configmap", "old")
        self.kubectl("label", "configmap", "old", "a=b")
        self.kubectl("annotate", "configmap", "old", "a=b", "--overwrite")
        self.kubectl("set", "image", "deployment/web", "web=nginx:7")
        self.stored("configmap", "old")
        self.stored("deployment", "web")

    def helms(self):
        for name, content in CHART.items():
            self.write(f"chart/{name}", content)
        helm = lambda *arguments: self.run(self.options.helm, *arguments, "--namespace", NAMESPACE)
        chart = f"{self.directory}/chart"
        helm("install", "tried", chart, "--server-side=true")
        self.stored("deployment", "tried")
        helm("upgrade", "tried", chart, "--server-side=true", "--set", "image=nginx:2,extra=false")
        self.stored("configmap", "tried")
        self.kubectl("get", "secrets", "tried", "-o", "name")
        self.kubectl("patch", "configmap", "tried", "--type=merge", "-p", '{"data":{"a":"2"}}')
        helm("upgrade", "tried", chart, "--server-side=true", "--set", "image=nginx:3")
        helm("upgrade", "tried", chart, "--server-side=true", "--set", "image=nginx:3", "--force-conflicts")
        self.stored("configmap", "tried")
        helm("rollback", "tried", "1", "--server-side=true", "--force-conflicts")
        self.stored("deployment", "tried")
        helm("uninstall", "tried")
        self.kubectl("get", "configmaps", "tried", "-o", "name")

    def explains(self):
        for kind in EXPLAINED:
            self.kubectl("explain", kind)
            self.kubectl("explain", kind, "--recursive")
        self.kubectl("explain", "pods.spec.containers.resources")
        self.kubectl("explain", "deployments.spec.strategy.rollingUpdate", "--output=plaintext-openapiv2")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("ours", "theirs", "ca", "token", "known", "kubectl", "helm"):
        arguments.add_argument(f"--{flag}")
    options = arguments.parse_args()
    options.kubectl, options.helm = (os.path.abspath(path) if path else path for path in (options.kubectl, options.helm))
    with tempfile.TemporaryDirectory() as directory:
        sides = [Side(url, options, f"{directory}/{name}") for name, url in (("ours", options.ours), ("theirs", options.theirs))]
        for side in sides:
            began = time.time()
            side.kubectls()
            side.helms()
            side.explains()
            side.said = [said.replace(side.directory, "DIR").replace(options.ours, "URL").replace(options.theirs, "URL") for said in side.said]
            print(f"{len(side.said)} outputs in {time.time() - began:.0f} s")
        differ = 0
        for ours, theirs in zip(sides[0].said, sides[1].said):
            if ours != theirs:
                differ += 1
                lines = set(theirs.splitlines()) ^ set(ours.splitlines())
                print(f"differs: {ours.splitlines()[0]}\n" + "\n".join(f"  {'ours  ' if line in ours else 'theirs'} {line[:1500]}" for line in sorted(lines)[:12]))
        print(f"{len(sides[1].said)} outputs compared, {differ} differ")
        return int(differ > 0 or len(sides[0].said) != len(sides[1].said))


if __name__ == "__main__":
    raise SystemExit(main())
