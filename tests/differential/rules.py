#!/usr/bin/env python3
"""Random rules in CEL over random schemas, and objects that keep or break them, sent to watchcache and to a kube-apiserver: both must refuse the same in the same words,
warn of the same, and store the same.

    tests/differential/run.sh PEERS watchcache tests/differential/rules.py [--rules N] [--objects N] [--seed S] [--show N]

`--rules` is the number of rules, about six a definition. Each definition is sent as it is: of one with a rule that is wrong the answer is compared, then it is sent again
without that rule. Of each definition `--objects` objects are created and changed (PUT, PATCH, apply, status). Names of types have a random number in kube-apiserver, which is left out.
"""

import argparse
import copy
import json
import re
import sys
import time

from apply import APPLY, JSON, MERGE, Server, left
from schema import DEFINITIONS, Both, definition, same_form
from schemas import Cases

# The fields of every schema: what a rule may be about.
TEXTS = ["a", "ab", "abc", "", "x.y", "A", "é", "10", "true", "1h", "2020-01-01T00:00:00Z", "a,b", "10.0.0.1", "10Mi", "https://a.b:80/c?d=e", "1.2.3"]
NAMES = ["a", "b", "in", "x-y", "x.y", "__a"]


def schema(cases):
    """A schema of a spec with a field of each kind, limits here and there, and where its rules may stand."""
    maybe, one = cases.maybe, cases.one

    def text(**more):
        made = {"type": "string"} | more
        if maybe(0.6):
            made["maxLength"] = one(5, 10, 64, 1000)
        return made

    def items(of, **more):
        made = {"type": "array", "items": of} | more
        if maybe(0.6):
            made["maxItems"] = one(3, 10, 100)
        return made

    item = {"type": "object", "required": ["k"], "properties": {"k": text(), "v": {"type": "integer"}, "t": text()}}
    fields = {
        "i": {"type": "integer"}, "j": {"type": "integer", "format": "int64"}, "f": {"type": "number"}, "b": {"type": "boolean"}, "s": text(), "t": text(),
        "e": {"type": "string", "enum": ["a", "ab", "c"]}, "d": {"type": "string", "format": "duration"}, "w": {"type": "string", "format": "date-time"}, "y": {"type": "string", "format": "byte"},
        "is": {"x-kubernetes-int-or-string": True}, "n": {"type": "string", "nullable": True}, "l": items({"type": "integer"}), "ls": items(text()),
        "set": items(text(), **{"x-kubernetes-list-type": "set"}), "lo": items(copy.deepcopy(item)),
        "lm": items(copy.deepcopy(item), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
        "m": {"type": "object", "additionalProperties": text()}, "mi": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}, "y": text(), "in": text(), "x-y": {"type": "integer"}}},
        "p": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "def": {"type": "integer", "default": 3},
    }
    if maybe(0.3):
        fields["m"]["maxProperties"] = one(2, 10)
    spec = {"type": "object", "properties": fields}
    if maybe(0.3):
        spec["required"] = cases.random.sample(["i", "s", "l"], 2)
    return {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {"phase": text(), "n": {"type": "integer"}}}}}


