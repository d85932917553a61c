"""fresh.py SERVER AUTHORITY TOKEN CACHE: the official client `kubernetes` finds out from discovery what a Namespace is, without anything in the file CACHE, and prints the names of all."""

import sys

from kubernetes import client, dynamic

server, authority, token, cache = sys.argv[1:]
configuration = client.Configuration()
configuration.host, configuration.ssl_ca_cert = server, authority
configuration.api_key = {"authorization": f"Bearer {token}"}
found = dynamic.DynamicClient(client.ApiClient(configuration), cache_file=cache)
version = client.VersionApi(found.client).get_code()
for namespace in found.resources.get(api_version="v1", kind="Namespace").get().items:
    print(f"namespace/{namespace.metadata.name} of 1.{version.minor}")
