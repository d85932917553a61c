#!/usr/bin/env python3
"""record.py KUBE_URL TOKEN: record the files beside this one from a live kube-apiserver.

content_type.jsonl and accept.jsonl. A line: a value of `Content-Type` or `Accept` (its bytes as Latin-1), and what requests with it are answered, by what they ask
for. The values are chosen and made with a seed. An answer to a `Content-Type` is how the body was read (`json`, `yaml`, `protobuf`; `json-patch`, `merge`,
`strategic`, `apply`) or the status and the text of the refusal; an answer to an `Accept` is the form of what was sent, or the same.

Needs nothing but Python.
"""
import http.client, json, pathlib, random, re, ssl, sys, urllib.parse

KUBE, TOKEN = sys.argv[1:3]
HERE = pathlib.Path(__file__).parent
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
ADDRESS = urllib.parse.urlparse(KUBE).netloc
CONFIGMAPS, WIDGETS = "/api/v1/namespaces/default/configmaps", "/apis/media.ex.io/v1/namespaces/default/widgets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = {"metadata": {"name": "widgets.media.ex.io"}, "spec": {"group": "media.ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
              "versions": [{"name": "v1", "served": True, "storage": True,
                            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
connection = None


def call(method, path, headers=(), body=None, is_watch=False):
    """Status, type and body; of a watch only what comes first. None when the connection is broken off."""
    global connection
    for _ in range(2):
        try:
            connection = connection or http.client.HTTPSConnection(ADDRESS, context=TLS)
            connection.putrequest(method, path, skip_accept_encoding=True)
            connection.putheader("Authorization", "Bearer " + TOKEN)
            for name, value in headers:
                connection.putheader(name, value.encode("latin-1"))
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            found = answer.status, answer.getheader("Content-Type", ""), answer.read1(1 << 16) if is_watch and answer.status == 200 else answer.read()
            if is_watch:
                connection.close()
                connection = None
            return found
        except (http.client.HTTPException, ConnectionError):
            connection.close()
            connection = None
    return None


def message(body):
    try:
        return json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        return body.decode("latin-1").strip()


def refusal(code, text):
    """The code, who refused (`routed`: the router; `known`: the negotiation) and the types that it names; else the text. In whatever encoding it was told."""
    text = " ".join(text.split())
    told = re.search("(415: Unsupported Media Type|Available representations: |accepted media types include: |media types are accepted: )([a-z./;=+, -]*)", text)
    if told is None:
        return f"{code} {re.search('you requested [A-Za-z]*|content is not a list|$', text)[0]}".strip()
    by = "routed" if told[1].startswith(("415", "Available")) else "known"
    return f"{code} {by} {told[2].removesuffix(' metadata')}".strip()


# --- Content-Type

OBJECT = b'{"metadata": {"name": "new"}, data: {a: b}}'  # YAML, not JSON
OPTIONS = b'{gracePeriodSeconds: 1}'
BODIES = {"post": ("POST", CONFIGMAPS + "?dryRun=All", OBJECT), "custom": ("POST", WIDGETS + "?dryRun=All", OBJECT),
          "delete": ("DELETE", CONFIGMAPS + "/none", OPTIONS), "review": ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", b'{metadata: {}}'),
          "patch": ("PATCH", CONFIGMAPS + "/there?dryRun=All", b'{"$patch": "x"}'),
          "custom-patch": ("PATCH", WIDGETS + "/there?dryRun=All", b'{"$patch": "x"}')}
READS = {"version": "/version", "groups": "/apis", "versions": "/api", "group": "/apis/apps", "resources": "/api/v1", "list": CONFIGMAPS}


def read_as(kind, answer):
    """How the body was read, as far as the answer tells: every body is wrong in one way or another."""
    if answer is None:
        return "broken off"
    code, _, body = answer
    text = message(body)
    if code == 415:
        return refusal(code, text)
    if "patch" in kind:
        return "apply" if code == 422 else "json-patch" if "jsonPatch" in text else "strategic" if "unknown patch" in text else "merge"
    return "json" if "invalid character" in text else "protobuf" if "protobuf" in text else "yaml"


TYPES = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json-patch+json", "application/merge-patch+json",
         "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/cbor", "text/plain", "application/x-www-form-urlencoded"]
PARAMETERS = ["", "", ";", ";;", "; charset=utf-8", ";charset=UTF-8", ";charset", ";charset=", '; a=""', '; a="b c"', '; a="b', '; a="\\"b"', "; a=b;a=b", "; a=b; A=b",
              ";a=b;a=c", ";a=b;b=a", "; a = b", ";\ta=b", " ; a=b", "; =b", ";a=b c", "; a=b;", "; a=b; ", ";a=b,c", ", text/plain", ",application/json", ";a*=utf-8''b",
              ";a*0=b;a*1=c", ";a*0=b;a*0=c", ";a*=x'y", ";a@b=c", ";a=b@c", ';a="b"c', ';a="b";c=d', ";\u00e9=b", ';a="\u00e9"', ";a=\u00e9", ";q=0", ";a=b;;c=d", ";*=b"]


def scrambled(random, text):
    if random.random() < 0.5:
        return text
    return random.choice([str.upper, str.title, lambda t: t.replace("/", " /"), lambda t: t.replace("/", "/ "), lambda t: t.replace("a", "A", 1),
                          lambda t: t.replace("/", "//"), lambda t: t.split("/")[1], lambda t: t.split("/")[0], lambda t: t + "x", lambda t: "\u00a0" + t,
                          lambda t: t + "\u00c2\u00a0", lambda t: t.replace("i", "\u00c4\u00b0", 1), lambda t: t.replace("k", "\u00e2\u0084\u00aa", 1),
                          lambda t: t.replace("/", "")])(text)


def content_types(random):
    values = ["", " ", ";", "/", "application", "application/", "/json", "*/*", "application/*", "json", "application/json;stream=watch"]
    values += [kind + parameter for kind in TYPES[:3] for parameter in PARAMETERS] + [kind.upper() for kind in TYPES]
    values += [kind + parameter for kind in TYPES[3:7] for parameter in ["", ";", " ;a=b", "; a=b", ";a", ", x", ",application/json-patch+json"]]
    values += [scrambled(random, random.choice(TYPES)) + random.choice(PARAMETERS) + random.choice(PARAMETERS) for _ in range(150)]
    return list(dict.fromkeys(values))


def record_content_types(random):
    lines = []
    for value in content_types(random):
        header = [("Content-Type", value)]
        answers = {kind: read_as(kind, call(method, path, header, body)) for kind, (method, path, body) in BODIES.items()}
        for kind, path in READS.items():
            code, _, body = call("GET", path, header)
            answers[kind] = str(code) if code == 200 else refusal(code, message(body))
        lines.append({"value": value, "answers": answers})
    write("content_type.jsonl", lines)


# --- Accept

def asked(revision):
    watch = f"?watch=1&resourceVersion={revision}&timeoutSeconds=9&fieldSelector=metadata.name%3Dthere"
    return {"get": CONFIGMAPS + "/there", "list": CONFIGMAPS, "custom": WIDGETS + "/there", "custom list": WIDGETS, "watch": CONFIGMAPS + watch,
            "custom watch": WIDGETS + watch, "version": "/version", "resources": "/api/v1", "group": "/apis/apps", "groups": "/apis", "versions": "/api",
            "missing": CONFIGMAPS + "/none", "custom missing": WIDGETS + "/none", "openapi v2": "/openapi/v2", "openapi v3": "/openapi/v3/apis/apps/v1"}


def form(answer):
    code, kind, body = answer
    if code == 406 or code >= 500:
        return refusal(code, message(body))
    if not body:
        return "nothing"
    media = "protobuf" if "protobuf" in kind else kind.split(";")[0].rpartition("/")[2]
    if "openapi" in kind:
        return media
    told = [media]
    if media == "json" and body.startswith(b"{\n"):
        told.append("pretty")
    if media == "json":
        found = json.loads(body.splitlines()[0] if b'"object":' in body[:40] else body)
        found = found.get("object", found)
        named, version = found.get("kind", ""), found.get("apiVersion", "")
    else:
        named, version = "", ""
        for it in ["Table", "PartialObjectMetadataList", "PartialObjectMetadata"]:
            if it.encode() in body:
                named = it
                break
        for it in ["meta.k8s.io/v1beta1", "meta.k8s.io/v1"]:
            if it.encode() in body:
                version = it
                break
    if named in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
        told.append(named.removesuffix("List") + " " + version.rpartition("/")[2])
    if named == "APIGroupDiscoveryList":
        told.append("aggregated")
    return " ".join(told)


CLAUSES = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/*", "*/*", "*", "text/plain", "text/*", "*/json", "*/yaml",
           "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "*/", "/", "application/", "/json",
           "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io", "application/yaml;as=Table;v=v1beta1;g=meta.k8s.io",
           "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", "application/json;as=Table", "application/json;stream=watch",
           "application/vnd.kubernetes.protobuf;stream=watch", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/cbor",
           "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"]
