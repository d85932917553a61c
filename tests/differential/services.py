#!/usr/bin/env python3
"""Random Services, created, changed and deleted on watchcache and on a kube-apiserver: what both answer, what they store, and which addresses and ports are taken then must be the same.

    tests/differential/run.sh PEERS watchcache tests/differential/services.py [--steps N] [--seed S] [--show N] [--tiny]
    RANGE=10.0.0.0/16,fd00::/108 tests/differential/run.sh …                                       # both families
    RANGE=10.0.0.0/28 NODE_PORTS=30000-30011 tests/differential/run.sh … services.py --tiny        # ranges that become full

A step is one request to both about one of six names: POST, PUT of what is there with changes, merge patch, apply, DELETE, each now and then as a dry run; of random types, with addresses
and ports that are asked for or not. Addresses and ports that are asked for come from the part of the ranges that is given to nobody else; all others are compared as "some address". After
each step the IPAddresses of both are compared, and every few steps whether each port of the pool can be had (by a dry run). Left out are uids, revisions, times, managed fields, and
warnings that watchcache alone gives (`by this server`)."""

import argparse
import copy
import http.client
import ipaddress
import json
import random
import re
import ssl
import sys
import time
from urllib.parse import urlsplit

JSON, MERGE, APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
SERVICES, ADDRESSES = "/api/v1/namespaces/default/services", "/apis/networking.k8s.io/v1/ipaddresses"
NAMES = [f"s{nth}" for nth in range(6)]
POOL4 = [f"10.0.0.{last}" for last in range(2, 8)]
POOL6 = [f"fd00::{last:x}" for last in range(2, 8)]
ODD = ["10.0.0.0", "10.0.255.255", "10.1.0.1", "192.0.2.1", "fd00::", "fd01::1", "010.0.0.2", "::ffff:10.0.0.2", "x", "None", "10.0.0.1"]
PORTS = [30000, 30001, 30002, 30003, 30004]
ODD_PORTS = [80, 29999, 32768, 70000, -1]
TYPES = ["ClusterIP", "ClusterIP", "NodePort", "NodePort", "LoadBalancer", "ExternalName"]
POLICIES = ["SingleStack", "PreferDualStack", "RequireDualStack"]


class Server:
    def __init__(self, name, url, ca, token):
        self.name, self.at, self.token, self.trust, self.client = name, urlsplit(url), token, ssl.create_default_context(cafile=ca), None

    def ask(self, method, path, body=None, media=JSON):
        """Code, body and warnings; tried again once on a new connection."""
        headers = {"User-Agent": "differential/1", "Authorization": f"Bearer {self.token}"} | ({"Content-Type": media} if body is not None else {})
        for _ in range(2):
            try:
                if self.client is None:
                    self.client = http.client.HTTPSConnection(self.at.hostname, self.at.port, context=self.trust, timeout=60)
                self.client.request(method, path, None if body is None else json.dumps(body), headers)
                answer = self.client.getresponse()
                warnings = [text for text in answer.headers.get_all("Warning") or [] if " by this server" not in text]
                return answer.status, json.loads(answer.read()), sorted(warnings)
            except (http.client.HTTPException, OSError):
                self.client = None
        raise SystemExit(f"{self.at.geturl()} does not answer")


def some_address(found):
    """An address that nobody asked for is as good as any other one."""
    text = found.group(0)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    inside = address in ipaddress.ip_network("10.0.0.0/16") or address in ipaddress.ip_network("fd00::/108")
    return text if not inside or text in POOL4 + POOL6 + ODD else f"SOME-V{address.version}"


