#!/usr/bin/env python3
"""record.py KUBE_URL TOKEN: record the golden cases beside this file from a live kube-apiserver, in a namespace `yaml` of its own.

Needs nothing but Python. `answers.jsonl` has one answer a line: `name`, `json` (the body for `Accept: application/json`, as text) and either `yaml` (the
body for `Accept: application/yaml`) or `refused` (the Status of code 500 that came instead).
"""
import json, pathlib, random, ssl, sys, urllib.error, urllib.request

KUBE, TOKEN = sys.argv[1:3]
HERE = pathlib.Path(__file__).parent
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
MAPS = "/api/v1/namespaces/yaml/configmaps"
THINGS = "/apis/yaml.io/v1/namespaces/yaml/things"


def call(method, path, body=None, accept="application/json"):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json", "Accept": accept}
    try:
        return 200, urllib.request.urlopen(urllib.request.Request(KUBE + path, data, headers, method=method), context=TLS).read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


lines = []


def record(name, path):
    (code, as_json), (yaml_code, as_yaml) = call("GET", path), call("GET", path, accept="application/yaml")
    line = {"name": name, "json": as_json}
    if code == yaml_code:
        line["yaml"] = as_yaml
    else:
        assert yaml_code == 500, (path, code, yaml_code, as_yaml)
        line["refused"] = as_yaml
    lines.append(json.dumps(line))


def create(path, body):
    code, answer = call("POST", path, body)
    assert code in (200, 201, 409), (path, code, answer)


def config_map(name, **more):
    create(MAPS, {"metadata": {"name": name, "annotations": more.pop("annotations", {})}, **more})
    record(name, f"{MAPS}/{name}")
    call("DELETE", f"{MAPS}/{name}")


def thing(name, **more):
    create(THINGS, {"apiVersion": "yaml.io/v1", "kind": "Thing", "metadata": {"name": name}, **more})
    record(name, f"{THINGS}/{name}")
    call("DELETE", f"{THINGS}/{name}")


WORDS = """a é 日本 true True yes NO on y n null ~ << = 0 -0 007 08 0x1F 0o17 0b101 0b-1 1_000 1__0 +1 -1 1. .5 ._5 .5_5 1e3 1e400 1.5E-3 .inf -.Inf .NaN nan
190:20:30 1:60 2001-01-01 2001-2-3 2001-02-30 2001-01-01T10:20:30Z 2001-1-1t1:2:3.5+24:60 2001-01-01T10:20:30 1Gi 100m 10.0.0.1 v1 - -- --- ---a ... ? ?a : :a a:
a:b # a#b , [ ] { } & * ! | > ' " % @ ` a'b a"b a\\b 99999999999999999999 18446744073709551615 -9223372036854775809 app.kubernetes.io/name {"a":1} [1]
<b>&amp;</b>""".split()
TEXTS = ["", " ", "  ", " a", "a ", "a: b", "a #b", "a# b", "- a", "? a", ": a", "--- a", "2001-01-01   10:20:30,5", "\n", "\n\n", "a\n", "a\n\n", "\na", " a\nb",
         "a\nb", "a\nb\n", "a\nb\n\n", "a \nb", "a\n b", "a\n ", "a\tb", "\ta\nb", "a\n\tb\n", "\r\n", "a\r\nb", "#a\nb", "- a\n- b\n", "é\nb", "😀", "a😀\nb",
         "\0", "\x01\x07\x08\x0b\x0c\x1b\x1f", "a\u00a0b", "a\u2028b", "a\u2029\nb", "a \u2028b", "\u2028 b", "\ufeff", "\ufeffa é", "a\ufeffb", "\ufffd", "\ue000",
         "a\u0085b", "a \u0085\u0085 b", "\u0301", "word " * 40, " word" * 40, "word  " * 40, "x" * 300, "x " + "y" * 300 + " z", "tab\t" + "word " * 40,
         "it's " + "word " * 40, "a: " + "word  " * 40, "é " * 120, "😀 " * 60, "line one\n" + "word " * 40 + "\nlast", "\u2028" + "word " * 40]
REFUSED = {"delete": "a\x7fb", "c1": "a\x80b", "fffe": "a\ufffeb", "document": "a\u0085--- b"}
KEYS = ["", " ", "a b", "a:", "#", "é", "😀", "a\nb", "a\tb", "x" * 128, "x" * 129, "é" * 64, "é" * 65, "k " * 70, "a" * 100 + "\nb", "y " * 100 + "\n"]
# The longest that are printed, and one more: `managedFields` has them with `f:` before.
LONG_KEYS = {"key1020": "k" * 1020, "key1021": "k" * 1021, "key-escaped170": "<" * 170, "key-escaped171": "<" * 171, "key-line": "a\u0085b"}
# No circles: `0x` < `1` < `07` < `0x` is what go-yaml finds, and then the order is chance.
ORDER = """a A b B é É a1 a2 a10 a02 a002 1 2 10 01 _ __ - . a. a- a_ a/ aa aB ab f:a k:{} v1 v2 v10 日 本 2024-01-01 2024-1-2
x-0 x-1 x-10 x-2 x00 x0 x000 x01 x001 x1 x100 ٣ ٤ ²""".split()
NUMBERS = [0, 1, -1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -2**63, 1.5, -0.5, 0.1, 1e-4, 1e-5, 1.5e-7, 1e-300, 123456.5, 1234567.5, 1e20, 1e21, 1.7976931348623157e308,
           832233062214053.25, 5e-324, 100000.0, 3.141592653589793]
