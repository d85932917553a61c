#!/usr/bin/env python3
"""record.py PROGRAMS: record anew what a kube-apiserver says about tokens, and about who somebody is. PROGRAMS is a folder with `etcd` and
`kube-apiserver`. Needs nothing but Python and openssl; takes a minute or two.

Beside this file it leaves `KEY.pem` and `KEY.pub` for four kinds of keys (made once, for these tests alone) and `recorded.json`:
`now` (seconds), `issuers`, `objects` (what tokens are bound to), `reviews` (a token, the audiences asked for, status of the TokenReview), `requests`
(a TokenRequest, code and body of the answer), `documents` (what OpenID clients read, as bytes), `who` (headers and certificate of a request, and the code
and body that SelfSubjectReview answers with).
"""
import base64, hashlib, json, os, pathlib, shutil, socket, ssl, subprocess, sys, tempfile, time, urllib.error, urllib.parse, http.client

PROGRAMS = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).parent
SITE = pathlib.Path(tempfile.mkdtemp(prefix="tokens-"))
ISSUERS = ["https://kubernetes.default.svc", "https://old.example/"]
LEGACY = "kubernetes/serviceaccount"
KEYS = {"rsa": ("RS256", "sha256", 0), "p256": ("ES256", "sha256", 32), "p384": ("ES384", "sha384", 48), "p521": ("ES512", "sha512", 66)}
PATIENCE = 240
RUNNING = []


def run(*command, data=None):
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def openssl(*arguments, data=None):
    return run("openssl", *map(str, arguments), data=data)


def b64(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else data.encode()).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# Keys and tokens.

def make_keys():
    for name in KEYS:
        if not (HERE / f"{name}.pem").exists():
            kind = ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"] if name == "rsa" else ["EC", "-pkeyopt", f"ec_paramgen_curve:P-{name[1:]}"]
            openssl("genpkey", "-algorithm", *kind, "-out", HERE / f"{name}.pem")
            openssl("pkey", "-in", HERE / f"{name}.pem", "-pubout", "-out", HERE / f"{name}.pub")


def kid(name):
    return b64(hashlib.sha256(openssl("pkey", "-in", HERE / f"{name}.pem", "-pubout", "-outform", "DER")).digest())


def raw_signature(der, size):
    """r and s of a DER signature, each of so many bytes."""
    def integer(at):
        length = der[at + 1]
        return int.from_bytes(der[at + 2:at + 2 + length], "big"), at + 2 + length
    r, at = integer(3 if der[1] == 0x81 else 2)
    s, _ = integer(at)
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def sign(name, digest, text, size=None):
    signature = openssl("dgst", f"-{digest}", "-sign", HERE / f"{name}.pem", data=text.encode())
    return raw_signature(signature, size or KEYS[name][2]) if name != "rsa" else signature


def mint(claims, key="rsa", header=None, alg=None, digest=None, headers=None):
    """A token; `claims` and `header` may be texts, so that they need not be right."""
    claims = claims if isinstance(claims, str) else json.dumps(claims)
    header = header if header is not None else json.dumps({"alg": alg or KEYS[key][0], "kid": kid(key), **(headers or {})})
    text = f"{b64(header)}.{b64(claims)}"
    return f"{text}.{b64(sign(key, digest or KEYS[key][1], text))}"


# Servers.