QUALITIES = ["q=1", "q=0.5", "q=0", "q=0.1", "q=-1", "q=", "q", "q=x", "q= 0.5", "q =0.4", " q=0.3", "q=1e-3", "q=1_0", "q=0x1p-2", "q=nan", "q=+nan", "q=inf", "q=-inf",
             "q=1e400", "q=.5", "q=5.", "q=0.5=", "q=0.5=1", "Q=0.2", "q=0.9;q=0.1", "q=1.0 ", "q=\t0.5"]
EXTRAS = ["charset=utf-8", "pretty=1", "pretty=0", "sv=v1", "sv=v2", "sv=", "stream=", "stream=x", "stream=watch", "as=", "g=", "v=v1", "a=b=c", "a", "=b", "", " ", "profile=nopeer"]


def spoiled(random, clause):
    if random.random() < 0.7:
        return clause
    return random.choice([str.upper, lambda t: t.replace("/", " / "), lambda t: t.replace("/", "//"), lambda t: t + "/", lambda t: t.replace(";", " ; "),
                          lambda t: t.replace("=", " = "), lambda t: "\t" + t, lambda t: " " + t + " ", lambda t: t + "\u00e9", lambda t: t.replace("a", "\u00e9", 1)])(clause)


def accepts(random):
    values = ["", " ", ",", ",,", ";", ";q=1", "nonsense"] + CLAUSES + [clause + ";" + extra for clause in ["application/json", "application/yaml", "*/*"] for extra in EXTRAS]
    for _ in range(260):
        clauses = []
        for _ in range(random.choice([1, 2, 2, 3, 3, 4, 6])):
            parts = [spoiled(random, random.choice(CLAUSES))]
            parts += [random.choice(QUALITIES)] * (random.random() < 0.6) + [random.choice(EXTRAS)] * (random.random() < 0.2)
            clauses.append(random.choice([";", ";", "; "]).join(parts))
        values.append(random.choice([",", ",", ", "]).join(clauses))
    return list(dict.fromkeys(values))