NESTED = {"empty": {"map": {}, "list": [], "text": "", "null": None, "maps": [{}, {"a": {}}], "lists": [[], [[]], [[], []]]},
          "lists": [[1, [2, [3, [4]]]], [["a"], {"b": ["c", {"d": []}]}], [{"a": 1, "b": [1]}, {"c": {"d": "e"}}]],
          "texts": ["a\nb\n", ["a\nb", ["c\n\n"]], {"a": "b\n", "z": "\n"}, "last\n\n"], "bools": [True, False, None, [None]],
          "x" * 130: {"map": {"y" * 130: ["a", ["b"]]}, "z" * 130: "text " * 30, "w" * 130: "a\nb\n"}}
deep = "word " * 30
for _ in range(45):
    deep = {"k": deep, "l": [deep if isinstance(deep, str) else 1]}

random.seed(20261121)
PIECES = ["a", "b", " ", "  ", "\n", "\t", "'", '"', "\\", "#", ":", ": ", " #", "-", "- ", "?", "!", "&", "*", "%", "@", "`", "|", ">", "{", "}", "[", "]", ",", "=",
          "~", "null", "true", "no", "0", "1", "12", ".", "+", "_", "e3", "0x", "2001-01-01", "10:20", "é", "日本", "😀", "\u2028", "\u00a0", "\ufeff", "\r", "word ", "lorem ipsum "]
DIGITS = "0123456789+-._eExXbBoO:aFnITtZ ,"
some = lambda pieces, most: "".join(random.choice(pieces) for _ in range(random.randint(1, most)))
RANDOM = [some(PIECES, 6) for _ in range(300)] + [some(PIECES, 60) for _ in range(100)] + [some(DIGITS, 7) for _ in range(300)]
RANDOM_KEYS = {some("ab", 2) + some("AB-._/ éx", 4): n for n in range(120)}

create("/api/v1/namespaces", {"metadata": {"name": "yaml"}})
schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {"metadata": {"name": "things.yaml.io"}, "spec": {
    "group": "yaml.io", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
    "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}})
for _ in range(100):
    if call("GET", THINGS)[0] == 200:
        break

record("no-objects", MAPS)
record("not-found", MAPS + "/nope")
record("api-versions", "/api")
record("group", "/apis/apps")
record("resources", "/apis/batch/v1")
record("node-lease-definition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.yaml.io")
record("roles", "/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults&limit=12")
config_map("words", data={f"w{n}": text for n, text in enumerate(WORDS)})
config_map("texts", data={f"t{n}": text for n, text in enumerate(TEXTS)}, annotations={f"t{n}": text for n, text in enumerate(TEXTS)})
config_map("keys", data={key: "v" for key in ["a.b", "true", "1", "1.5", "null", "-", "_", "0x1", "y", "k" * 128, "k" * 129, "2001-01-01"]},
           binaryData={"b": "AAEC" * 40, "e": ""})
for name, text in REFUSED.items():
    config_map(name, data={"text": text})
thing("bare")
thing("words-listed", spec=WORDS)
thing("texts-listed", spec=TEXTS, nested=[[TEXTS]])
thing("any-keys", spec={key: key for key in KEYS}, words=[{word: 1} for word in WORDS])
thing("order", spec={key: n for n, key in enumerate(ORDER)})
thing("numbers", spec=NUMBERS)
thing("nested", spec=NESTED)
thing("deep", spec=deep)
thing("random", spec=RANDOM)
thing("random-keys", spec=RANDOM_KEYS)
for name, key in LONG_KEYS.items():
    thing(name, spec={key: 1})
create(MAPS, {"metadata": {"name": "one"}, "data": {"text": "a\nb\n"}})
create(MAPS, {"metadata": {"name": "two"}, "data": {"text": "a\nb\n\n"}, "immutable": True})
create(MAPS, {"metadata": {"name": "three"}})
record("list", MAPS)
record("page", MAPS + "?limit=1")
call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.yaml.io")
for name in ["one", "two", "three"]:
    call("DELETE", f"{MAPS}/{name}")
(HERE / "answers.jsonl").write_text("\n".join(lines) + "\n")
print(len(lines), "answers")