def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def certificates():
    def authority(name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650", "-subj", f"/CN={name}",
                "-keyout", SITE / f"{name}.key", "-out", SITE / f"{name}.crt")

    def leaf(name, subject, by, extension):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, "-keyout", SITE / f"{name}.key", "-out", SITE / f"{name}.csr")
        (SITE / f"{name}.ext").write_text(extension)
        openssl("x509", "-req", "-in", SITE / f"{name}.csr", "-CA", SITE / f"{by}.crt", "-CAkey", SITE / f"{by}.key", "-CAcreateserial", "-days", "3650",
                "-extfile", SITE / f"{name}.ext", "-out", SITE / f"{name}.crt")
    authority("clients")
    authority("proxies")
    leaf("server", "/CN=server", "clients", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    leaf("jane", "/O=devs/CN=jane", "clients", "extendedKeyUsage=clientAuth\n")
    leaf("front", "/CN=front", "proxies", "extendedKeyUsage=clientAuth\n")
    leaf("other", "/CN=other", "proxies", "extendedKeyUsage=clientAuth\n")


def start(name, *command):
    log = open(SITE / f"{name}.log", "w")
    process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    RUNNING.append(process)
    return process


def stop(process):
    process.terminate()
    process.wait()
    RUNNING.remove(process)


def etcd():
    client, peer = (f"http://127.0.0.1:{port()}" for _ in range(2))
    start("etcd", PROGRAMS / "etcd", "--data-dir", SITE / "etcd", "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
          "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}", "--unsafe-no-fsync")
    return client


class Server:
    def __init__(self, storage, signer, *flags):
        self.port = port()
        keys = [f"--service-account-key-file={HERE / name}.{'pem' if name == 'rsa' else 'pub'}" for name in KEYS]
        self.process = start(f"kube-{signer}", PROGRAMS / "kube-apiserver", f"--etcd-servers={storage}", f"--secure-port={self.port}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--cert-dir={SITE}", f"--tls-cert-file={SITE}/server.crt", f"--tls-private-key-file={SITE}/server.key",
            f"--client-ca-file={SITE}/clients.crt", f"--token-auth-file={SITE}/tokens.csv", "--service-cluster-ip-range=10.0.0.0/16", "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount", "--enable-bootstrap-token-auth", f"--requestheader-client-ca-file={SITE}/proxies.crt",
            "--requestheader-allowed-names=front", "--requestheader-username-headers=X-Remote-User,X-Other-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-uid-headers=X-Remote-Uid", "--external-hostname=api.example",
            f"--service-account-signing-key-file={HERE / signer}.pem", *(f"--service-account-issuer={issuer}" for issuer in ISSUERS), *keys, *flags)
        until = time.time() + PATIENCE
        while self.ask("GET", "/readyz")[0] != 200:
            if time.time() > until or self.process.poll() is not None:
                raise SystemExit(f"kube-apiserver is not ready: {(SITE / f'kube-{signer}.log').read_text()[-2000:]}")
            time.sleep(0.5)

    def ask(self, method, path, body=None, token="admin", certificate=None, headers=()):
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        if certificate:
            tls.load_cert_chain(SITE / f"{certificate}.crt", SITE / f"{certificate}.key")
        try:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=tls, timeout=30)
            connection.putrequest(method, path)
            if token:
                connection.putheader("Authorization", f"Bearer {token}")
            for name, value in headers:
                connection.putheader(name, value)
            data = b"" if body is None else json.dumps(body).encode()
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            self.headers = dict(answer.getheaders())
            return answer.status, answer.read().decode()
        except OSError as error:
            return 0, str(error)

    def make(self, path, body):
        code, text = self.ask("POST", path, body)
        if code not in (200, 201):
            raise SystemExit(f"POST {path}: {code} {text}")
        return json.loads(text)


# What is asked.

