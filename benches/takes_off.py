#!/usr/bin/env python3
"""What a read replica takes off a kube-apiserver: the same controllers, watches and writes on the kube-apiserver alone and with the replica in front.

    python3 benches/takes_off.py --etcd etcd --kube-apiserver kube-apiserver --kube-controller-manager … --kube-scheduler … --watchcache target/dist/watchcache [--watchers 1000] [--seconds 60]

Starts etcd, a kube-apiserver and a replica of it, then kube-controller-manager, kube-scheduler, watches of all Pods (TLS, a connection each) and a client that scales a Deployment up and down and reads it, first all
of them on the kube-apiserver, then all on the replica, and so on in turns. Prints CPU and memory of each process and the times of the client. Needs openssl.
"""

import argparse
import json
import os
import selectors
import socket
import statistics
import tempfile
import threading
import time

import hand_on
import processes

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = 20


class Bench(hand_on.Bench):
    def __init__(self, options):
        super().__init__(options)
        self.etcd = self.running[0]
        self.options = options
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]}}
        self.write("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}})
        for nth in range(2):
            status = {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "500"}, "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "500"},
                      "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m"}]}
            self.write("POST", "/api/v1/nodes", {"metadata": {"name": f"n{nth}"}, "status": status})

    def write(self, method, path, body, port=hand_on.API):
        status = self.ask(self.client(port), method, path, body)
        assert status in (200, 201), (path, status)

    def controllers(self, port):
        """kube-controller-manager and kube-scheduler, pointed there."""
        config = {"clusters": [{"name": "a", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": os.path.abspath("ca.crt")}}],
                  "users": [{"name": "a", "user": {"token": "admintoken"}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a"}
        json.dump(config, open(f"kubeconfig-{port}", "w"))
        common = [f"--kubeconfig=kubeconfig-{port}", "--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=300"]
        manager = self.start(self.options.kube_controller_manager, common + ["--controllers=*,-node-lifecycle-controller,-taint-eviction-controller"])
        return [manager, self.start(self.options.kube_scheduler, common)]

    def watches(self, port, count):
        """Opens watches of all Pods, and a thread that reads them; returns a function that ends them and says how many bytes came."""
        selector, connections, read, going = selectors.DefaultSelector(), [], [0], [True]
        request = b"GET /api/v1/pods?watch=1&resourceVersion=0&timeoutSeconds=3000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admintoken\r\n\r\n"
        for _ in range(count):
            connection = self.context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
            connection.sendall(request)
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
            connections.append(connection)

        def work():
            while going[0]:
                for key, _ in selector.select(0.2):
                    try:
                        while data := key.fileobj.recv(1 << 16):
                            read[0] += len(data)
                    except (hand_on.ssl.SSLWantReadError, BlockingIOError):
                        pass
        thread = threading.Thread(target=work)
        thread.start()

        def end():
            going[0] = False
            thread.join()
            for connection in connections:
                connection.close()
            return read[0]
        return end

    def cost(self):
        all = {"etcd": self.etcd, "kube-apiserver": self.api, "replica": self.replica}
        return {name: processes.cpu(process) for name, process in all.items()}, {name: processes.resident(process) for name, process in all.items()}

    def turn(self, port):
        """One turn there: CPU seconds, memory, milliseconds of the client's reads and writes, bytes that watches read."""
        controllers = self.controllers(port)
        end = self.watches(port, self.options.watchers)
        time.sleep(15)
        client, times, before, until, scale = self.client(port), {"PUT": [], "GET": []}, self.cost()[0], time.time() + self.options.seconds, 0
        while time.time() < until:
            scale = PODS - scale
            body = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": scale}}
            began = time.perf_counter()
            assert self.ask(client, "PUT", f"{DEPLOYMENTS}/d/scale", body) == 200
            times["PUT"].append((time.perf_counter() - began) * 1e3)
            for _ in range(20):
                began = time.perf_counter()
                assert self.ask(client, "GET", f"{DEPLOYMENTS}/d") == 200
                times["GET"].append((time.perf_counter() - began) * 1e3)
                time.sleep(0.1)
        clock, held = self.cost()
        read = end()
        for process in controllers:
            process.terminate()
            process.wait(60)
            self.running.remove(process)
        self.write("PUT", f"{DEPLOYMENTS}/d/scale", {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "d", "namespace": "default"}, "spec": {"replicas": 0}})
        time.sleep(5)
        return {name: clock[name] - before[name] for name in clock}, held, times, read


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for program in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "watchcache"):
        arguments.add_argument(f"--{program}", required=True, type=os.path.abspath)
    for flag, default in [("watchers", 1000), ("seconds", 60), ("rounds", 2)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        hand_on.credentials()
        bench = Bench(options)
        found = {}
        for _ in range(options.rounds):
            for name, port in (("kube-apiserver alone", hand_on.API), ("replica in front", hand_on.REPLICA)):
                found.setdefault(name, []).append(bench.turn(port))
        bench.stop()
        print("| | CPU: kube-apiserver, replica, etcd | memory: kube-apiserver, replica, etcd | GET p50, p99 | PUT p50, p99 | watches read |\n|---|---|---|---|---|---|")
        for name, turns in found.items():
            names = ("kube-apiserver", "replica", "etcd")
            cpu = ", ".join(f"{statistics.mean(turn[0][process] for turn in turns):.1f}" for process in names)
            held = ", ".join(f"{max(turn[1][process] for turn in turns):.0f}" for process in names)
            part = lambda verb: (lambda all: f"{all[len(all) // 2]:.1f}, {all[len(all) * 99 // 100]:.1f} ms")(sorted(value for turn in turns for value in turn[2][verb]))
            print(f"| {name} | {cpu} s | {held} MB | {part('GET')} | {part('PUT')} | {statistics.mean(turn[3] for turn in turns) / 1e6:.0f} MB |")


if __name__ == "__main__":
    main()
