#!/usr/bin/env python3
"""Records what the clients of a small cluster do: the mixture that `compare --only mixture` replays.

    record.py --peers DIR --to FOLDER [--seconds 330] [--base-port 38950]

DIR has what tests/peers/build.sh makes of etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubemark and kubectl. Starts them as tests/replica/cluster.py does, with two hollow nodes, on a
kube-apiserver alone, which writes an audit log. A client makes, scales, lists and deletes Deployments with kubectl meanwhile. Writes

    FOLDER/requests.tsv   who, verb, form, how often each minute (of watches: how many are open), path. Of a kubelet's requests those of one; {node}, {name}, {namespace} stand for any
    FOLDER/objects.jsonl  of each collection that was asked for: how many objects it has, and one of them

Needs openssl.
"""

import argparse
import collections
import datetime
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "replica"))
sys.dont_write_bytecode = True
import cluster

# Parts of a query that are not kept. So a list that came in pages is asked for whole.
LEFT_OUT = ("timeoutSeconds", "timeout", "limit", "continue", "fieldManager", "fieldValidation")
# Members that a server gives an object, or that would keep one like it from being made.
OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink", "generateName", "finalizers")


def client(event):
    """Who asks, and in which form: the audit log does not tell `Accept`, but these clients always ask for the same."""
    user, program = event["user"]["username"], event.get("userAgent", "")
    if user.startswith("system:node:"):
        return "kubelet", "protobuf"
    if user == "system:kube-scheduler":
        return "scheduler", "protobuf"
    if program.startswith("kube-controller-manager"):
        return "controller-manager", "metadata" if "metadata-informers" in program or "garbage-collector" in program else "protobuf"
    if program.startswith("kubectl"):
        return "kubectl", "json"
    return None, None


def path_of(who, event):
    """The path of a read, without what is another in each of its kind."""
    about = event["objectRef"]
    name, namespace, own_node = about.get("name"), about.get("namespace"), who == "kubelet" and about.get("name") in cluster.NODES
    query = [pair for pair in event["requestURI"].partition("?")[2].split("&") if pair and pair.split("=")[0] not in LEFT_OUT]
    query = ["resourceVersion={revision}" if pair.startswith("resourceVersion=") and pair != "resourceVersion=0" else pair for pair in query]
    for node in cluster.NODES:
        query = [pair.replace(node, "{node}") for pair in query]
    placeholder = "{node}" if own_node else "{name}"
    # A list or watch of one object names it in its selector.
    is_one_of_list = bool(name) and any(pair.startswith("fieldSelector=") for pair in query)
    if is_one_of_list:
        query = [f"fieldSelector=metadata.name%3D{placeholder}" if pair.startswith("fieldSelector=") else pair for pair in query]
    path = base(about)
    if namespace:
        path += "/namespaces/{namespace}" if name else f"/namespaces/{namespace}"
    path += f"/{about['resource']}"
    if name and not is_one_of_list:
        path += f"/{placeholder}"
    return "?".join(filter(None, [path, "&".join(sorted(query))]))


def base(about):
    return f"/apis/{about['apiGroup']}/{about['apiVersion']}" if about.get("apiGroup") else "/api/v1"


def seconds(stamp):
    return datetime.datetime.fromisoformat(stamp).timestamp()


