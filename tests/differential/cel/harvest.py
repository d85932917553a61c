#!/usr/bin/env python3
"""harvest.py MODULES [kubernetes]: prints every text that stands in the tests of cel-go and of Kubernetes' libraries and policies as an expression for the oracle,
with a variable of each type: expressions, and much that is none. MODULES is Go's folder of modules."""
import glob
import json
import re
import sys

CEL = "github.com/google/cel-go@v0.26.0/"
FILES = [CEL + path for path in ("parser/*_test.go", "checker/*_test.go", "interpreter/*_test.go", "cel/*_test.go", "common/types/*_test.go", "ext/*_test.go",
                                 "common/stdlib/standard.go", "cel/library.go", "ext/*.go", "policy/*_test.go")] + [
    "k8s.io/apiserver@v0.36.3/pkg/cel/library/*_test.go",
    "k8s.io/apiextensions-apiserver@v0.36.3/pkg/apiserver/schema/cel/*_test.go",
    "k8s.io/apiserver@v0.36.3/pkg/admission/plugin/policy/*/*_test.go",
]
VARIABLES = {
    "x": ("int", 3), "y": ("string", "abc"), "z": ("bool", True), "a": ("dyn", {"b": {"c": [1, 2, "x"]}, "s": "t", "n": 2.5}),
    "m": ("map(string,int)", {"a": 1, "b": 2}), "l": ("list(int)", [1, 2, 3]),
    "self": ("dyn", {"val1": 1, "val2": "a", "val3": "kitten", "list": [1, 2, 3], "set": ["a", "b"], "map": {"k": "v"}, "a": "x", "b": "y"}),
    "sizedList": ("list(string)", ["ab", "c"]), "sizedMap": ("map(string,list(string))", {"k": ["v"]}), "sized": ("string", "hello"),
    "input": ("list(string)", ["a", "b"]), "request": ("dyn", {"auth": {"claims": {"a": ["b"]}}}), "u": ("uint", None), "f": ("double", 1.5),
    "o": ("optional_type(int)", None), "n": ("null", None), "items": ("list(map(string,dyn))", [{"a": 1}, {"b": "c"}]),
    "t": ("timestamp", None), "dur": ("duration", None), "by": ("bytes", None),
}


def texts(code):
    yield from re.findall(r"`([^`]{1,3000})`", code)
    for text in re.findall(r'"((?:[^"\\\n]|\\.){1,500})"', code):
        try:
            yield json.loads(f'"{text}"')
        except ValueError:
            pass


def main():
    found = {}
    for path in FILES:
        for name in sorted(glob.glob(f"{sys.argv[1]}/{path}")):
            with open(name, encoding="utf-8") as file:
                found.update(dict.fromkeys(texts(file.read())))
    variables = {name: {"t": kind} | ({} if value is None else {"j": value}) for name, (kind, value) in VARIABLES.items()}
    for text in found:
        print(json.dumps({"e": text, "v": variables, "k": len(sys.argv) > 2}))


main()
