#!/usr/bin/env python3
"""random.py SEED COUNT: prints COUNT random expressions with their variables as lines of JSON for the oracle. Most have right types, some do not."""
import json
import random
import sys

VARIABLES = {
    "i": ("int", 3), "j": ("int", -7), "s": ("string", "héllo"), "sized": ("string", "hello"), "b": ("bool", True), "f": ("double", 1.5),
    "l": ("list(int)", [1, 2, 3]), "sizedList": ("list(string)", ["ab", "c", "ab"]), "m": ("map(string,int)", {"a": 1}),
    "sizedMap": ("map(string,list(int))", {"k": [4]}), "d": ("dyn", {"x": 1, "y": "z", "l": [1, "two"], "n": None}), "o": ("dyn", [1, 2]),
}


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.locals = []
        self.kubernetes = False

    def pick(self, *choices):
        return self.random.choice(choices)

    def library(self, kind, depth):
        """A call of a function that only kube-apiserver's environment has."""
        text, count = lambda: self.of("string", depth), lambda: self.pick("0", "1", "2", "-1", "7", "i")
        choices = {
            "int": [
                lambda: f"{text()}.{self.pick('indexOf', 'lastIndexOf')}({text()})", lambda: f"{text()}.indexOf({text()}, {count()})",
                lambda: f"{self.of('list', depth)}.{self.pick('sum', 'min', 'max')}()", lambda: f"l.{self.pick('indexOf', 'lastIndexOf')}({self.of('int', depth)})",
                lambda: f"{self.quantity()}.{self.pick('sign', 'asInteger')}()", lambda: f"{self.quantity()}.compareTo({self.quantity()})",
                lambda: f"{self.version()}.{self.pick('major', 'minor', 'patch')}()", lambda: f"{self.version()}.compareTo({self.version()})",
                lambda: f"ip({self.address()}).family()", lambda: f"cidr({self.network()}).prefixLength()",
            ],
            "double": [lambda: f"{self.quantity()}.asApproximateFloat()", lambda: f"[1.5, {self.of('double', depth)}].{self.pick('sum', 'max')}()"],
            "string": [
                lambda: f"{text()}.{self.pick('lowerAscii', 'upperAscii', 'trim')}()", lambda: f"{text()}.charAt({count()})",
                lambda: f"{text()}.substring({count()})", lambda: f"{text()}.substring({count()}, {count()})", lambda: f"{text()}.replace({text()}, {text()})",
                lambda: f"{text()}.replace('a', {text()}, {count()})", lambda: f"{self.of('strings', depth)}.join({text()})", lambda: f"strings.quote({text()})",
                lambda: f"'%s|%d|%x'.format([{text()}, {self.of('int', depth)}, {self.pick('i', 's')}])", lambda: f"'%s'.format([{self.of('dyn', depth)}])",
                lambda: f"'%.2f %e'.format([{self.of('double', depth)}, f])", lambda: f"{text()}.find({self.pattern()})", lambda: f"{self.of('strings', depth)}.max()",
                lambda: f"url({self.link()}).{self.pick('getScheme', 'getHost', 'getHostname', 'getPort', 'getEscapedPath')}()",
                lambda: f"string(ip({self.address()}))", lambda: f"string(cidr({self.network()}).{self.pick('masked', 'ip')}())",
            ],
            "bool": [
                lambda: f"{self.pick('isQuantity', 'isSemver', 'isURL', 'isIP', 'isCIDR')}({self.pick(text, self.link, self.address, self.network)()})",
                lambda: f"{self.of('list', depth)}.isSorted()", lambda: f"sets.{self.pick('contains', 'equivalent', 'intersects')}({self.of('list', depth)}, l)",
                lambda: f"{self.quantity()}.{self.pick('isGreaterThan', 'isLessThan')}({self.quantity()})", lambda: f"({self.quantity()} == {self.quantity()})",
                lambda: f"cidr({self.network()}).containsIP({self.address()})", lambda: f"cidr({self.network()}).containsCIDR({self.network()})",
                lambda: f"ip({self.address()}).{self.pick('isLoopback', 'isGlobalUnicast', 'isUnspecified', 'isLinkLocalUnicast')}()",
                lambda: f"ip.isCanonical({self.address()})", lambda: f"{self.version()}.isLessThan({self.version()})",
                lambda: f"format.{self.pick('dns1123Label', 'dns1123Subdomain', 'uuid', 'uri', 'labelValue', 'qualifiedName')}().validate({text()}).hasValue()",
                lambda: f"(url({self.link()}) == url({self.link()}))",
            ],
            "list": [
                lambda: f"{self.of('list', depth)}.slice({count()}, {count()})", lambda: f"[{self.of('list', depth)}, l].flatten()",
                lambda: f"{self.of('list', depth)}.{self.pick('distinct', 'sort', 'reverse')}()", lambda: f"lists.range({count()})",
                lambda: f"{self.of('list', depth)}.sortBy({self.bound('int')}, {self.body('int', depth)})",
            ],
            "strings": [
                lambda: f"{text()}.split({text()})", lambda: f"{text()}.split({text()}, {count()})", lambda: f"{text()}.findAll({self.pattern()})",
                lambda: f"{text()}.findAll({self.pattern()}, {count()})", lambda: f"{self.of('strings', depth)}.{self.pick('sort', 'reverse', 'distinct')}()",
            ],
            "map": [lambda: f"{self.of('map', depth)}"],
            "dyn": [lambda: f"url({self.link()}).getQuery()", lambda: f"{self.of('dyn', depth)}.trim()"],
        }
        return self.pick(*choices[kind])()

    def quantity(self):
        return self.pick(*(f"quantity('{text}')" for text in ("1", "1.5Gi", "100m", "1e3", "12Mo", "0", "-3k", "9223372036854775807", "1n")),
                         "quantity('2').add(quantity('500m'))", "quantity('1').sub(3)")

    def version(self):
        return self.pick(*(f"semver('{text}')" for text in ("1.2.3", "1.2.3-alpha.1", "0.0.1+b", "1.2", "v1.0.0")), "semver('v1', true)")

    def address(self):
        return self.pick("'127.0.0.1'", "'::1'", "'10.0.0.1'", "'2001:DB8::1'", "'1.2.3'", "'::ffff:1.2.3.4'", "s")

    def network(self):
        return self.pick("'10.0.0.0/8'", "'10.1.2.3/16'", "'::/0'", "'2001:db8::/32'", "'1.2.3.4/33'", "'fe80::%1/64'")

    def link(self):
        return self.pick("'https://a.b:80/c?d=e&d=f'", "'http://[::1]:8080/x%20y'", "'/path'", "'::bad'", "'ftp://u@h'", "sized")

    def pattern(self):
        return self.pick("'a+'", "'[0-9]+'", "'(l|o)'", "''", "'['", "sized")

    def of(self, kind, depth):
        if self.kubernetes and depth > 0 and self.random.random() < 0.35:
            return self.library(kind, depth - 1)
        if self.random.random() < 0.03:
            kind = self.pick("int", "string", "bool", "double", "list", "map", "strings", "dyn")
        if depth <= 0:
            return self.leaf(kind)
        return getattr(self, kind)(depth - 1)

    def leaf(self, kind):
        found = [name for name, of in self.locals if of == kind]
        if found and self.random.random() < 0.6:
            return self.random.choice(found)
        return {
            "int": lambda: self.pick("i", "j", "0", "1", "-5", "9223372036854775807", "0x10"),
            "string": lambda: self.pick("s", "sized", "'a'", "'héé'", "''", "'abc' + 'd'", "r'^a+$'"),
            "bool": lambda: self.pick("b", "true", "false"),
            "double": lambda: self.pick("f", "1.5", "-0.0", "1e3"),
            "list": lambda: self.pick("l", "[]", "[1]", "[1, 2, 3]"),
            "strings": lambda: self.pick("sizedList", "['a']", "['x', 'y']"),
            "map": lambda: self.pick("m", "{}", "{'a': 1}"),
            "dyn": lambda: self.pick("d", "o", "d.x", "d.y", "d.l", "dyn(1)", "d.missing", "o[0]", "d.n", "d['x']"),
        }[kind]()

    def int(self, depth):
        return self.pick(
            lambda: f"({self.of('int', depth)} {self.pick('+', '-', '*', '/', '%')} {self.of('int', depth)})",
            lambda: f"size({self.of(self.pick('string', 'list', 'map', 'strings'), depth)})",
            lambda: f"{self.of(self.pick('string', 'list', 'strings', 'map'), depth)}.size()",
            lambda: f"({self.of('bool', depth)} ? {self.of('int', depth)} : {self.of('int', depth)})",
            lambda: f"{self.of('list', depth)}[{self.of('int', depth)}]",
            lambda: f"{self.of('map', depth)}[{self.of('string', depth)}]",
            lambda: f"{self.of('map', depth)}.a",
            lambda: f"-{self.of('int', depth)}",
            lambda: f"int({self.of(self.pick('double', 'string', 'int'), depth)})",
            lambda: f"{self.of('map', depth)}.?{self.pick('a', 'zz')}.orValue({self.of('int', depth)})",
            lambda: f"{self.of('list', depth)}[?{self.of('int', depth)}].orValue(4)",
            lambda: f"timestamp('2020-01-02T03:04:05Z').{self.pick('getFullYear', 'getDayOfYear', 'getHours')}()",
            lambda: f"optional.of({self.of('int', depth)}).optMap({self.bound('int')}, {self.body('int', depth)}).value()",
        )()

    def double(self, depth):
        return self.pick(
            lambda: f"({self.of('double', depth)} {self.pick('+', '-', '*', '/')} {self.of('double', depth)})",
            lambda: f"double({self.of('int', depth)})",
        )()

    def string(self, depth):
        return self.pick(
            lambda: f"({self.of('string', depth)} + {self.of('string', depth)})",
            lambda: f"string({self.of(self.pick('int', 'bool', 'double'), depth)})",
            lambda: f"({self.of('bool', depth)} ? {self.of('string', depth)} : {self.of('string', depth)})",
            lambda: f"{self.of('strings', depth)}[{self.of('int', depth)}]",
            lambda: f"string(bytes({self.of('string', depth)}))",
        )()

    def bool(self, depth):
        compared = self.pick("int", "string", "double", "bool")
        return self.pick(
            lambda: f"({self.of(compared, depth)} {self.pick('==', '!=', '<', '<=', '>', '>=')} {self.of(compared, depth)})",
            lambda: f"({self.of('int', depth)} {self.pick('<', '>=', '==')} {self.of('double', depth)})",
            lambda: f"({self.of('bool', depth)} && {self.of('bool', depth)} || {self.of('bool', depth)})",
            lambda: f"!{self.of('bool', depth)}",
            lambda: f"{self.of('string', depth)}.{self.pick('startsWith', 'endsWith', 'contains', 'matches')}({self.of('string', depth)})",
            lambda: f"({self.of('int', depth)} in {self.of('list', depth)})",
            lambda: f"({self.of('string', depth)} in {self.of(self.pick('strings', 'map'), depth)})",
            lambda: f"{self.of('list', depth)}.{self.pick('all', 'exists', 'exists_one')}({self.bound('int')}, {self.body('bool', depth)})",
            lambda: f"{self.of('strings', depth)}.{self.pick('all', 'exists')}({self.bound('string')}, {self.body('bool', depth)})",
            lambda: f"m.{self.pick('all', 'exists')}({self.bound('string')}, {self.body('bool', depth)})",
            lambda: f"l.all({self.bound('int')}, {self.bound('int')}, {self.body('bool', depth, 2)})",
            lambda: f"has({self.pick('d', 'm', 'd.l', 'sizedMap')}.{self.pick('x', 'a', 'k', 'zz')})",
            lambda: f"({self.of('dyn', depth)} {self.pick('==', '!=', '<')} {self.of(self.pick('dyn', 'int', 'string'), depth)})",
            lambda: f"({self.of(compared, depth)} == {self.of(compared, depth)})",
            lambda: f"({self.of('list', depth)} == {self.of('list', depth)})",
            lambda: f"d.?{self.pick('x', 'zz')}.hasValue()",
            lambda: f"type({self.of('dyn', depth)}) == {self.pick('int', 'string', 'list')}",
        )()

    def dyn(self, depth):
        return self.pick(
            lambda: f"dyn({self.of(self.pick('int', 'string', 'bool', 'list', 'map'), depth)})",
            lambda: f"{self.of('dyn', depth)}[{self.of(self.pick('int', 'string'), depth)}]",
            lambda: f"({self.of('bool', depth)} ? {self.of('dyn', depth)} : {self.of('int', depth)})",
            lambda: f"({self.of('dyn', depth)} + {self.of('dyn', depth)})",
            lambda: f"({self.of('bool', depth)} ? d : o).x",
        )()

    def list(self, depth):
        return self.pick(
            lambda: f"({self.of('list', depth)} + {self.of('list', depth)})",
            lambda: f"[{self.of('int', depth)}, {self.of('int', depth)}]",
            lambda: f"[{self.of('int', depth)}, ?m.?{self.pick('a', 'q')}]",
            lambda: f"{self.of('list', depth)}.map({self.bound('int')}, {self.body('int', depth)})",
            lambda: f"{self.of('strings', depth)}.map({self.bound('string')}, {self.body('bool', depth)}, size({self.locals_last('string')}))",
            lambda: f"{self.of('list', depth)}.filter({self.bound('int')}, {self.body('bool', depth)})",
            lambda: f"sizedMap[{self.of('string', depth)}]",
            lambda: f"l.transformList({self.bound('int')}, {self.bound('int')}, {self.body('int', depth, 2)})",
        )()

    def strings(self, depth):
        return self.pick(
            lambda: f"({self.of('strings', depth)} + {self.of('strings', depth)})",
            lambda: f"[{self.of('string', depth)}]",
            lambda: f"{self.of('list', depth)}.map({self.bound('int')}, {self.body('string', depth)})",
            lambda: f"{self.of('strings', depth)}.filter({self.bound('string')}, {self.body('bool', depth)})",
        )()

    def map(self, depth):
        return self.pick(
            lambda: f"{{{self.of('string', depth)}: {self.of('int', depth)}}}",
            lambda: f"m.transformMap({self.bound('string')}, {self.bound('int')}, {self.body('int', depth, 2)})",
            lambda: f"({self.of('bool', depth)} ? {self.of('map', depth)} : {self.of('map', depth)})",
        )()

    def bound(self, kind):
        name = f"v{len(self.locals)}"
        self.locals.append((name, kind))
        return name

    def body(self, kind, depth, count=1):
        text = self.of(kind, depth)
        self.last = self.locals[-1][0]
        del self.locals[len(self.locals) - count:]
        return text

    def locals_last(self, kind):
        return self.last


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    maker = Maker(seed)
    variables = {name: {"t": kind, "j": value} for name, (kind, value) in VARIABLES.items()}
    for at in range(count):
        maker.locals.clear()
        maker.kubernetes = at % 2 == 0
        text = maker.of(maker.pick("bool", "bool", "int", "string", "list", "dyn", "map"), maker.random.randint(1, 4))
        if maker.random.random() < 0.05:
            cut = maker.random.randrange(len(text))
            text = text[:cut] + maker.pick("", "(", ")", ",", "'", "?", ".", " ") + text[cut + maker.random.randint(0, 2):]
        print(json.dumps({"e": text, "v": variables, "k": maker.kubernetes}))


main()