def summed(events, began, ended):
    """The lines of requests.tsv, and the collections that were asked for."""
    lasting, nodes = ended - began, len(cluster.NODES)
    closed = {event["auditID"]: seconds(event["stageTimestamp"]) for event in events if event["verb"] == "watch" and event["stage"] == "ResponseComplete"}
    reads, writes, asked_for = collections.Counter(), collections.Counter(), set()
    for event in events:
        who, form = client(event)
        about, verb, at = event.get("objectRef", {}), event["verb"], seconds(event["requestReceivedTimestamp"])
        is_told_twice = verb == "watch" and event["stage"] == "ResponseComplete"
        if who is None or is_told_twice or "resource" not in about or about["resource"].endswith("reviews") or about.get("subresource") == "token" or event["responseStatus"]["code"] >= 400:
            continue
        # Events have two groups, and are the same objects.
        collection = "/api/v1/events" if about["resource"] == "events" else f"{base(about)}/{about['resource']}"
        asked_for.add(collection)
        line = (who, verb, form, path_of(who, event)) if verb in ("get", "list", "watch") else None
        if verb == "watch":
            reads[line] += max(0, min(closed.get(event["auditID"], ended), ended) - max(at, began)) / lasting
        elif not began <= at <= ended:
            continue
        elif line:
            reads[line] += 60 / lasting
        else:
            writes["change" if verb in ("update", "patch") or about.get("subresource") else verb, collection] += 60 / lasting
    each = {line: count / (nodes if line[0] == "kubelet" else 1) for line, count in reads.items()}
    # A watch that was open for less than half of the time is one that had just ended, or one of a command.
    lines = [f"{who}\t{verb}\t{form}\t{count:.3f}\t{path}" for (who, verb, form, path), count in sorted(each.items()) if verb != "watch" or count >= 0.5]
    lines += [f"all\t{verb}\t-\t{count:.3f}\t{collection}" for (verb, collection), count in sorted(writes.items())]
    return lines, sorted(asked_for)


def sample(place, collection):
    """How many objects a collection has, and one as somebody would send it to make one like it; None if it has none."""
    answer = place.request(place.direct, collection)
    listed = json.load(answer)
    if answer.status != 200 or not listed["items"]:
        return None
    # Those of the control plane itself are others than most.
    usual_namespace = "kube-node-lease" if collection.endswith("/leases") else "default"
    usual = [item for item in listed["items"] if item["metadata"].get("namespace", usual_namespace) == usual_namespace]
    one = (usual or listed["items"])[-1]
    one.update(apiVersion=listed["apiVersion"], kind=listed["kind"].removesuffix("List"), metadata={name: value for name, value in one["metadata"].items() if name not in OWN})
    return {"collection": collection, "count": len(listed["items"]), "object": one}


def play(place, lasting):
    """Deployments come and go. With their Pods and events they are six of ten writes."""
    until, rounds, standing = time.time() + lasting, 0, []
    while time.time() < until:
        name = f"d-{rounds}"
        place.kubectl("create", "deployment", name, "--image=registry.invalid/i:1", "--replicas=4")
        place.kubectl("rollout", "status", "deployment", name, "--timeout=60s")
        place.kubectl("get", "pods", "--all-namespaces")
        place.kubectl("scale", "deployment", name, "--replicas=2")
        place.kubectl("get", "deployments,nodes")
        standing.append(name)
        if len(standing) > 20:
            place.kubectl("delete", "deployment", standing.pop(0))
        rounds += 1
        time.sleep(25)
    if place.failed_commands:
        raise SystemExit(f"FAILED: {place.failed_commands}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("--peers", "--to"):
        arguments.add_argument(flag, required=True, type=os.path.abspath)
    arguments.add_argument("--seconds", type=int, default=330)
    arguments.add_argument("--base-port", type=int, default=38950)
    options = arguments.parse_args()
    os.makedirs(options.to, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", "omitStages": ["RequestReceived"]}]}
        with open("policy.json", "w") as file:
            json.dump(policy, file)
        place = cluster.Cluster(argparse.Namespace(peers=options.peers, watchcache=None, on="kube-apiserver", base_port=options.base_port,
                                                   kube_apiserver_arg=["--audit-policy-file=policy.json", "--audit-log-path=audit.log"]))
        try:
            began = time.time()
            play(place, options.seconds)
            ended = time.time()
            with open("audit.log") as log:
                lines, asked_for = summed([json.loads(line) for line in log], began, ended)
            samples = filter(None, (sample(place, collection) for collection in asked_for))
            with open(os.path.join(options.to, "requests.tsv"), "w") as out:
                out.writelines(f"{line}\n" for line in lines)
            with open(os.path.join(options.to, "objects.jsonl"), "w") as out:
                out.writelines(json.dumps(one, separators=(",", ":")) + "\n" for one in samples)
        finally:
            place.stop()
            os.chdir("/")


if __name__ == "__main__":
    main()
