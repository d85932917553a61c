"""A fixture for pytest: `api` is a client of a watchcache in memory, started once for all tests; each test has a namespace of its own."""

import os
import subprocess
import time
import uuid

import kubernetes
import pytest


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory):
    """Starts the program that WATCHCACHE names, or `watchcache` on the path; the path of an administrator's kubeconfig."""
    directory = tmp_path_factory.mktemp("watchcache")
    ready, path = directory / "ready", directory / "kubeconfig"
    command = [os.environ.get("WATCHCACHE", "watchcache"), "serve", "--data-dir=:memory:", "--insecure-port=0", "--bind-address=127.0.0.1",
               "--secure-port=auto", f"--write-admin-kubeconfig={path}", f"--port-file={ready}"]
    with open(directory / "log", "w") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert server.poll() is None and time.monotonic() < deadline, (directory / "log").read_text()
            time.sleep(0.01)
        yield str(path)
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.fixture(scope="session")
def api(kubeconfig):
    with kubernetes.config.new_client_from_config(kubeconfig) as client:
        yield client


@pytest.fixture
def namespace(api):
    """The name of a namespace that is deleted after the test."""
    core = kubernetes.client.CoreV1Api(api)
    name = f"test-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)