def objects(server):
    core = "/api/v1"
    made = {}
    made["serviceaccount"] = server.make(f"{core}/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    made["other"] = server.make(f"{core}/namespaces/default/serviceaccounts", {"metadata": {"name": "other"}})
    made["node"] = server.make(f"{core}/nodes", {"metadata": {"name": "worker"}})
    container = {"name": "c", "image": "i"}
    pod = lambda name, node, account="robot": server.make(f"{core}/namespaces/default/pods", {"metadata": {"name": name}, "spec": {
        "serviceAccountName": account, "containers": [container], **({"nodeName": node} if node else {})}})
    made["pod"] = pod("placed", "worker")
    made["waiting"] = pod("waiting", None)
    made["lost"] = pod("lost", "gone")
    made["foreign"] = pod("foreign", None, "other")
    made["secret"] = server.make(f"{core}/namespaces/default/secrets", {"metadata": {"name": "plain"}})
    bootstrap = lambda id, **data: server.make(f"{core}/namespaces/kube-system/secrets", {"metadata": {"name": f"bootstrap-token-{id}"},
        "type": "bootstrap.kubernetes.io/token", "stringData": data})
    good = {"token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
    made["boot-good"] = bootstrap("aaaaaa", **{"token-id": "aaaaaa", "expiration": "2096-01-01T00:00:00Z", "auth-extra-groups": "system:bootstrappers:z,system:bootstrappers:a,system:bootstrappers:z", **good})
    made["boot-old"] = bootstrap("bbbbbb", **{"token-id": "bbbbbb", "expiration": "2001-01-01T00:00:00Z", **good})
    made["boot-odd"] = bootstrap("cccccc", **{"token-id": "cccccc", "expiration": "soon", **good})
    made["boot-signing"] = bootstrap("dddddd", **{"token-id": "dddddd", **good, "usage-bootstrap-authentication": "yes"})
    made["boot-group"] = bootstrap("eeeeee", **{"token-id": "eeeeee", "auth-extra-groups": "devs", **good})
    made["boot-id"] = bootstrap("ffffff", **{"token-id": "gggggg", **good})
    made["boot-plain"] = server.make(f"{core}/namespaces/kube-system/secrets", {"metadata": {"name": "bootstrap-token-hhhhhh"}, "stringData": {"token-id": "hhhhhh", **good}})
    made["boot-least"] = bootstrap("iiiiii", **{"token-id": "iiiiii", **good})
    return made


def legacy_claims(account, **more):
    prefix = "kubernetes.io/serviceaccount/"
    claims = {"iss": LEGACY, prefix + "namespace": "default", prefix + "secret.name": "legacy", prefix + "service-account.name": "robot",
              prefix + "service-account.uid": account["metadata"]["uid"], "sub": "system:serviceaccount:default:robot"}
    claims.update(more)
    return {key: value for key, value in claims.items() if value is not None}


def legacy_secrets(server, made):
    tokens = {}
    for name, labels in (("legacy", {}), ("auto", {}), ("invalid", {"kubernetes.io/legacy-token-invalid-since": "2024-01-01"})):
        tokens[name] = mint(legacy_claims(made["serviceaccount"], **{"kubernetes.io/serviceaccount/secret.name": name}))
        made[name] = server.make("/api/v1/namespaces/default/secrets", {"metadata": {"name": name, "labels": labels,
            "annotations": {"kubernetes.io/service-account.name": "robot"}}, "type": "kubernetes.io/service-account-token", "stringData": {"token": tokens[name]}})
    return tokens


def review_cases(made, legacy):
    now = int(time.time())
    account = made["serviceaccount"]["metadata"]["uid"]
    ref = lambda what: {"name": made[what]["metadata"]["name"], "uid": made[what]["metadata"]["uid"]}

    def claims(bound=None, namespace="default", name="robot", uid=account, **more):
        k8s = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}, **(bound or {})}
        all = {"aud": [ISSUERS[0]], "exp": now + 10**9, "iat": now, "iss": ISSUERS[0], "jti": "11111111-2222-3333-4444-555555555555", "kubernetes.io": k8s, "nbf": now,
               "sub": "system:serviceaccount:default:robot"}
        all.update(more)
        return {key: value for key, value in all.items() if value is not None}
    good = mint(claims())
    head, body, signature = good.split(".")
    yield "good", good
    yield "old issuer", mint(claims(iss=ISSUERS[1], aud=[ISSUERS[1]]))
    yield "other issuer", mint(claims(iss="https://elsewhere.example"))
    yield "no issuer", mint(claims(iss=None))
    yield "issuer without slash", mint(claims(iss=ISSUERS[1].rstrip("/")))
    for key in KEYS:
        yield f"key {key}", mint(claims(), key)
    for alg, digest in (("RS384", "sha384"), ("RS512", "sha512")):
        yield f"alg {alg}", mint(claims(), alg=alg, digest=digest)
    yield "alg none", f"{b64(json.dumps({'alg': 'none', 'kid': kid('rsa')}))}.{body}."
    yield "alg none with signature", f"{b64(json.dumps({'alg': 'none', 'kid': kid('rsa')}))}.{body}.{signature}"
    import hmac
    for alg in ("HS256", "HS512"):
        text = f"{b64(json.dumps({'alg': alg, 'kid': kid('rsa')}))}.{body}"
        public = (HERE / "rsa.pub").read_bytes()
        yield f"alg {alg} with the public key", f"{text}.{b64(hmac.new(public, text.encode(), 'sha256' if alg == 'HS256' else 'sha512').digest())}"
    yield "alg of another kind of key", mint(claims(), alg="ES256")
    yield "alg of another curve", mint(claims(), "p256", alg="ES384")
    yield "alg RS256 of a curve", mint(claims(), "p256", alg="RS256")
    yield "alg unknown", mint(claims(), alg="XX256")
    yield "alg EdDSA", mint(claims(), alg="EdDSA")
    yield "alg missing", mint(claims(), header=json.dumps({"kid": kid("rsa")}))
    yield "alg is a number", mint(claims(), header=json.dumps({"alg": 5, "kid": kid("rsa")}))
    yield "alg twice", mint(claims(), header='{"alg":"none","alg":"RS256","kid":"%s"}' % kid("rsa"))
    yield "alg in other letters", mint(claims(), header='{"ALG":"RS256","kid":"%s"}' % kid("rsa"))
    yield "no kid", mint(claims(), header='{"alg":"RS256"}')
    yield "no kid, p521", mint(claims(), "p521", header='{"alg":"ES512"}')
    yield "kid is a number", mint(claims(), header='{"alg":"RS256","kid":5}')
    yield "kid empty", mint(claims(), header='{"alg":"RS256","kid":""}')
    yield "kid null", mint(claims(), header='{"alg":"RS256","kid":null}')
    yield "kid unknown", mint(claims(), headers={"kid": "nobody"})
    yield "kid of another key", mint(claims(), headers={"kid": kid("p256")})
    yield "kid of another key of its kind", mint(claims(), "p384", alg="ES384", headers={"kid": kid("p521")})
    yield "no kid, wrong signature", f"{b64(json.dumps({'alg': 'RS256'}))}.{body}.{signature}"
    yield "typ", mint(claims(), headers={"typ": "JWT"})
    yield "crit unknown", mint(claims(), headers={"crit": ["exp"]})
    yield "crit b64", mint(claims(), headers={"crit": ["b64"], "b64": True})
    yield "crit null", mint(claims(), headers={"crit": None})
    yield "crit empty", mint(claims(), headers={"crit": []})
    yield "b64 false", mint(claims(), headers={"b64": False})
    yield "nonce", mint(claims(), headers={"nonce": "n"})
    yield "jwk is no key", mint(claims(), headers={"jwk": {"kty": "none"}})
    yield "x5c is no list", mint(claims(), headers={"x5c": "none"})
    yield "unknown header", mint(claims(), headers={"zip": "DEF", "x": {"a": [1]}})
    yield "header is a list", mint(claims(), header="[]")
    yield "header is empty", mint(claims(), header="{}")
    yield "header is null", mint(claims(), header="null")
    yield "header is no JSON", mint(claims(), header="{alg")
    yield "header and more", mint(claims(), header='{"alg":"RS256"} {}')
    yield "header and space", mint(claims(), header=' {"alg":"RS256"}\n')
    yield "wrong signature", f"{head}.{body}.{signature[:-8]}AAAAAAAA"
    yield "short signature", f"{head}.{body}.{signature[:-8]}"
    yield "no signature", f"{head}.{body}."
    yield "signature padded", f"{good}=="
    yield "signature with other last bits", good[:-1] + chr(ord(good[-1]) ^ 1 if good[-1].isalnum() else ord("A"))
    yield "signature in the other alphabet", f"{head}.{body}.{signature}".replace("-", "+").replace("_", "/")
    ec = mint(claims(), "p256").split(".")
    yield "short signature, p256", f"{ec[0]}.{ec[1]}.{ec[2][:-4]}"
    yield "wrong signature, p256", f"{ec[0]}.{ec[1]}.{ec[2][:-8]}AAAAAAAA"
    yield "claims of another", f"{head}.{b64(json.dumps(claims(name='other')))}.{signature}"
    yield "two parts", f"{head}.{body}"
    yield "four parts", f"{good}.AA"
    yield "claims are no base64", f"{head}.%%%.{signature}"
    yield "claims are a list", mint("[]")
    yield "claims are null", mint("null")
    yield "claims are no JSON", mint("{")
    yield "full serialization", json.dumps({"payload": body, "protected": head, "signature": signature})
    text = json.dumps(claims())
    yield "issuer twice", mint(text[:-1] + ', "iss": "%s"}' % ISSUERS[0])
    yield "issuer twice, the first unknown", mint('{"iss": "https://elsewhere.example", ' + text[1:])
    yield "issuer in other letters", mint(text.replace('"iss"', '"ISS"'))
    yield "namespace twice", mint(text.replace('"namespace": "default"', '"namespace": "default", "namespace": "default"'))
    yield "unknown claim twice", mint(text[:-1] + ', "x": 1, "x": 1}')
    yield "deep twice", mint(text[:-1] + ', "x": {"a": 1, "a": 1}}')
    yield "expired", mint(claims(exp=now - 3600))
    yield "expired a moment ago", mint(claims(exp=now - 5))
    yield "not yet", mint(claims(nbf=now + 3600))
    yield "not yet, in a moment", mint(claims(nbf=now + 30))
    yield "issued in the future", mint(claims(iat=now + 3600))
    yield "no times", mint(claims(exp=None, nbf=None, iat=None))
    yield "exp is a fraction", mint(claims(exp=now + 1e9 + 0.5))
    yield "exp is huge", mint(claims(exp=1e300))
    yield "exp is a text", mint(claims(exp="never"))
    yield "exp is null", mint(text.replace(f'"exp": {now + 10**9}', '"exp": null'))
    yield "exp is negative", mint(claims(exp=-1))
    yield "exp is zero", mint(claims(exp=0))
    yield "audience is a text", mint(claims(aud=ISSUERS[0]))
    yield "audience is another", mint(claims(aud=["vault"]))
    yield "audiences are many", mint(claims(aud=["vault", ISSUERS[1], ISSUERS[0], ISSUERS[1]]))
    yield "audiences are none", mint(claims(aud=None))
    yield "audiences are empty", mint(claims(aud=[]))
    yield "audience is an empty text", mint(claims(aud=""))
    yield "audience is a number", mint(claims(aud=[5]))
    yield "audience is an object", mint(claims(aud={}))
    yield "asked for another", (good, ["vault"])
    yield "asked for its own", (mint(claims(aud=["vault"])), ["vault"])
    yield "asked for some", (mint(claims(aud=["a", "b", "c"])), ["c", "b", "x", "c"])
    yield "asked without any", (mint(claims(aud=None)), ["vault"])
    yield "asked of a static token", ("admin", ["vault"])
    yield "asked of a static token, its own", ("admin", [ISSUERS[1], "vault"])
    yield "asked of a bootstrap token", ("aaaaaa.0123456789abcdef", [ISSUERS[0]])
    yield "asked of a wrong one", ("nobody", ["vault"])
    yield "no account", mint(claims(name="nobody"))
    yield "account is named emptily", mint(claims(name=""))
    yield "no namespace", mint(claims(namespace="nowhere"))
    yield "account of another uid", mint(claims(uid="0"))
    yield "no uid", mint(claims(uid=""))
    yield "no kubernetes.io", mint({key: value for key, value in claims().items() if key != "kubernetes.io"})
    yield "kubernetes.io is a text", mint({**claims(), "kubernetes.io": "x"})
    yield "kubernetes.io is null", mint({**claims(), "kubernetes.io": None})
    yield "pod is null", mint(claims({"pod": None}))
    yield "pod is a text", mint(claims({"pod": "placed"}))
    yield "subject of another", mint(claims(sub="system:serviceaccount:default:other"))
    yield "no subject", mint(claims(sub=None))
    yield "no jti", mint(claims(jti=None))
    yield "jti is a number", mint(claims(jti=5))
    yield "pod", mint(claims({"pod": ref("pod")}))
    yield "pod and node", mint(claims({"pod": ref("pod"), "node": ref("node")}))
    yield "pod and a node without uid", mint(claims({"pod": ref("lost"), "node": {"name": "gone"}}))
    yield "pod and a node of another uid", mint(claims({"pod": ref("pod"), "node": {"name": "worker", "uid": "0"}}))
    yield "pod is gone", mint(claims({"pod": {"name": "nobody", "uid": "0"}}))
    yield "pod of another uid", mint(claims({"pod": {"name": "placed", "uid": "0"}}))
    yield "pod without uid", mint(claims({"pod": {"name": "placed"}}))
    yield "node", mint(claims({"node": ref("node")}))
    yield "node is gone", mint(claims({"node": {"name": "gone", "uid": "0"}}))
    yield "node of another uid", mint(claims({"node": {"name": "worker", "uid": "0"}}))
    yield "secret", mint(claims({"secret": ref("secret")}))
    yield "secret is gone", mint(claims({"secret": {"name": "nobody", "uid": "0"}}))
    yield "secret of another uid", mint(claims({"secret": {"name": "plain", "uid": "0"}}))
    yield "secret and pod", mint(claims({"secret": ref("secret"), "pod": ref("pod")}))
    yield "warn later", mint(claims({"pod": ref("pod"), "warnafter": now + 3600}))
    yield "warn now", mint(claims({"pod": ref("pod"), "warnafter": now - 3600}))
    yield "warn is a text", mint(claims({"warnafter": "x"}))
    for name in ("legacy", "auto", "invalid"):
        yield f"legacy: {name}", legacy[name]
    old = lambda **more: mint(legacy_claims(made["serviceaccount"], **more))
    prefix = "kubernetes.io/serviceaccount/"
    yield "legacy: not the secret's own", old(x=1)
    yield "legacy: secret is gone", old(**{prefix + "secret.name": "nobody"})
    yield "legacy: secret without a token", old(**{prefix + "secret.name": "plain"})
    for name in ("namespace", "secret.name", "service-account.name", "service-account.uid"):
        yield f"legacy: no {name}", old(**{prefix + name: None})
    yield "legacy: no subject", old(sub=None)
    yield "legacy: subject of another", old(sub="system:serviceaccount:default:other")
    yield "legacy: subject is nobody's", old(sub="robot")
    yield "legacy: subject with more", old(sub="system:serviceaccount:default:robot:x")
    yield "legacy: audience", old(aud=["vault"])
    yield "legacy: asked for another", (legacy["legacy"], ["vault"])
    yield "legacy: kid unknown", mint(legacy_claims(made["serviceaccount"]), headers={"kid": "nobody"})
    for id in "abcdefhi":
        yield f"bootstrap: {id}", f"{id * 6}.0123456789abcdef"
    yield "bootstrap: wrong", "aaaaaa.0123456789abcdee"
    yield "bootstrap: short", "aaaaaa.0123456789abcde"
    yield "bootstrap: long", "aaaaaa.0123456789abcdef0"
    yield "bootstrap: capitals", "AAAAAA.0123456789abcdef"
    yield "bootstrap: nobody", "zzzzzz.0123456789abcdef"
    yield "static", "admin"
    yield "static: nobody", "nobody"
    yield "static: extra spaces", "admin more"
    yield "static: a space first", " admin"
    yield "space inside", good[:50] + "\n" + good[50:]