def term(cases, kind, depth):
    """An expression of a type, by its first letter: bool, int, double, string, list of ints, texts."""
    one, sub = cases.one, lambda kind: term(cases, kind, depth - 1)
    if depth <= 0:
        return {
            "b": lambda: one("true", "false", "self.b"), "i": lambda: one("self.i", "self.j", "1", "0", "-1", "9223372036854775807", "self.def"), "f": lambda: one("self.f", "1.5", "0.0"),
            "s": lambda: one("self.s", "self.t", "self.e", "'a'", "'ab'", "\"é\"", "''"), "l": lambda: one("self.l", "[1, 2]", "[]"), "t": lambda: one("self.ls", "self.set", "['a', 'b']"),
        }[kind]()
    return {
        "b": lambda: one(
            f"{sub('i')} {one('<', '<=', '==', '!=', '>', '>=')} {sub(one('i', 'i', 'i', 'f'))}", f"{sub('s')} == {sub('s')}", f"({sub('b')} && {sub('b')})", f"({sub('b')} || {sub('b')})", f"!({sub('b')})",
            f"has(self.{one('i', 's', 'o', 'l', 'n', 'm', 'zz', 'def')})", f"has(self.o.{one('x', 'y', 'zz', '__in__', 'x__dash__y')})", f"{sub('s')}.{one('startsWith', 'endsWith', 'contains', 'matches')}({sub('s')})",
            f"{sub('i')} in {sub('l')}", f"{sub('s')} in {sub('t')}", f"{sub('s')} in self.{one('m', 'mi')}", f"{sub('l')}.{one('all', 'exists', 'exists_one')}(x, x {one('<', '==', '>')} {sub('i')})",
            f"{sub('t')}.all(x, {one(*OF_TEXTS)})", f"self.lm.exists(x, x.k == {sub('s')})", f"self.lo.all(x, !has(x.v) || x.v > {sub('i')})",
            f"self.m.all(k, k == self.m[k] || {sub('b')})", f"type(self.is) == {one('int', 'string')}", f"{sub('t')}.isSorted()", f"self.n == null", f"self.d > duration('{one('1h', '5s', '1d')}')",
            f"self.w {one('<', '>')} timestamp('2021-01-01T00:00:00Z')", f"size(self.{one('l', 'ls', 'm', 's', 'y', 'lm', 'p', 'o')}) < {sub('i')}", f"sets.contains({sub('t')}, {sub('t')})", f"isQuantity({sub('s')})",
            f"quantity({sub('s')}).isGreaterThan(quantity('1Mi'))", f"isIP({sub('s')})", f"ip({sub('s')}).family() == 4", f"isURL({sub('s')}) && url({sub('s')}).getHost() == 'a.b'", f"cidr('10.0.0.0/8').containsIP({sub('s')})",
            f"self.?o.x.hasValue()", f"self.?o.?y.orValue('a') == {sub('s')}", f"{sub('b')} ? {sub('b')} : {sub('b')}", f"semver({sub('s')}).major() == 1", f"self.l == self.l", f"self.lm == self.lm && self.set == self.set",
            f"format.dns1123Label().validate({sub('s')}).hasValue()", f"self.l.all(i, x, i < 3 || x > {sub('i')})", f"self.m.exists(k, v, k == v)", f"self.o == self.o"),
        "i": lambda: one(f"({sub('i')} {one('+', '-', '*', '/', '%')} {sub('i')})", f"size({sub(one('s', 'l', 't'))})", f"{sub('l')}[{one('0', '1', '5')}]", f"{sub('l')}.{one('sum', 'max', 'min')}()", "int(self.f)",
                         f"int({sub('s')})", f"{sub('s')}.indexOf({sub('s')})", f"self.mi[{sub('s')}]", f"{sub('b')} ? {sub('i')} : {sub('i')}", f"-{sub('i')}", f"self.o.{one('x', 'x__dash__y')}", f"{sub('l')}.map(x, x * 2)[0]",
                         f"{sub('l')}.filter(x, x > 1).size()", "self.w.getFullYear()", "self.d.getHours()", f"{sub('t')}.indexOf('a')", f"{sub('l')}.distinct().size()", f"[[1], {sub('l')}].flatten().size()"),
        "f": lambda: one(f"{sub('f')} {one('+', '*', '/')} {sub('f')}", f"double({sub('i')})", sub("f")),
        "s": lambda: one(f"{sub('s')} + {sub('s')}", f"string({sub(one('i', 'b', 'f'))})", f"{sub('s')}.{one('lowerAscii', 'upperAscii', 'trim')}()", f"{sub('s')}.replace('a', {sub('s')})", f"{sub('s')}.substring({one('0', '1', '5')})",
                         f"{sub('t')}[0]", f"{sub('t')}.join(',')", f"self.m[{sub('s')}]", "self.o.__in__", f"{sub('s')}.split(',')[0]", f"{sub('s')}.find('[a-z]+')", f"'%s-%d'.format([{sub('s')}, {sub('i')}])", f"{sub('s')}.charAt(0)"),
        "l": lambda: one(f"{sub('l')} + {sub('l')}", f"{sub('l')}.map(x, x + {sub('i')})", f"{sub('l')}.filter(x, x {one('<', '>')} {sub('i')})", f"[{sub('i')}, {sub('i')}]", f"{sub('l')}.slice(0, 1)", f"{sub('l')}.sort()"),
        "t": lambda: one(f"{sub('t')} + {sub('t')}", f"{sub('t')}.map(x, x + 'a')", f"self.lm.map(x, x.k)", f"self.m.map(k, self.m[k])", f"{sub('s')}.split(',')", f"{sub('s')}.findAll('[a-z]')", f"{sub('t')}.filter(x, x != 'a')"),
    }[kind]()


