#!/usr/bin/env python3
"""record.py KUBE_URL TOKEN: record objects.json beside this file from a live kube-apiserver, without what no two servers have in common.

Its flags are --advertise-address=192.0.2.7 --secure-port=6443 --service-cluster-ip-range=10.0.0.0/24. Needs nothing but Python.
"""
import json, pathlib, ssl, sys, time, urllib.error, urllib.request

KUBE, TOKEN = sys.argv[1:3]
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
PLACES = ["/api/v1/namespaces/default/services", "/api/v1/namespaces/default/endpoints", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"]


def found(path):
    for _ in range(150):
        try:
            ask = urllib.request.Request(f"{KUBE}{path}/kubernetes", headers={"Authorization": "Bearer " + TOKEN, "Accept": "application/json"})
            it = json.load(urllib.request.urlopen(ask, context=TLS))
            for own in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
                it["metadata"].pop(own, None)
            return it
        except urllib.error.HTTPError:
            time.sleep(0.2)
    raise SystemExit(f"{path}: it did not come")


rows = ",\n".join(json.dumps(found(path), separators=(",", ":")) for path in PLACES)
(pathlib.Path(__file__).parent / "objects.json").write_text("[\n" + rows + "\n]\n")