def reviews(server, cases):
    told = []
    for name, token in cases:
        token, audiences = token if isinstance(token, tuple) else (token, None)
        spec = {"token": token, **({"audiences": audiences} if audiences else {})}
        code, text = server.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": spec})
        told.append({"name": name, "token": token, "audiences": audiences or [], "code": code, "status": json.loads(text)["status"] if code == 201 else text})
    return told


def requests(server, made):
    uid = lambda what: made[what]["metadata"]["uid"]
    bind = lambda kind, name, version="v1", **more: {"spec": {"boundObjectRef": {"kind": kind, "apiVersion": version, "name": name, **more}}}
    cases = [
        ("default", {}),
        ("audiences", {"spec": {"audiences": ["vault", "b"]}}),
        ("audience empty", {"spec": {"audiences": [""]}}),
        ("seconds", {"spec": {"expirationSeconds": 601}}),
        ("seconds short", {"spec": {"expirationSeconds": 599}}),
        ("seconds zero", {"spec": {"expirationSeconds": 0}}),
        ("seconds null", {"spec": {"expirationSeconds": None}}),
        ("seconds negative", {"spec": {"expirationSeconds": -5}}),
        ("seconds long", {"spec": {"expirationSeconds": 2**32}}),
        ("seconds too long", {"spec": {"expirationSeconds": 2**32 + 1}}),
        ("seconds fraction", {"spec": {"expirationSeconds": 700.5}}),
        ("seconds text", {"spec": {"expirationSeconds": "700"}}),
        ("pod", bind("Pod", "placed")),
        ("pod uid", bind("Pod", "placed", uid=uid("pod"))),
        ("pod other uid", bind("Pod", "placed", uid="0")),
        ("pod waiting", bind("Pod", "waiting")),
        ("pod on a lost node", bind("Pod", "lost")),
        ("pod gone", bind("Pod", "nobody")),
        ("pod foreign", bind("Pod", "foreign")),
        ("pod extended", {"spec": {"expirationSeconds": 3607, **bind("Pod", "placed")["spec"]}}),
        ("pod extended for both", {"spec": {"expirationSeconds": 3607, "audiences": ISSUERS, **bind("Pod", "placed")["spec"]}}),
        ("pod not extended for others", {"spec": {"expirationSeconds": 3607, "audiences": ["vault"], **bind("Pod", "placed")["spec"]}}),
        ("not extended without pod", {"spec": {"expirationSeconds": 3607}}),
        ("node", bind("Node", "worker")),
        ("node other uid", bind("Node", "worker", uid="0")),
        ("node gone", bind("Node", "gone")),
        ("secret", bind("Secret", "plain")),
        ("secret other uid", bind("Secret", "plain", uid="0")),
        ("secret gone", bind("Secret", "nobody")),
        ("configmap", bind("ConfigMap", "plain")),
        ("deployment", bind("Deployment", "plain", "apps/v1")),
        ("pod of a group", bind("Pod", "placed", "apps/v1")),
        ("pod of another version", bind("Pod", "placed", "v7")),
        ("no kind", bind("", "placed")),
        ("no name", bind("Pod", "")),
        ("bad version", bind("Pod", "placed", "a/b/c")),
        ("no version", bind("Pod", "placed", "")),
        ("name", {"metadata": {"name": "robot", "namespace": "default"}}),
        ("other name", {"metadata": {"name": "other"}}),
        ("other namespace", {"metadata": {"name": "robot", "namespace": "kube-system"}}),
        ("uid", {"metadata": {"uid": uid("serviceaccount")}}),
        ("other uid", {"metadata": {"uid": "0"}}),
        ("metadata", {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "generateName": "g"}}),
        ("status", {"status": {"token": "x", "expirationTimestamp": "2001-01-01T00:00:00Z"}}),
        ("many wrong", {"spec": {"expirationSeconds": 5, **bind("Pod", "nobody")["spec"]}}),
    ]
    told = []
    for name, body in cases:
        body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", **body}
        code, text = server.ask("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", body)
        told.append({"name": name, "body": body, "code": code, "answer": text, **({"warning": server.headers["Warning"]} if "Warning" in server.headers else {})})
    code, text = server.ask("POST", "/api/v1/namespaces/default/serviceaccounts/nobody/token", {})
    told.append({"name": "no account", "account": "nobody", "body": {}, "code": code, "answer": text})
    return told