OF_TEXTS = ["size(x) < 3", "x.startsWith(self.s)", "x == x", "x.matches('^[a-z]+$')"]
# What does not compile, or is no rule.
WRONG = ["self.zz == 1", "self.s + 1 == 2", "self.i", "1 +", "'a", "self.s.foo()", "foo(self.s)", "self.l.all(x, x.y)", "oldSelf", "size(1) == 1", "self.p.a == 1", "[1, 'a'].size() == 2", "{'a': 1, 1: 2}.size() == 2",
         "self.i == 'a'", "x == 1", "self.s.matches('(')", "self.b && self.i", "!self.i == 1", "self.e in self.i", "has(self)", "has(self.i.x)", "duration('x') > self.d", "timestamp('x') == self.w", "self.metadata.name == 'a'",
         "ip('x') == ip('y')", "quantity('x').sign() == 1", "self . s == \n 'a'", "self.s == 'a' // c", "true ? 1 : 'a'", "self.l.map(x, x) == self.ls", "oldSelf.zz == 1", "self.all(x, x == 1)", "1 == 1u", "optional.of(1)", "math.abs(1) == 1",
         "'a'.reverse() == 'a'", "cel.bind(x, 1, x == 1)", "base64.encode(b'a') == ''", "self.l.exists(x, x, true)", "self.l.all(1, true)", "a.b.c", "type(self.i) == int && dyn(self.i) == 'a'"]


def rule(cases):
    one, maybe = cases.one, cases.maybe
    if maybe(0.15):
        made = {"rule": one(*WRONG)}
    elif maybe(0.2):
        made = {"rule": one("self == oldSelf", "self.i >= oldSelf.i", "oldSelf.s == self.s || self.b", "size(self.l) >= size(oldSelf.l)", "self.lm.all(x, oldSelf.lm.exists(y, y.k == x.k))", "!has(oldSelf.s) || self.s == oldSelf.s")}
        if maybe(0.3):
            made = {"rule": one("!oldSelf.hasValue() || self.i > 1", "oldSelf.orValue(self) == self", "oldSelf.?i.orValue(0) <= self.i"), "optionalOldSelf": True}
    else:
        made = {"rule": term(cases, "b", one(1, 1, 2, 2, 3))}
    if maybe(0.3):
        made["message"] = one("no", " with spaces ", "two\nlines", "", "é")
    if maybe(0.3):
        made["messageExpression"] = one("'i is ' + string(self.i)", "self.s", "self.s + '\\n'", "''", "1", "self.zz", "string(self.l[7])", "'%d'.format([self.i])", " ")
    if maybe(0.2):
        made["reason"] = one("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate", "Foo")
    if maybe(0.2):
        made["fieldPath"] = one(".i", ".s", ".o.x", ".m['a b']", ".zz", "i", ".o['x-y']", ".lm[0]", ".o")
    if maybe(0.05):
        made["optionalOldSelf"] = one(True, False)
    return made