def record_accepts(random):
    revision = json.loads(call("GET", CONFIGMAPS)[2])["metadata"]["resourceVersion"]
    for path in [CONFIGMAPS, WIDGETS]:
        patch = {"data": {"changed": revision}}
        code, _, text = call("PATCH", path + "/there", [("Content-Type", "application/merge-patch+json")], json.dumps(patch).encode())
        assert code == 200, text
    lines = []
    for value in accepts(random):
        answers = {kind: form(call("GET", path, [("Accept", value)], is_watch="watch" in kind)) for kind, path in asked(revision).items()}
        lines.append({"value": value, "answers": answers})
    write("accept.jsonl", lines)


def make(path):
    told = {"apiVersion": "v1", "kind": "ConfigMap"} if path == CONFIGMAPS else {"apiVersion": "media.ex.io/v1", "kind": "Widget"}
    code, _, text = call("POST", path, JSON, json.dumps({**told, "metadata": {"name": "there"}}).encode())
    assert code in (201, 409), text


def write(name, lines):
    (HERE / name).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    print(len(lines), "values in", name)


JSON = [("Content-Type", "application/json")]
call("POST", DEFINITIONS, JSON, json.dumps(DEFINITION).encode())
while call("GET", WIDGETS)[0] != 200:
    pass
for path in [CONFIGMAPS, WIDGETS]:
    make(path)
record_content_types(random.Random(1))
record_accepts(random.Random(2))