def plain(value):
    """What must be the same of an answer."""
    if isinstance(value, dict):
        return {name: plain(found) for name, found in value.items() if name not in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp")}
    if isinstance(value, list):
        return [plain(found) for found in value]
    if isinstance(value, str):
        value = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+", "UID", value)
        value = re.sub(r"resourceVersion\"?: ?\"?\d+", "REVISION", value)
        return re.sub(r"[0-9a-fA-F:]*::[0-9a-fA-F:.]*|\d+\.\d+\.\d+\.\d+", some_address, re.sub(r"\b3[01]\d\d\d\b|\b32[0-7]\d\d\b", some_port, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if value in PORTS or not 30000 <= value <= 32767 else "SOME-PORT"
    return value


def some_port(found):
    return found.group(0) if int(found.group(0)) in PORTS + [30000, 32767] else "SOME-PORT"


class Steps:
    """The requests, which depend on the seed alone."""

    def __init__(self, seed, tiny):
        self.random, self.tiny = random.Random(seed), tiny

    def maybe(self, share):
        return self.random.random() < share

    def one(self, *of):
        return self.random.choice(of)

    def address(self):
        return self.one(*ODD) if self.maybe(0.15) else self.one(*POOL4) if self.maybe(0.7) else self.one(*POOL6)

    def port(self, nth):
        port = {"port": self.one(80, 443, 8080) + (nth if self.maybe(0.9) else 0)}
        if nth or self.maybe(0.3):
            port["name"] = f"p{nth}" if self.maybe(0.95) else "p0"
        if self.maybe(0.3):
            port["protocol"] = self.one("TCP", "UDP", "SCTP", "TCP", "X")
        if self.maybe(0.35):
            port["nodePort"] = self.one(*ODD_PORTS) if self.maybe(0.15) else self.one(*PORTS)
        return port

    def addresses(self, spec):
        if self.maybe(0.45):
            spec["clusterIP"] = self.address() if self.maybe(0.8) else "None"
            if self.maybe(0.3):
                spec["clusterIPs"] = [spec["clusterIP"] if self.maybe(0.9) else self.address()] + [self.address() for _ in range(self.one(0, 0, 1, 2))]
        elif self.maybe(0.05):
            spec["clusterIPs"] = [self.address()]
        if self.maybe(0.25):
            spec["ipFamilies"] = self.one(["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"], ["IPv4", "IPv4"], ["x"])
        if self.maybe(0.3):
            spec["ipFamilyPolicy"] = self.one(*POLICIES) if self.maybe(0.95) else "x"

    def more(self, spec):
        if self.maybe(0.3):
            spec["externalTrafficPolicy"] = self.one("Local", "Local", "Cluster", "x") if self.maybe(0.9) else ""
        if self.maybe(0.12):
            spec["healthCheckNodePort"] = self.one(*PORTS, *ODD_PORTS)
        if self.maybe(0.15):
            spec["allocateLoadBalancerNodePorts"] = self.maybe(0.3)
        if self.maybe(0.1):
            spec["sessionAffinity"] = self.one("ClientIP", "None", "x")
        if self.maybe(0.1):
            spec["externalIPs"] = [self.one("192.0.2.9", "127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "x", "fe80::1", "010.0.0.1")]
        if self.maybe(0.08):
            spec["loadBalancerSourceRanges"] = [self.one("10.0.0.0/8", " 192.0.2.0/24 ", "10.0.0.1/8", "x", "010.0.0.0/8", "::ffff:10.0.0.0/104")]
        if self.maybe(0.08):
            spec["loadBalancerClass"] = self.one("x.io/a", "x.io/b", "-")
        if self.maybe(0.08):
            spec["internalTrafficPolicy"] = self.one("Local", "Cluster", "x")
        if self.maybe(0.08):
            spec["trafficDistribution"] = self.one("PreferClose", "PreferSameZone", "PreferSameNode", "x")

    def spec(self):
        kind = self.one(*TYPES)
        spec = {} if kind == "ClusterIP" and self.maybe(0.5) else {"type": kind}
        if self.maybe(0.8):
            spec["selector"] = {"a": self.one("b", "c")} if self.maybe(0.97) else {"a b": "-"}
        if self.maybe(0.93):
            spec["ports"] = [self.port(nth) for nth in range(self.one(1, 1, 2, 3))]
        if kind == "ExternalName" and self.maybe(0.9) or self.maybe(0.02):
            spec["externalName"] = self.one("example.com", "example.com.", "Ex_ample")
        if kind != "ExternalName" or self.maybe(0.2):
            self.addresses(spec)
        self.more(spec)
        return spec

    def change(self):
        """What a patch or a PUT changes: members of the spec, none takes one away."""
        spec = self.spec()
        names = list(spec)
        keep = set(self.random.sample(names, min(len(names), self.one(1, 1, 2, 3))))
        change = {name: value for name, value in spec.items() if name in keep}
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "externalTrafficPolicy", "healthCheckNodePort", "selector"):
            if self.maybe(0.08):
                change[name] = None
        return change

    def step(self):
        """A method, and what it takes."""
        name, dry = self.one(*NAMES), self.maybe(0.15)
        method = self.one("POST", "POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "APPLY", "DELETE", "STATUS")
        if self.tiny:
            method, dry = self.one("POST", "POST", "POST", "DELETE"), False
            return name, method, self.tiny_spec(), dry, self.random.random()
        return name, method, self.spec() if method in ("POST", "APPLY") else self.change(), dry, self.random.random()

    def tiny_spec(self):
        return {"type": "NodePort", "ports": [{"port": 80 + nth, "name": f"p{nth}"} for nth in range(self.one(1, 2, 3))]}


def merged(object, change):
    for name, value in change.items():
        if value is None:
            object.pop(name, None)
        else:
            object[name] = copy.deepcopy(value)
    return object


class Pair:
    def __init__(self, ours, theirs, options):
        self.servers, self.options = (ours, theirs), options
        self.asked = self.differ = self.leaks = 0
        self.codes = {}

    def compare(self, what, answers):
        self.asked += 1
        told = [json.dumps([code, plain(body), warnings], sort_keys=True) for code, body, warnings in answers]
        self.codes[answers[1][0]] = self.codes.get(answers[1][0], 0) + 1
        if told[0] != told[1]:
            self.differ += 1
            if self.differ <= self.options.show:
                print(f"differs: {what}\n  ours   {told[0][:1800]}\n  theirs {told[1][:1800]}")
        return told[0] == told[1]

    def request(self, server, name, method, given, dry, share):
        path, query = f"{SERVICES}/{name}", "?dryRun=All" if dry else ""
        if method == "POST":
            return server.ask("POST", SERVICES + query, {"metadata": {"name": name}, "spec": given})
        if method == "DELETE":
            return server.ask("DELETE", path + query)
        if method == "PATCH":
            return server.ask("PATCH", path + query, {"spec": given}, MERGE)
        if method == "APPLY":
            query += ("&" if query else "?") + "fieldManager=m&force=true"
            return server.ask("PATCH", path + query, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": given}, APPLY)
        if method == "STATUS":
            ingress = [{"ip": "192.0.2.1"}, {"ip": "192.0.2.1", "ipMode": "Proxy"}, {"hostname": "a.example"}, {"ip": "x"}, {"hostname": "1.2.3.4", "ipMode": "VIP"}][int(share * 5)]
            return server.ask("PATCH", f"{path}/status{query}", {"status": {"loadBalancer": {"ingress": [ingress]}}}, MERGE)
        code, object, _ = server.ask("GET", path)
        if code != 200:
            object = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
        object.pop("status", None)
        if share < 0.3:
            # As somebody who sends the same manifest again: without what was allocated.
            for member in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
                object["spec"].pop(member, None)
            for port in object["spec"].get("ports", []):
                port.pop("nodePort", None)
        merged(object["spec"], given)
        return server.ask("PUT", path + query, object)

    def addresses(self, what):
        """The IPAddresses: of kube-apiserver they may come and go a moment later."""
        for attempt in range(40):
            lists = [server.ask("GET", ADDRESSES) for server in self.servers]
            told = [sorted(json.dumps([plain(item["metadata"]["name"]), item["metadata"].get("labels"), item["spec"]], sort_keys=True) for item in body["items"]) for _, body, _ in lists]
            if told[0] == told[1]:
                self.asked += 1
                return
            if attempt == 20:
                self.free_leaks(lists[1][1]["items"])
            time.sleep(0.1)
        self.compare(f"addresses after {what}", [(200, found, []) for found in told])

    def free_leaks(self, items):
        """When kube-apiserver refuses the second address of a Service, it forgets the first one that it has taken already, until its repair loop finds that."""
        theirs = self.servers[1]
        held = {(item["metadata"]["name"], ip) for item in theirs.ask("GET", SERVICES)[1]["items"] for ip in item["spec"].get("clusterIPs", [])}
        for item in items:
            if (item["spec"]["parentRef"]["name"], item["metadata"]["name"]) not in held:
                self.leaks += 1
                theirs.ask("DELETE", f"{ADDRESSES}/{item['metadata']['name']}")

    def ports(self):
        for port in PORTS:
            probe = {"metadata": {"name": "probe"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}}
            self.compare(f"port {port}", [server.ask("POST", f"{SERVICES}?dryRun=All", probe) for server in self.servers])

    def run(self):
        steps = Steps(self.options.seed, self.options.tiny)
        if self.options.tiny:
            # Nothing is asked for by name: every address and port is "some".
            NAMES.extend(f"t{nth}" for nth in range(20))
            POOL4.clear()
            PORTS.clear()
        for nth in range(self.options.steps):
            name, method, given, dry, share = steps.step()
            what = f"{nth} {method} {name}{' (dry run)' if dry else ''} {json.dumps(given)}"
            answers = [self.request(server, name, method, given, dry, share) for server in self.servers]
            same = self.compare(what, answers)
            if same and answers[1][0] < 300 and method != "DELETE" and not dry:
                same = self.compare(f"stored after {what}", [server.ask("GET", f"{SERVICES}/{name}") for server in self.servers])
            if not same:
                # What was stored differently would differ for ever.
                for server in self.servers:
                    server.ask("DELETE", f"{SERVICES}/{name}")
            self.addresses(what)
            if nth % 20 == 19 and not self.options.tiny:
                self.ports()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("ours", "theirs", "ca", "token", "known"):
        arguments.add_argument(f"--{flag}")
    arguments.add_argument("--steps", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--show", type=int, default=20)
    arguments.add_argument("--tiny", action="store_true")
    options = arguments.parse_args()
    pair = Pair(Server("ours", options.ours, options.ca, options.token), Server("theirs", options.theirs, options.ca, options.token), options)
    # Both begin with the address of the Service kubernetes; watchcache writes that a moment after it is ready.
    for server in pair.servers:
        for _ in range(600):
            if server.ask("GET", ADDRESSES)[1]["items"]:
                break
            time.sleep(0.1)
    began = time.time()
    pair.run()
    print(f"{pair.asked} answers compared, {pair.asked - pair.differ} equal, {pair.differ} differ, in {time.time() - began:.0f} s (seed {options.seed}); kube-apiserver's codes: {pair.codes}, addresses that it leaked: {pair.leaks}")
    return int(pair.differ > 0)


if __name__ == "__main__":
    sys.exit(main())
