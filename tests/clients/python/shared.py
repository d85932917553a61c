"""What the checks in Python share: each prints a line, and a failed one makes the exit status 1."""

import pathlib
import sys
import time

PATCHES = [
    ("application/json-patch+json", [{"op": "add", "path": "/data/json", "value": "json"}], "json"),
    ("application/merge-patch+json", {"data": {"merge": "merge"}}, "merge"),
    ("application/strategic-merge-patch+json", {"data": {"strategic": "strategic"}}, "strategic"),
]
PROGRAM = pathlib.Path(sys.argv[0]).stem
failed = []


def check(name, held):
    """Anything but True is a failure."""
    print(f"ok: {PROGRAM}: {name}" if held is True else f"FAILED: {PROGRAM}: {name}: {held}", flush=True)
    if held is not True:
        failed.append(name)


def finish():
    sys.exit(1 if failed else 0)


def object_of(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def wait_for(question, passing=()):
    """The first answer that is true, within 20 seconds; else the last one. Errors of the kind `passing` are answers too."""
    answer, until = None, time.monotonic() + 20
    while not answer and time.monotonic() < until:
        try:
            answer = question()
        except passing as error:
            print(f"not yet: {error!r}"[:100], file=sys.stderr)
        if not answer:
            time.sleep(0.1)
    return answer


def definition_of(group):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"things.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}}


def custom_resource(group, create):
    create(definition_of(group))
    return group, "v1", "things"