def documents(server):
    told = {}
    for path in ("/openid/v1/jwks", "/.well-known/openid-configuration"):
        code, text = server.ask("GET", path)
        told[path] = {"code": code, "body": text, "type": server.headers.get("Content-Type"), "cache": server.headers.get("Cache-Control")}
    return told


def rules(server, user, *rules):
    made = server.make("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": user}, "rules": [
        {"apiGroups": [group], "resources": resources, "verbs": verbs, **({"resourceNames": names} if names else {})} for group, resources, verbs, names in rules]})
    server.make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": user}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
        "name": user}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})


def who(server, made):
    core, authn = "", "authentication.k8s.io"
    rules(server, "old", (core, ["users", "groups", "serviceaccounts"], ["impersonate"], None), (authn, ["uids", "userextras/scopes"], ["impersonate"], None))
    rules(server, "new", (authn, ["users", "groups", "uids", "userextras/example.org/scopes"], ["impersonate:user-info"], None),
          (authn, ["serviceaccounts"], ["impersonate:serviceaccount"], None), (authn, ["nodes"], ["impersonate:arbitrary-node"], None),
          (authn, ["selfsubjectreviews"], ["impersonate-on:user-info:create", "impersonate-on:serviceaccount:create", "impersonate-on:arbitrary-node:create"], None))
    rules(server, "half", (authn, ["users"], ["impersonate:user-info"], None))
    rules(server, "few", (authn, ["users"], ["impersonate:user-info"], ["bob"]), (authn, ["groups"], ["impersonate:user-info"], ["devs"]),
          (authn, ["selfsubjectreviews"], ["impersonate-on:user-info:create"], None))
    agent = "system:serviceaccount:default:robot"
    rules(server, agent, (authn, ["nodes"], ["impersonate:associated-node"], None), (authn, ["selfsubjectreviews"], ["impersonate-on:associated-node:create"], None))
    time.sleep(2)
    bound = json.loads(server.ask("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token",
        {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "placed"}}})[1])["status"]["token"]
    user, group, uid = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid"
    extra = lambda key: f"Impersonate-Extra-{key}"
    cases = []
    case = lambda name, token=None, certificate=None, *headers: cases.append((name, token, certificate, headers))
    case("nobody")
    case("admin", "admin")
    case("jane", None, "jane")
    case("proxy", None, "front", ("X-Remote-User", "bob"))
    case("proxy with all", None, "front", ("X-Remote-User", "bob"), ("X-Remote-Group", "a"), ("X-Remote-Group", "b"), ("X-Remote-Group", ""), ("X-Remote-Group", "a"),
         ("X-Remote-Uid", "7"), ("X-Remote-Extra-Scopes", "one"), ("X-Remote-Extra-Scopes", "two"), ("X-Remote-Extra-Example.Org%2fFoo", "bar"), ("X-Remote-Extra-bad%zz", "x"),
         ("X-Remote-Extra-", "empty"))
    case("proxy with lower case", None, "front", ("x-remote-user", "bob"), ("x-remote-extra-a", "b"))
    case("proxy with two names", None, "front", ("X-Remote-User", "bob"), ("X-Remote-User", "eve"), ("X-Other-User", "tom"))
    case("proxy with its second name", None, "front", ("X-Remote-User", ""), ("X-Other-User", "tom"))
    case("proxy without a name", None, "front", ("X-Remote-Group", "a"))
    case("proxy without a name and a token", "admin", "front", ("X-Remote-Group", "a"))
    case("proxy and a token", "admin", "front", ("X-Remote-User", "bob"))
    case("proxy and a wrong token", "nope", "front", ("X-Remote-User", "bob"))
    case("proxy names anonymous", None, "front", ("X-Remote-User", "system:anonymous"))
    case("proxy says unauthenticated", None, "front", ("X-Remote-User", "bob"), ("X-Remote-Group", "system:unauthenticated"))
    case("proxy says authenticated", None, "front", ("X-Remote-User", "bob"), ("X-Remote-Group", "system:authenticated"), ("X-Remote-Group", "z"))
    case("proxy of another name", None, "other", ("X-Remote-User", "bob"))
    case("proxy of another name and a token", "admin", "other", ("X-Remote-User", "bob"))
    case("jane as a proxy", None, "jane", ("X-Remote-User", "bob"))
    case("nobody as a proxy", None, None, ("X-Remote-User", "bob"))
    case("token as a proxy", "admin", None, ("X-Remote-User", "bob"))
    case("proxy impersonates", None, "front", ("X-Remote-User", "root"), ("X-Remote-Group", "system:masters"), (user, "bob"))
    for token in ("admin", "old", "new", "half", "few", "none"):
        case(f"{token}: user", token, None, (user, "bob"))
        case(f"{token}: group", token, None, (user, "bob"), (group, "devs"), (group, "ops"))
        case(f"{token}: one group", token, None, (user, "bob"), (group, "devs"))
        case(f"{token}: many groups", token, None, (user, "bob"), (group, "devs"), (group, "a"), (group, "b"), (group, "c"))
        case(f"{token}: uid", token, None, (user, "bob"), (uid, "7"))
        case(f"{token}: account", token, None, (user, "system:serviceaccount:default:robot"))
        case(f"{token}: account with a group", token, None, (user, "system:serviceaccount:default:robot"), (group, "devs"))
        case(f"{token}: odd account", token, None, (user, "system:serviceaccount:default:Robot"))
        case(f"{token}: node", token, None, (user, "system:node:worker"))
        case(f"{token}: node with a group", token, None, (user, "system:node:worker"), (group, "system:nodes"))
        case(f"{token}: odd node", token, None, (user, "system:node:Worker"))
        case(f"{token}: extra", token, None, (user, "bob"), (extra("Scopes"), "view"))
        case(f"{token}: extra of a domain", token, None, (user, "bob"), (extra("example.org%2fscopes"), "a"), (extra("example.org%2fscopes"), "b"))
        case(f"{token}: extra empty", token, None, (user, "bob"), (extra("example.org%2fscopes"), ""))
        case(f"{token}: extra many", token, None, (user, "bob"), *((extra("example.org%2fscopes"), c) for c in "abcd"))
        case(f"{token}: masters", token, None, (user, "bob"), (group, "system:masters"))
        case(f"{token}: empty group", token, None, (user, "bob"), (group, ""))
        case(f"{token}: anonymous", token, None, (user, "system:anonymous"))
        case(f"{token}: unauthenticated", token, None, (user, "bob"), (group, "system:unauthenticated"))
        case(f"{token}: authenticated", token, None, (user, "bob"), (group, "system:authenticated"))
    case("group alone", "admin", None, (group, "devs"))
    case("empty group alone", "admin", None, (group, ""))
    case("groups alone", "admin", None, (group, "devs"), (group, "a\"b"))
    case("uid alone", "admin", None, (uid, "7"))
    case("empty uid alone", "admin", None, (uid, ""))
    case("extra alone", "admin", None, (extra("Scopes"), "view"), (extra("Scopes"), "edit"))
    case("empty user", "admin", None, (user, ""))
    case("empty user with a group", "admin", None, (user, ""), (group, "devs"))
    case("two users", "admin", None, (user, "bob"), (user, "eve"))
    case("key in capitals", "admin", None, (user, "bob"), (extra("SCOPES"), "view"))
    case("key empty", "admin", None, (user, "bob"), (extra(""), "view"))
    case("other impersonate header", "admin", None, ("Impersonate-Foo", "bob"))
    case("anonymous impersonates", None, None, (user, "bob"))
    case("agent: its node", bound, None, (user, "system:node:worker"))
    case("agent: another node", bound, None, (user, "system:node:other"))
    case("agent: its node with a group", bound, None, (user, "system:node:worker"), (group, "system:nodes"))
    told = []
    for name, token, certificate, headers in cases:
        code, text = server.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}, token,
                                certificate, headers)
        told.append({"name": name, "token": token, "certificate": certificate, "headers": headers, "code": code, "answer": text})
    return told


