"""What a test of a program that speaks to Kubernetes looks like."""

import kubernetes
import pytest


def test_what_is_made_is_there(api, namespace):
    core = kubernetes.client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"key": "1"}})
    assert core.read_namespaced_config_map("a", namespace).data == {"key": "1"}


def test_each_test_has_a_namespace_of_its_own(api, namespace):
    core = kubernetes.client.CoreV1Api(api)
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.read_namespaced_config_map("a", namespace)
    assert refused.value.status == 404


def test_a_watch_sees_changes(api, namespace):
    core = kubernetes.client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
    revision = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.delete_namespaced_config_map("a", namespace)
    watch = kubernetes.watch.Watch()
    for event in watch.stream(core.list_namespaced_config_map, namespace, resource_version=revision, timeout_seconds=30):
        if event["object"].metadata.name == "a":
            assert event["type"] == "DELETED"
            watch.stop()
            return
    pytest.fail("the watch has not seen the deletion")
