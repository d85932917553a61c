"""operator_checks.py KUBECONFIG: an operator made with `kopf` follows a custom resource, and makes objects that belong to it; one line for each check, exit status 1 when one
fails."""

import os
import sys
import threading

# Read when the client is imported, which kopf logs in with.
os.environ["KUBECONFIG"] = sys.argv[1]

import kopf
from kubernetes import client, config
from kubernetes.client.rest import ApiException

from shared import check, custom_resource, finish, wait_for

NAMESPACE, NAME, FINALIZER, OWNED = "default", "kopf", "kopf.example/finalizer", "owned-by-kopf"
GROUP = "kopf.example"
called = []


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = FINALIZER
    settings.posting.enabled = True


@kopf.on.create(GROUP, "v1", "things")
def created(spec, patch, **_):
    called.append(("created", spec["size"]))
    patch.status["size"] = spec["size"]
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OWNED}}
    kopf.adopt(child)
    owned = client.CoreV1Api().create_namespaced_config_map(NAMESPACE, child)
    grandchild = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": OWNED, "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": OWNED, "uid": owned.metadata.uid, "blockOwnerDeletion": True}]}}
    client.CoreV1Api().create_namespaced_secret(NAMESPACE, grandchild)


@kopf.on.update(GROUP, "v1", "things", field="spec.size")
def resized(old, new, patch, **_):
    called.append(("resized", old, new))
    patch.status["size"] = new


@kopf.on.delete(GROUP, "v1", "things")
def deleted(**_):
    called.append(("deleted",))


def operator(ready, stop):
    kopf.run(clusterwide=False, namespaces=[NAMESPACE], standalone=True, ready_flag=ready, stop_flag=stop)


def main():
    config.load_kube_config(sys.argv[1])
    group, version, plural = custom_resource(GROUP, client.ApiextensionsV1Api().create_custom_resource_definition)
    resources = client.CustomObjectsApi()
    place = (group, version, NAMESPACE, plural)
    wait_for(lambda: resources.list_namespaced_custom_object(*place), ApiException)
    ready, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=operator, args=(ready, stop))
    thread.start()
    check("the operator starts", ready.wait(30))
    body = {"apiVersion": f"{group}/{version}", "kind": "Thing", "metadata": {"name": NAME}, "spec": {"size": 1}}
    resources.create_namespaced_custom_object(*place, body)
    there = lambda: resources.get_namespaced_custom_object(*place, NAME)
    check("a handler is called", wait_for(lambda: ("created", 1) in called))
    check("the finalizer is added", wait_for(lambda: there()["metadata"].get("finalizers") == [FINALIZER]))
    check("the status is patched", wait_for(lambda: there().get("status", {}).get("size") == 1))
    resources.patch_namespaced_custom_object(*place, NAME, {"spec": {"size": 2}})
    check("a change is seen", wait_for(lambda: ("resized", 1, 2) in called and there()["status"]["size"] == 2))
    resources.delete_namespaced_custom_object(*place, NAME)
    gone = lambda: resources.list_namespaced_custom_object(*place)["items"] == []
    check("the finalizer is removed, and the object with it", wait_for(lambda: ("deleted",) in called and gone()))
    core = client.CoreV1Api()
    left = lambda items: [item.metadata.name for item in items if item.metadata.name == OWNED]
    check("what belonged to it goes", wait_for(lambda: left(core.list_namespaced_config_map(NAMESPACE).items) == []))
    check("and what belonged to that", wait_for(lambda: left(core.list_namespaced_secret(NAMESPACE).items) == []))
    stop.set()
    thread.join(30)
    check("the operator stops", not thread.is_alive())
    finish()


main()