def main():
    make_keys()
    certificates()
    tokens = [("admin", "admin", "system:masters")] + [(name, name, "") for name in ("old", "new", "half", "few", "none")]
    (SITE / "tokens.csv").write_text("".join(f'{token},{user},u-{user},"{groups}"\n' for token, user, groups in tokens))
    storage = etcd()
    recorded = {"issuers": ISSUERS, "kids": {name: kid(name) for name in KEYS}, "documents": {}, "requests": {}}
    for signer in KEYS:
        server = Server(storage, signer)
        if signer == "rsa":
            made = objects(server)
            legacy = legacy_secrets(server, made)
            account = made["serviceaccount"]
            account["secrets"] = [{"name": "auto"}]
            code, text = server.ask("PUT", "/api/v1/namespaces/default/serviceaccounts/robot", account)
            assert code == 200, text
            made["serviceaccount"] = json.loads(text)
            time.sleep(3)
            recorded["now"] = int(time.time())
            recorded["objects"] = made
            recorded["reviews"] = reviews(server, review_cases(made, legacy))
            recorded["requests"] = requests(server, made)
            recorded["documents"] = documents(server)
            recorded["who"] = who(server, made)
        else:
            code, text = server.ask("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", {"spec": {"expirationSeconds": 2**32}})
            token = json.loads(text)["status"]["token"]
            recorded["reviews"] += reviews(server, [(f"issued with {signer}", token)])
        stop(server.process)
    (HERE / "recorded.json").write_text(json.dumps(recorded, indent=1) + "\n")


try:
    main()
finally:
    for process in list(RUNNING):
        stop(process)
    if "KEEP" not in os.environ:
        shutil.rmtree(SITE)
