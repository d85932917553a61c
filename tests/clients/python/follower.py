"""follower.py KUBECONFIG RESTRICTED NAME NAMESPACE: the official client `kubernetes` as a follower of tests/clients/follow.py, which says what is asked and answered."""

import json
import logging
import sys

from kubernetes import client, config, watch
from kubernetes.client import exceptions
from kubernetes.client.rest import ApiException
from kubernetes.informer import SharedInformer

from shared import object_of

KUBECONFIG, RESTRICTED, NAME, NAMESPACE = sys.argv[1:]
informer = None


def say(*words):
    print(*words, flush=True)


def check(what, held):
    """Anything but True is a failure."""
    say(f"ok {what}" if held is True else f"FAILED {what}: {held}")


def refused(what, kind, status, reason, call):
    """Whether the call ends with the client's own exception, which tells the server's Status."""
    try:
        check(what, f"not refused: {call()}")
    except ApiException as error:
        found = (type(error), error.status, json.loads(error.body)["reason"])
        check(what, found == (kind, status, reason) or found)


def answers(core):
    maps = lambda name: object_of(name, a="1")
    found, following = [], None
    while following != "":
        page = core.list_namespaced_config_map(NAMESPACE, limit=700, _continue=following)
        found, following = found + [it.metadata.name for it in page.items], page.metadata._continue or ""
    say("paged", len(found), len(set(found)))

    refused("404", exceptions.NotFoundException, 404, "NotFound", lambda: core.read_namespaced_config_map("missing", NAME))
    stale = core.create_namespaced_config_map(NAME, maps("one"))
    refused("409 of what is there", exceptions.ConflictException, 409, "AlreadyExists", lambda: core.create_namespaced_config_map(NAME, maps("one")))
    core.patch_namespaced_config_map("one", NAME, {"data": {"b": "2"}})
    refused("409 of what has changed", exceptions.ConflictException, 409, "Conflict", lambda: core.replace_namespaced_config_map("one", NAME, stale))
    refused("422", exceptions.UnprocessableEntityException, 422, "Invalid", lambda: core.create_namespaced_config_map(NAME, maps("Not_A_Name")))
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="guarded", namespace=NAME))
    refused("429", ApiException, 429, "TooManyRequests", lambda: core.create_namespaced_pod_eviction("guarded", NAME, eviction))
    if RESTRICTED:
        with config.new_client_from_config(RESTRICTED) as api:
            refused("403", exceptions.ForbiddenException, 403, "Forbidden", lambda: client.CoreV1Api(api).list_namespaced_secret(NAME))

    def apply(manager, value, **options):
        body = object_of("applied", a=value)
        return core.patch_namespaced_config_map("applied", NAME, body, field_manager=manager, _content_type="application/apply-patch+yaml", **options)

    check("an apply", apply("first", "1").data == {"a": "1"})
    refused("409 of an apply", exceptions.ConflictException, 409, "Conflict", lambda: apply("second", "2"))
    check("an apply by force", apply("second", "2", force=True).data == {"a": "2"})


def late(core):
    try:
        for _ in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version="1", timeout_seconds=5):
            pass
        check("410", "the watch began")
    except ApiException as error:
        check("410", error.status == 410 or error)


def follow(core):
    global informer
    informer = SharedInformer(core.list_namespaced_config_map, namespace=NAMESPACE, label_selector=f"follower!={NAME}")
    for kind in ["ADDED", "MODIFIED"]:
        informer.add_event_handler(kind, lambda it: say("put", it.metadata.name, it.metadata.resource_version))
    informer.add_event_handler("DELETED", lambda it: say("gone", it.metadata.name))
    informer.start()


def held(_):
    for it in informer.cache.list():
        say("held", it.metadata.name, it.metadata.resource_version)


# While a server is away the informer tries again without a pause, and logs each time.
logging.disable(logging.CRITICAL)
config.load_kube_config(KUBECONFIG)
with client.ApiClient() as api:
    for line in sys.stdin:
        {"answers": answers, "late": late, "follow": follow, "held": held}[line.strip()](client.CoreV1Api(api))
        say("done")
