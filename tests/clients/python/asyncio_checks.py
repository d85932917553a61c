"""asyncio_checks.py KUBECONFIG: the client `kubernetes_asyncio`, one line for each check, exit status 1 when one fails."""

import asyncio
import sys

from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException

from shared import PATCHES, check, finish, object_of

NAME, NAMESPACE = "asyncio", "default"


async def main():
    await config.load_kube_config(sys.argv[1])
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        revision = (await core.list_namespaced_config_map(NAMESPACE)).metadata.resource_version
        await core.create_namespaced_config_map(NAMESPACE, object_of(NAME, a="1"))
        for kind, body, key in PATCHES:
            patched = await core.patch_namespaced_config_map(NAME, NAMESPACE, body, _content_type=kind)
            check(f"patch ({kind})", patched.data.get(key) == key)
        seen = []
        async with watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=revision, timeout_seconds=20) as stream:
            async for event in stream:
                seen.append(event["type"])
                revision = event["object"].metadata.resource_version
                if len(seen) == 2:
                    break
        check("a watch", seen == ["ADDED", "MODIFIED"])
        await core.delete_namespaced_config_map(NAME, NAMESPACE)
        seen = []
        async with watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=revision, timeout_seconds=1) as stream:
            async for event in stream:
                seen.append(event["type"])
        check("a watch resumes", seen == ["MODIFIED", "MODIFIED", "DELETED"])
        try:
            async with watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version="1", timeout_seconds=5) as stream:
                async for event in stream:
                    pass
            check("410 of a watch that comes too late", False)
        except ApiException as error:
            check("410 of a watch that comes too late", error.status == 410)
        names = [it.metadata.name for it in (await core.list_namespaced_config_map(NAMESPACE)).items]
        check("delete", NAME not in names)
    finish()


asyncio.run(main())
