#!/usr/bin/env python3
"""benches/bursts.py NAME=BINARY[,VARIABLE=VALUE…] …: what a burst leaves in memory, and CPU of lists and fan-out, binaries taking turns.

Each serves a copy of the same embedded store (20,000 ConfigMaps of 1.4 kB in 20 namespaces) on loopback. A line for each binary and round: RSS in MB at
rest, with 5,000 watches on connections of their own, 60 s after these ended, 30 s after 1,000 lists of 1,000 objects and 10 of all, 20 s after 400
watches that heard 1,500 writes; CPU in s of the lists and of the fan-out. A round takes two minutes, and one more for each binary.
"""
import json, os, select, shutil, socket, subprocess, sys, tempfile, threading, time

OBJECTS, NAMESPACES, ROUNDS = 20_000, 20, 2
WATCHES, LISTS, HEARERS, WRITES = 5_000, 1_000, 400, 1_500
TEXT = "x" * 1_200


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Server:
    def __init__(self, binary, environment, data):
        self.port = free_port()
        command = [binary, "serve", "--data-dir", data, "--insecure-port", str(self.port), "--etcd-compaction-interval", "0"]
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
        until = time.time() + 60
        while time.time() < until:
            try:
                if ask(self.connect(), "GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        self.process.kill()
        raise SystemExit(f"{binary} is not ready after a minute")

    def connect(self):
        stream = socket.create_connection(("127.0.0.1", self.port))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream

    def watch(self, namespace, selector):
        stream = self.connect()
        path = f"/api/v1/namespaces/n{namespace}/configmaps?watch=1&resourceVersion=0{selector}"
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return stream

    def rss(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def end(self):
        self.process.terminate()
        self.process.wait()


def ask(stream, method, path, body=b""):
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    stream.sendall(head.encode() + body)
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = stream.recv(1 << 16)
        if not part:
            raise ConnectionError("closed")
        answer += part
    head, rest = answer.split(b"\r\n\r\n", 1)
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    count, tail = len(rest), rest[-5:]
    while count < int(lengths[0]) if lengths else tail != b"0\r\n\r\n":
        part = stream.recv(1 << 20)
        if not part:
            raise ConnectionError("closed")
        count, tail = count + len(part), (tail + part)[-5:]
    return int(head.split()[1]), count


def config_map(number, note=""):
    labels = {"app": f"a{number % 100}"}
    return json.dumps({"metadata": {"name": f"m{number}", "labels": labels}, "data": {"text": TEXT + note}}).encode()


def together(count, work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def fill(server):
    stream = server.connect()
    for number in range(NAMESPACES):
        ask(stream, "POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": f"n{number}"}}).encode())

    def write(first):
        stream = server.connect()
        for number in range(first, OBJECTS, 16):
            status, _ = ask(stream, "POST", f"/api/v1/namespaces/n{number % NAMESPACES}/configmaps", config_map(number))
            assert status == 201, status

    together(16, write)


def lists(server):
    before = server.cpu()

    def read(first):
        stream = server.connect()
        for number in range(LISTS // 4):
            ask(stream, "GET", f"/api/v1/namespaces/n{(first + number) % NAMESPACES}/configmaps?resourceVersion=0")

    together(4, read)
    stream = server.connect()
    for _ in range(10):
        ask(stream, "GET", "/api/v1/configmaps?resourceVersion=0")
    return server.cpu() - before


def fan_out(server):
    streams = [server.watch(1, "&fieldSelector=metadata.name%21%3Dnobody") for _ in range(HEARERS)]
    by_number, poll, heard, done = {stream.fileno(): stream for stream in streams}, select.epoll(), [0], []
    [poll.register(number, select.EPOLLIN) for number in by_number]

    def hear():
        room = bytearray(1 << 20)
        while not done:
            for number, _ in poll.poll(0.5):
                heard[0] += by_number[number].recv_into(room)

    def quiet():
        last = -1
        while last != heard[0]:
            last = heard[0]
            time.sleep(1.5)

    hearing = threading.Thread(target=hear)
    hearing.start()
    quiet()
    before, stream = server.cpu(), server.connect()
    for write in range(WRITES):
        number = 1 + NAMESPACES * (write % (OBJECTS // NAMESPACES))
        status, _ = ask(stream, "PUT", f"/api/v1/namespaces/n1/configmaps/m{number}", config_map(number, str(write)))
        assert status == 200, status
        time.sleep(0.004)
    quiet()
    done.append(True)
    hearing.join()
    [stream.close() for stream in streams]
    return server.cpu() - before


def crowd(server):
    streams = [server.watch(number % NAMESPACES, f"&labelSelector=app%3Da{number % 100}") for number in range(WATCHES)]
    time.sleep(3)
    rss = server.rss()
    [stream.close() for stream in streams]
    return rss


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    subjects = {}
    for argument in sys.argv[1:]:
        name, rest = argument.split("=", 1)
        binary, *variables = rest.split(",")
        subjects[name] = (binary, dict(variable.split("=", 1) for variable in variables))
    with tempfile.TemporaryDirectory() as folder:
        seed = os.path.join(folder, "seed")
        first = Server(*next(iter(subjects.values())), seed)
        fill(first)
        first.end()
        for turn in range(ROUNDS):
            servers, told = {}, {name: {} for name in subjects}

            def each(what, measure):
                for name, server in servers.items():
                    told[name][what] = round(measure(server), 2)

            for name, subject in subjects.items():
                data = os.path.join(folder, f"{name}-{turn}")
                shutil.copytree(seed, data)
                servers[name] = Server(*subject, data)
            time.sleep(10)
            each("rest", Server.rss)
            each("watches", crowd)
            time.sleep(60)
            each("after watches", Server.rss)
            each("lists CPU", lists)
            time.sleep(30)
            each("after lists", Server.rss)
            each("fan-out CPU", fan_out)
            time.sleep(20)
            each("after fan-out", Server.rss)
            for name, server in servers.items():
                server.end()
                print(turn + 1, name, told[name], flush=True)


main()
