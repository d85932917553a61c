#!/usr/bin/env python3
"""gateway.py ETCD WATCHCACHE [--record]: what an empty etcd and an empty store answer over HTTP/1.1 to the requests of gateway.txt.

ETCD and WATCHCACHE are the binaries; PORT (default 21790) is the first of three ports on loopback. Status, media type and body must be the same; JSON is
compared as values, `*` stands for what differs from run to run. With --record etcd's answers are written to gateway.jsonl, which `cargo test` asks the store for.
"""
import json, os, socket, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
PORT = int(os.environ.get("PORT", "21790"))
# A watch stays open: so long is waited for what it says at once. Longer than etcd's look for watches that begin in the past.
QUIET = 1.0
START = 60
# Members whose values are of the run, of the machine or of the version.
VOLATILE = {"cluster_id", "member_id", "raft_term", "etcdserver", "etcdcluster", "storage", "version_of_member", "dbSize", "leader", "raftIndex", "raftTerm",
            "raftAppliedIndex", "dbSizeInUse", "storageVersion", "dbSizeQuota", "name", "peerURLs", "clientURLs"}
# What the store does not serve, and says so (docs/conformance.md).
NOT_SERVED = ["/v3/auth/status", "/v3/auth/enable", "/v3/auth/user/list", "/v3/cluster/member/promote", "/v3/lock/lock", "/v3/election/leader",
              "/v3/maintenance/hash", "/v3/maintenance/hashkv", "/v3/maintenance/downgrade", "/v3/maintenance/transfer-leadership"]
# Answers that differ, and why.
DIFFERS = {
    "POST /v3/maintenance/status {}": "a store without a limit on its size says no dbSizeQuota",
    "POST /v3/cluster/member/list {}": "a store has no peers, and so no peerURLs",
    'POST /v3/cluster/member/list {"linearizable":true}': "the same",
}


def requests():
    for line in open(os.path.join(HERE, "gateway.txt"), encoding="utf-8"):
        line = line.rstrip("\n")
        if line and not line.startswith("#"):
            method, path, *body = line.split(" ", 2)
            yield line, method, path, body[0].encode() if body else b""


def ask(port, method, path, body):
    """Status, media type and the bytes of the body as far as they come."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)
        stays_open = path.endswith("/watch")
        connection.settimeout(QUIET if stays_open else 30)
        data = b""
        try:
            while piece := connection.recv(65536):
                data += piece
        except TimeoutError:
            if not stays_open:
                raise
    if not data:
        return None, "", b""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
    if headers.get("transfer-encoding") == "chunked":
        body = unchunked(body)
    return int(lines[0].split(" ")[1]), headers.get("content-type", ""), body


def unchunked(body):
    text = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        text, body = text + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return text


def steady(value, name=""):
    """The same value with `*` for what is of the run."""
    if isinstance(value, dict):
        is_member = "dbSize" in value
        return {key: steady(inner, "version_of_member" if key == "version" and is_member else key) for key, inner in value.items()}
    if name in VOLATILE or (name == "ID" and len(value) > 10):
        return "*"
    if isinstance(value, list):
        return sorted((steady(inner) for inner in value), key=json.dumps) if name == "leases" else [steady(inner) for inner in value]
    if name == "TTL" and value in ("498", "499", "500"):
        return "*"
    return value.replace("\u00a0", " ") if isinstance(value, str) else value


def answer(port, method, path, body):
    status, media, text = ask(port, method, path, body)
    # etcd sends the head of a watch with its first message, ours at once.
    if path.endswith("/watch") and not text:
        return {"lines": []}
    text = text.decode()
    if media.startswith("application/json"):
        lines = [steady(json.loads(line)) for line in text.splitlines()]
        is_stream = status == 200 and path.endswith(("/watch", "/keepalive"))
        return {"status": status, "type": media, "lines" if is_stream else "body": lines if is_stream else lines[0] if lines else ""}
    if path.startswith(("/readyz", "/livez")):
        # In the order of a Go map.
        text = "".join(sorted(text.splitlines(keepends=True)))
    # A stream of nothing has no media type in etcd.
    return {"status": status, "type": media, "body": text} if text or media else {"status": status, "lines": []}


def same(etcd, ours):
    if etcd.get("lines") == []:
        return ours.get("lines") == []
    return etcd == ours


def wait(port, child):
    for _ in range(START * 10):
        if child.poll() is not None:
            sys.exit(f"a server has ended with {child.returncode}")
        try:
            if ask(port, "GET", "/health", b"")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"nothing answers on port {port}")


def start(etcd, watchcache, place):
    urls = [f"http://127.0.0.1:{PORT + n}" for n in range(3)]
    log = open(os.path.join(place, "log"), "w")
    first = [etcd, "--data-dir", f"{place}/etcd", "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1],
             "--initial-advertise-peer-urls", urls[1], "--initial-cluster", f"default={urls[1]}"]
    second = [watchcache, "store", "--data-dir", f"{place}/store", "--listen-client-urls", urls[2]]
    return [subprocess.Popen(command, stdout=log, stderr=log) for command in (first, second)]


def compare(record):
    wrong, asked, rows = 0, 0, []
    for line, method, path, body in requests():
        theirs, ours = answer(PORT, method, path, body), answer(PORT + 2, method, path, body)
        asked += 1
        rows.append({"request": line, **theirs})
        if not same(theirs, ours) and line not in DIFFERS:
            wrong += 1
            print(f"{line}\n  etcd  {json.dumps(theirs)}\n  store {json.dumps(ours)}")
    for path in NOT_SERVED:
        ours = answer(PORT + 2, "POST", path, b"{}")
        asked += 1
        if ours.get("status") != 501 or "is not served by this store" not in ours["body"]["message"]:
            wrong += 1
            print(f"POST {path}\n  store {json.dumps(ours)}")
    if record:
        with open(os.path.join(HERE, "gateway.jsonl"), "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    print(f"{asked} requests, {wrong} answers differ, {len(DIFFERS)} on purpose")
    return wrong


def main():
    etcd, watchcache, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        children = start(etcd, watchcache, place)
        try:
            for port, child in zip((PORT, PORT + 2), children):
                wait(port, child)
            # etcd takes a moment to know the version of its cluster.
            time.sleep(1)
            wrong = compare("--record" in more)
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
