"""checks.py KUBECONFIG: the official client `kubernetes`, one line for each check, exit status 1 when one fails."""

import logging
import sys
import threading
import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.informer import SharedInformer

from shared import PATCHES, check, custom_resource, finish, object_of, wait_for

NAME, NAMESPACE = "python", "default"


def objects(core):
    core.create_namespaced_config_map(NAMESPACE, object_of(NAME, a="1"))
    for kind, body, key in PATCHES:
        patched = core.patch_namespaced_config_map(NAME, NAMESPACE, body, _content_type=kind)
        check(f"patch ({kind})", patched.data.get(key) == key)
    patched.data["replaced"] = "yes"
    check("replace", core.replace_namespaced_config_map(NAME, NAMESPACE, patched).data["replaced"] == "yes")
    patched.data["late"] = "yes"
    try:
        core.replace_namespaced_config_map(NAME, NAMESPACE, patched)
        check("a conflict", False)
    except ApiException as error:
        check("a conflict", error.status == 409)
    check("a list", NAME in [it.metadata.name for it in core.list_namespaced_config_map(NAMESPACE).items])
    pages, following = [], None
    while following != "":
        page = core.list_namespace(limit=2, _continue=following)
        pages, following = pages + [it.metadata.name for it in page.items], page.metadata._continue or ""
    check("pages", sorted(pages) == ["default", "kube-node-lease", "kube-public", "kube-system"])
    core.delete_namespaced_config_map(NAME, NAMESPACE)
    check("delete", NAME not in [it.metadata.name for it in core.list_namespaced_config_map(NAMESPACE).items])


def watches(core):
    seen, revision = [], core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, object_of("watched"))
    stream = watch.Watch()
    for event in stream.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=revision, timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name))
        revision = event["object"].metadata.resource_version
        stream.stop()
    check("a watch", seen == [("ADDED", "watched")])
    core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"a": "b"}})
    core.delete_namespaced_config_map("watched", NAMESPACE)
    seen = [event["type"] for event in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=revision, timeout_seconds=1)]
    check("a watch resumes", seen == ["MODIFIED", "DELETED"])
    try:
        for _ in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version="1", timeout_seconds=5):
            pass
        check("410 of a watch that comes too late", False)
    except ApiException as error:
        check("410 of a watch that comes too late", error.status == 410)


def informer(core):
    seen, there = [], threading.Event()
    informer = SharedInformer(core.list_namespaced_config_map, namespace=NAMESPACE)
    for kind in ["ADDED", "MODIFIED", "DELETED"]:
        informer.add_event_handler(kind, lambda it, kind=kind: it.metadata.name == "informed" and (seen.append(kind), there.set()))
    informer.start()
    time.sleep(0.5)
    core.create_namespaced_config_map(NAMESPACE, object_of("informed"))
    core.patch_namespaced_config_map("informed", NAMESPACE, {"data": {"a": "b"}})
    check("an informer's cache", wait_for(lambda: [it.data for it in informer.cache.list() if it.metadata.name == "informed"] == [{"a": "b"}]))
    core.delete_namespaced_config_map("informed", NAMESPACE)
    check("an informer's events", wait_for(lambda: seen == ["ADDED", "MODIFIED", "DELETED"]) or seen)
    # It ends its own connection, and logs that.
    logging.disable(logging.ERROR)
    informer.stop()
    logging.disable(logging.NOTSET)


def custom(api):
    group, version, plural = custom_resource("python.example", lambda body: client.ApiextensionsV1Api(api).create_custom_resource_definition(body))
    resources = client.CustomObjectsApi(api)
    body = {"apiVersion": f"{group}/{version}", "kind": "Thing", "metadata": {"name": NAME}, "spec": {"size": 1}}
    made = wait_for(lambda: resources.create_namespaced_custom_object(group, version, NAMESPACE, plural, body), ApiException)
    check("a custom resource", made and made["spec"] == {"size": 1})
    patched = resources.patch_namespaced_custom_object(group, version, NAMESPACE, plural, NAME, {"spec": {"size": 2}})
    check("a patch of it", patched["spec"] == {"size": 2})
    status = resources.patch_namespaced_custom_object_status(group, version, NAMESPACE, plural, NAME, {"status": {"seen": True}})
    check("a patch of its status", status["status"] == {"seen": True} and status["spec"] == {"size": 2})
    resources.delete_namespaced_custom_object(group, version, NAMESPACE, plural, NAME)
    check("its list", resources.list_namespaced_custom_object(group, version, NAMESPACE, plural)["items"] == [])


def main():
    config.load_kube_config(sys.argv[1])
    with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        check("the version", client.VersionApi(api).get_code().minor == "36")
        check("the groups", "apps" in [group.name for group in client.ApisApi(api).get_api_versions().groups])
        objects(core)
        watches(core)
        informer(core)
        custom(api)
    finish()


main()