def ruled(cases, made, count):
    """Puts rules into a schema: most at the spec, some below it, where `self` is something else."""
    spec = made["properties"]["spec"]
    places = [spec] * 6
    for _ in range(count):
        at = cases.one(*places)
        at.setdefault("x-kubernetes-validations", []).append(rule(cases))
    below = [
        (spec["properties"]["i"], ["self > 0", "self != 5", "self == oldSelf", "self < 0 || self > 1", "self.x == 1"]), (spec["properties"]["s"], ["self != 'ab'", "size(self) < 3", "self.matches('^[a-z]*$')", "self == oldSelf", "self"]),
        (spec["properties"]["l"], ["self.size() < 3", "self.all(x, x > 0)", "self == oldSelf", "self.sum() < 5"]), (spec["properties"]["l"]["items"], ["self > 0", "self != oldSelf"]),
        (spec["properties"]["lm"]["items"], ["self.k != 'ab'", "!has(self.v) || self.v > 0", "self.v >= oldSelf.v", "self.k == self.t"]), (spec["properties"]["m"], ["self.all(k, size(k) < 3)", "'a' in self", "self.size() < 3"]),
        (spec["properties"]["m"]["additionalProperties"], ["self != 'ab'", "self == oldSelf"]), (spec["properties"]["o"], ["self.x > 0", "has(self.y)", "self.__in__ == 'a'", "self.x__dash__y > self.x"]),
        (made, ["self.spec.i > 0", "self.metadata.name.startsWith('o')", "self.kind == 'x' || true", "has(self.status) || true", "self.metadata.labels.size() > 0", "size(self.metadata.generateName) >= 0"]),
        (made["properties"]["status"], ["self.n > 0", "self.phase != 'ab'", "self.n >= oldSelf.n"]), (spec["properties"]["n"], ["self == 'a'"]), (spec["properties"]["is"], ["type(self) == int", "self == 1 || self == 'a'", "self.startsWith('a')"]),
        (spec["properties"]["w"], ["self > timestamp('2020-01-01T00:00:00Z')"]), (spec["properties"]["d"], ["self < duration('2h')"]), (spec["properties"]["y"], ["size(self) < 3"]), (spec["properties"]["p"], ["self.a == 1", "has(self.a)"])]
    for _ in range(max(1, count // 2)):
        place, rules = cases.one(*below)
        place.setdefault("x-kubernetes-validations", []).append({"rule": cases.one(*rules)} | ({"message": "m"} if cases.maybe(0.3) else {}))
    return made


def value(cases):
    """The spec of an object: most fields, most of them right."""
    one = cases.one
    numbers, texts = [0, 1, 2, 5, 7, -1, 9223372036854775807], TEXTS
    items = lambda: [{"k": k} | ({"v": one(0, 1, 5, -1)} if cases.maybe(0.6) else {}) | ({"t": one(*texts)} if cases.maybe(0.3) else {}) for k in cases.random.sample(["a", "ab", "c", "d"], one(0, 1, 2, 3))]
    made = {
        "i": one(*numbers), "j": one(*numbers), "f": one(0, 1.5, 2, -0.5, 1e300), "b": one(True, False), "s": one(*texts), "t": one(*texts), "e": one("a", "ab", "c"), "d": one("1h", "5s", "1h30m", "0"),
        "w": one("2020-01-01T00:00:00Z", "2022-03-04T05:06:07.5Z"), "y": one("YQ==", "YWJj", ""), "is": one(1, "a", "10%", 5), "n": one(None, "a", "b"), "l": [one(*numbers[:6]) for _ in range(one(0, 1, 2, 4))],
        "ls": [one(*texts) for _ in range(one(0, 1, 3))], "set": cases.random.sample(["a", "ab", "c", "d"], one(0, 1, 2)), "lo": items(), "lm": items(), "m": {k: one(*texts) for k in cases.random.sample(["a", "ab", "c d", ""], one(0, 1, 2))},
        "mi": {k: one(1, 2) for k in cases.random.sample(["a", "ab"], one(0, 1, 2))}, "o": {k: v for k, v in {"x": one(0, 1), "y": one(*texts), "in": one(*texts), "x-y": one(1, 2)}.items() if cases.maybe(0.7)}, "p": one({}, {"a": 1}, {"a": "x"}),
    }
    return {name: member for name, member in made.items() if cases.maybe(0.85)}


def told_alike(answer):
    """What must be the same of an answer: types have a random number in their names."""
    return json.loads(re.sub(r"selfType\d+", "selfType", json.dumps(answer)))


class BothOfRules(Both):
    def compare(self, what, ours, theirs):
        return super().compare(what, tuple(told_alike(part) for part in ours), tuple(told_alike(part) for part in theirs))


def without_wrong(made, answer):
    """The definition without the rules that kube-apiserver does not take."""
    paths = [cause["field"] for cause in answer.get("details", {}).get("causes", [])]
    gone = set()
    for path in paths:
        found = re.match(r"(spec\..*\.openAPIV3Schema.*?)\.?x-kubernetes-validations\[(\d+)\]", path)
        if found:
            gone.add((found[1], int(found[2])))
    left_over = copy.deepcopy(made)

    def walk(node, path):
        rules = node.get("x-kubernetes-validations")
        if rules:
            kept = [rule for at, rule in enumerate(rules) if (path, at) not in gone]
            node["x-kubernetes-validations"] = kept
            if not kept:
                del node["x-kubernetes-validations"]
        for name, below in (node.get("properties") or {}).items():
            walk(below, f"{path}.properties[{name}]")
        for name in "items", "additionalProperties":
            if isinstance(node.get(name), dict):
                walk(node[name], f"{path}.{name}")

    walk(left_over["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "spec.validation.openAPIV3Schema")
    return left_over if gone else None


class Story:
    """What happens to one object."""

    def __init__(self, both, cases, names, group, schema):
        self.both, self.cases, self.schema = both, cases, json.dumps(schema)
        self.collection, self.head = f"/apis/{group}/v1/{names['plural']}", {"apiVersion": f"{group}/v1", "kind": names["kind"]}

    def tell(self, name):
        cases, path = self.cases, f"{self.collection}/{name}"
        for _ in range(4):
            object = self.head | {"metadata": {"name": name}, "spec": value(cases)}
            answers = self.both.ask(self.schema, "POST", self.collection, object)
            if [answer[0] for answer in answers] == [201, 201]:
                break
        else:
            return
        for _ in range(5):
            live = [server.ask("GET", path)[1] for server in (self.both.ours, self.both.theirs)]
            new, some, how, status = value(cases), cases.random.sample(sorted(value(cases)), 3), cases.random.random(), {"phase": cases.one(*TEXTS), "n": cases.one(0, 1, 2, 3)}
            spec = live[1].get("spec", {}) | {name: new[name] for name in some if name in new}
            if cases.maybe(0.1):
                spec = new
            if how < 0.4:
                requests = [("PUT", path, self.head | {"metadata": {"name": name, "resourceVersion": one["metadata"]["resourceVersion"]}, "spec": spec}, JSON) for one in live]
            elif how < 0.6:
                requests = [("PATCH", path, {"spec": {name: new.get(name) for name in some}}, MERGE)] * 2
            elif how < 0.7:
                requests = [("PATCH", path, {"metadata": {"labels": {"a": cases.one("b", "c")}}}, MERGE)] * 2
            elif how < 0.85:
                requests = [("PATCH", f"{path}?fieldManager=m&force=true", self.head | {"metadata": {"name": name}, "spec": {name: new[name] for name in some if name in new}}, APPLY)] * 2
            else:
                requests = [("PATCH", f"{path}/status", {"status": status}, MERGE)] * 2
            answers = [server.ask(*request) for server, request in zip((self.both.ours, self.both.theirs), requests)]
            self.both.codes[f"{requests[1][0]} {answers[1][0]}"] += 1
            if not self.both.compare(f"{self.schema}\n  {json.dumps(left(live[1]))}\n  {requests[1]}", *answers):
                return


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ["ours", "theirs", "ca", "token", "known"]:
        arguments.add_argument(f"--{flag}", required=True)
    for flag, default in [("rules", 150), ("objects", 4), ("seed", 1), ("show", 20)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    both = BothOfRules(*(Server(url, options.ca, options.token) for url in (options.ours, options.theirs)), options.show)
    group, nth, sent = f"r{options.seed}.example.com", 0, 0
    while sent < options.rules:
        stories = []
        for _ in range(20):
            cases = Cases(options.seed * 1_000_003 + nth)
            count = cases.one(1, 3, 6)
            made = definition(group, nth, ruled(cases, schema(cases), count), subresources={"status": {}})
            nth, sent = nth + 1, sent + count + max(1, count // 2)
            for _ in range(4):
                answers = both.ask("definition", "POST", DEFINITIONS, made)
                if answers[1][0] == 201 or answers[0][0] == 201:
                    break
                made = without_wrong(made, answers[1][1])
                if made is None:
                    break
            if [answer[0] for answer in answers] == [201, 201]:
                stories.append(Story(both, cases, made["spec"]["names"], group, made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
            elif 201 in [answer[0] for answer in answers]:
                for server in both.ours, both.theirs:
                    server.ask("DELETE", f"{DEFINITIONS}/{definition(group, nth - 1, {})['metadata']['name']}")
        for story in stories:
            both.wait(story.collection)
        time.sleep(3)
        for story in stories:
            for object in range(options.objects):
                story.tell(f"o{object}")
            for server in both.ours, both.theirs:
                server.ask("DELETE", f"{DEFINITIONS}/{story.collection.rsplit('/', 1)[1]}.{group}")
        print(f"{nth} definitions, {sent} rules: {both.same} equal, {both.different} differ", file=sys.stderr, flush=True)
    print(f"{sent} rules in {nth} definitions: {both.same} answers equal, {both.different} differ; " + ", ".join(f"{count} {what}" for what, count in sorted(both.codes.items())))
    sys.exit(both.different > 0 or both.same == 0)


if __name__ == "__main__":
    main()
