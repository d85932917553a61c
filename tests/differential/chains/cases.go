package main

import (
	"crypto"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"time"
)

// shown is a chain that a peer shows, and what the other side trusts.
type shown struct {
	name  string
	host  string
	roots []*cert
	chain []*cert
}

const host = "a.example.com"

var (
	server, client, code, every, odd = []int{1, 3, 6, 1, 5, 5, 7, 3, 1}, []int{1, 3, 6, 1, 5, 5, 7, 3, 2}, []int{1, 3, 6, 1, 5, 5, 7, 3, 3}, []int{2, 5, 29, 37, 0}, []int{1, 2, 3, 4}
	unknown                          = []int{1, 2, 3, 4, 5}
)

func root(change ...func(*cert)) *cert {
	return built(&cert{name: "root", key: p256(), ca: 1, pathLen: -1, usage: 0x06}, change)
}

func between(by *cert, change ...func(*cert)) *cert {
	return built(&cert{name: "between", key: p256(), by: by, ca: 1, pathLen: -1, usage: 0x06}, change)
}

func leaf(by *cert, change ...func(*cert)) *cert {
	return built(&cert{name: "leaf", key: p256(), by: by, pathLen: -1, usage: 0x80, usages: [][]int{server, client}, names: []asn1.RawValue{dns(host)}}, change)
}

func built(c *cert, change []func(*cert)) *cert {
	for _, change := range change {
		change(c)
	}
	return c.make()
}

func with(key func() crypto.Signer) func(*cert) { return func(c *cert) { c.key = key() } }
func extra(all ...pkix.Extension) func(*cert) {
	return func(c *cert) { c.extra = append(c.extra, all...) }
}
func usages(all ...[]int) func(*cert)          { return func(c *cert) { c.usages = all } }
func sans(all ...asn1.RawValue) func(*cert)    { return func(c *cert) { c.names = all } }
func version(number int) func(*cert)           { return func(c *cert) { c.version = number } }
func hashed(algorithm string) func(*cert)      { return func(c *cert) { c.algorithm = algorithm } }
func expired(c *cert)                          { c.to = now.Add(-time.Second) }
func early(c *cert)                            { c.from = now.Add(time.Second) }
func authority(ca, pathLen int) func(*cert)    { return func(c *cert) { c.ca, c.pathLen = ca, pathLen } }
func usage(bits byte) func(*cert)              { return func(c *cert) { c.usage = bits } }
func called(name string) func(*cert)           { return func(c *cert) { c.name = name } }
func limited(p, e []asn1.RawValue) func(*cert) { return extra(subtrees(true, p, e)) }
func serial(number string) func(*cert) {
	return func(c *cert) { c.serial, _ = new(big.Int).SetString(number, 0) }
}
func list(names ...asn1.RawValue) []asn1.RawValue { return names }
func policies(named ...[]int) func(*cert) {
	var parts []byte
	for _, one := range named {
		parts = append(parts, seq(16, 0, must(asn1.Marshal(asn1.ObjectIdentifier(one))))...)
	}
	return extra(ext(false, seq(16, 0, parts), 2, 5, 29, 32))
}
func mapping(from, to []int) func(*cert) {
	return extra(ext(false, seq(16, 0, seq(16, 0, must(asn1.Marshal(asn1.ObjectIdentifier(from))), must(asn1.Marshal(asn1.ObjectIdentifier(to))))), 2, 5, 29, 33))
}
func explicit(in byte) func(*cert) {
	return extra(ext(true, seq(16, 0, []byte{0x80, 1, in}), 2, 5, 29, 36))
}

// chains makes all of them.
func chains() []shown {
	var all []shown
	add := func(name, host string, roots []*cert, chain ...*cert) {
		all = append(all, shown{name, host, roots, chain})
	}
	plain := root()
	direct := func(name string, change ...func(*cert)) {
		add("leaf: "+name, host, []*cert{plain}, leaf(plain, change...))
	}
	above := func(name string, change ...func(*cert)) {
		r := root(change...)
		add("root: "+name, host, []*cert{r}, leaf(r))
		b := between(r)
		add("root above another: "+name, host, []*cert{r}, leaf(b), b)
		b = between(plain, change...)
		add("between: "+name, host, []*cert{plain}, leaf(b), b)
		add("between as root: "+name, host, []*cert{b}, leaf(b))
	}
	ofNames(add, plain)
	ofLeaves(direct)
	ofKeys(add)
	ofAuthorities(above)
	ofForms(add, plain)
	ofConstraints(add, plain)
	ofPolicies(add, plain)
	return all
}

type adder func(name, host string, roots []*cert, chain ...*cert)

func ofNames(add adder, plain *cert) {
	for i, c := range []struct {
		host  string
		names []asn1.RawValue
	}{
		{host, list(dns(host))}, {"A.Example.COM", list(dns(host))}, {host, list(dns("A.EXAMPLE.com"))}, {"other.example.com", list(dns(host))}, {host, list(dns("x.example"), dns(host))},
		{host, list(dns("*.example.com"))}, {"b.a.example.com", list(dns("*.example.com"))}, {"example.com", list(dns("*.example.com"))}, {host, list(dns("a*.example.com"))}, {host, list(dns("*"))}, {host, list(dns("*.com"))},
		{host, list(dns("a.*.com"))}, {host, list(dns("a.example.com."))}, {"a_b.example.com", list(dns("a_b.example.com"))}, {host, list(dns(""))}, {host, list(dns(" a.example.com"))}, {host, list(mail("a@a.example.com"))},
		{host, list(uri("https://a.example.com/"))}, {host, nil}, {"leaf", nil}, {"leaf", list(dns(host))}, {"10.0.0.1", list(ip("10.0.0.1"))}, {"10.0.0.2", list(ip("10.0.0.1"))}, {"10.0.0.1", list(dns("10.0.0.1"))},
		{"::1", list(ip("::1"))}, {"::2", list(ip("::1"))}, {"10.0.0.1", list(named(7, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}))}, {host, list(ip("10.0.0.1"))}, {host, list(named(7, []byte{1, 2, 3}))},
		{host, list(named(2, []byte("jané")))}, {host, list(dns(host), named(8, []byte{1}))}, {host, list(dns(host), uri("://"))}, {host, list(dns(host), uri("https://a..b/"))}, {"localhost", list(dns("localhost"))},
		{host, list(dns("xn--a.example.com"), dns("*.EXAMPLE.com"))}, {host, []asn1.RawValue{}},
	} {
		add(fmt.Sprintf("name %d", i), c.host, []*cert{plain}, leaf(plain, sans(c.names...)))
	}
	many := []asn1.RawValue{}
	for i := range 120 {
		many = append(many, dns(fmt.Sprintf("n%d.example", i)))
	}
	add("names: many", host, []*cert{plain}, leaf(plain, sans(many...)))
}

func ofLeaves(direct func(string, ...func(*cert))) {
	direct("usual")
	direct("CA:TRUE", authority(1, -1))
	direct("CA:TRUE, pathlen 0", authority(1, 0))
	direct("CA:FALSE", authority(-1, -1))
	direct("CA:FALSE, pathlen 0", authority(-1, 0))
	for name, of := range map[string][][]int{"none": nil, "empty": {}, "any": {every}, "server": {server}, "client": {client}, "code": {code}, "odd": {odd}, "odd and any": {odd, every}, "code and client": {code, client}} {
		direct("usage "+name, usages(of...))
	}
	for _, bits := range []byte{0, 0x20, 0x04, 0x02, 0x01} {
		direct(fmt.Sprintf("key usage %x", bits), usage(bits))
	}
	for _, number := range []string{"0", "-1", "-129", "0x7fffffffffffffffffffffffffffffffffffffff", "0xffffffffffffffffffffffffffffffffffffffffffffffffffff"} {
		direct("serial "+number, serial(number))
	}
	direct("version 1", version(1))
	direct("version 2", version(2))
	direct("expired", expired)
	direct("ends now", func(c *cert) { c.to = now })
	direct("early", early)
	direct("begins now", func(c *cert) { c.from = now })
	direct("ends in 2051", func(c *cert) { c.to = now.AddDate(25, 0, 0) })
	direct("ends before it begins", func(c *cert) { c.from, c.to = now.AddDate(1, 0, 0), now.AddDate(-1, 0, 0) })
	direct("unknown critical", extra(ext(true, []byte{5, 0}, unknown...)))
	direct("unknown", extra(ext(false, []byte{5, 0}, unknown...)))
	direct("unknown twice", extra(ext(false, []byte{5, 0}, unknown...), ext(false, []byte{5, 0}, unknown...)))
	direct("alternative names twice", extra(ext(false, seq(16, 0, must(asn1.Marshal(dns(host)))), 2, 5, 29, 17)))
	direct("key identifier critical", func(c *cert) { c.noKeyIDs = true }, extra(ext(true, []byte{4, 1, 1}, 2, 5, 29, 14)))
	direct("info access critical", extra(ext(true, seq(16, 0), 1, 3, 6, 1, 5, 5, 7, 1, 1)))
	direct("info access broken", extra(ext(false, []byte{5, 0}, 1, 3, 6, 1, 5, 5, 7, 1, 1)))
	direct("distribution points broken", extra(ext(false, []byte{5, 0}, 2, 5, 29, 31)))
	direct("other names critical", func(c *cert) { c.names = nil }, extra(ext(true, seq(16, 0, seq(4, 2, cn("x"))), 2, 5, 29, 17)))
	direct("no key identifiers", func(c *cert) { c.noKeyIDs = true })
	direct("wrong authority key identifier", func(c *cert) { c.authority = []byte{1, 2, 3} })
	direct("wrong signature", func(c *cert) { c.broken = true })
	direct("constrains names", limited(list(dns("other.example")), nil))
	direct("basic constraints not critical", authority(2, -1))
	direct("subject empty", func(c *cert) { c.subject = []byte{0x30, 0} })
	direct("subject T61", func(c *cert) {
		c.subject = seq(16, 0, seq(17, 0, seq(16, 0, []byte{6, 3, 0x55, 4, 3}, []byte{20, 1, 0xe9})))
	})
	direct("subject UniversalString", func(c *cert) {
		c.subject = seq(16, 0, seq(17, 0, seq(16, 0, []byte{6, 3, 0x55, 4, 3}, []byte{28, 4, 0, 0, 0, 0x6a})))
	})
	direct("issuer as PrintableString", func(c *cert) {
		c.issuer = seq(16, 0, seq(17, 0, seq(16, 0, []byte{6, 3, 0x55, 4, 3}, []byte{12, 4, 'r', 'o', 'o', 't'})))
	})
}

func ofKeys(add adder) {
	keys := []struct {
		name string
		make func() crypto.Signer
	}{{"P-224", p224}, {"P-256", p256}, {"P-384", p384}, {"P-521", p521}, {"RSA 1024", rsaOf(1024)}, {"RSA 2048", rsaOf(2048)}, {"RSA 3072", rsaOf(3072)}, {"Ed25519", edwards}}
	for _, key := range keys {
		r := root(with(key.make))
		add("key of root "+key.name, host, []*cert{r}, leaf(r))
		r = root()
		add("key of leaf "+key.name, host, []*cert{r}, leaf(r, with(key.make)))
		b := between(r, with(key.make))
		add("key between "+key.name, host, []*cert{r}, leaf(b), b)
	}
	for _, key := range keys[1:4] {
		for _, hash := range []string{"sha1", "sha256", "sha384", "sha512"} {
			r := root(with(key.make))
			add("hash "+hash+" of "+key.name, host, []*cert{r}, leaf(r, hashed(hash)))
		}
	}
	for _, hash := range []string{"sha1", "sha256", "sha384", "sha512", "pss-sha256", "pss-sha384", "pss-sha512"} {
		r := root(with(rsaOf(2048)))
		add("hash "+hash+" of RSA", host, []*cert{r}, leaf(r, hashed(hash)))
	}
	r := root(hashed("sha1"))
	add("root signed with SHA-1", host, []*cert{r}, leaf(r))
}

func ofAuthorities(above func(string, ...func(*cert))) {
	above("usual")
	above("no basic constraints", func(c *cert) { c.ca = 0 })
	above("CA:FALSE", authority(-1, -1))
	above("not critical", authority(2, -1))
	above("version 1", version(1))
	above("version 2", version(2))
	above("pathlen 0", authority(1, 0))
	above("pathlen 1", authority(1, 1))
	above("no key usage", usage(0))
	above("key usage without certificates", usage(0x82))
	above("only for revocation", usage(0x02))
	above("expired", expired)
	above("early", early)
	above("for clients", usages(client))
	above("for servers", usages(server))
	above("for any", usages(every))
	above("for code", usages(code))
	above("unknown critical", extra(ext(true, []byte{5, 0}, unknown...)))
	above("negative serial", serial("-7"))
	above("no key identifiers", func(c *cert) { c.noKeyIDs = true })
	above("wrong signature", func(c *cert) { c.broken = true })
	above("other directory", limited(list(named(4, nil)), nil))
	above("unknown policies", policies([]int{1, 2, 3}))
	above("T61 name", func(c *cert) {
		c.subject = seq(16, 0, seq(17, 0, seq(16, 0, []byte{6, 3, 0x55, 4, 3}, []byte{20, 2, 0xe9, 'a'})))
	})
}

func ofForms(add adder, plain *cert) {
	b := between(plain)
	l := leaf(b)
	other := root(called("other"))
	second := between(b, called("second"))
	deep := leaf(second)
	add("form: missing", host, []*cert{plain}, l)
	add("form: turned", host, []*cert{plain}, deep, b, second)
	add("form: with root", host, []*cert{plain}, l, b, plain)
	add("form: with stranger", host, []*cert{plain}, l, other, b)
	add("form: twice", host, []*cert{plain}, l, b, b)
	add("form: no root", host, nil, l, b)
	add("form: other root", host, []*cert{other}, l, b)
	add("form: two roots", host, []*cert{other, plain}, l, b)
	add("form: only one of two", host, []*cert{plain}, deep, second)
	add("form: middle trusted", host, []*cert{b}, deep, second)
	add("form: middle trusted and expired root", host, []*cert{b, root(expired)}, deep, second, b)
	add("form: broken beside", host, []*cert{plain}, l, b, &cert{der: []byte{1, 2, 3}})
	add("form: negative serial beside", host, []*cert{plain}, l, b, leaf(other, serial("-5")))
	impostor := root(called("root"))
	add("form: impostor root", host, []*cert{impostor, plain}, l, b)
	add("form: only impostor", host, []*cert{impostor}, l, b)
	add("form: impostor between", host, []*cert{plain}, l, between(plain), b)
	self := leaf(nil)
	add("self: trusted", host, []*cert{self}, self)
	add("self: not trusted", host, []*cert{plain}, self)
	for name, change := range map[string]func(*cert){"expired": expired, "early": early, "for clients": usages(client), "for code": usages(code), "unknown critical": extra(ext(true, []byte{5, 0}, unknown...)), "CA:TRUE": authority(1, -1),
		"version 1": version(1), "another name": sans(dns("x.example")), "SHA-1": hashed("sha1"), "wrong signature": func(c *cert) { c.broken = true }, "constrained": limited(list(dns("x.example")), nil), "explicit policy": explicit(0), "no SAN": sans()} {
		self := leaf(nil, change)
		add("self: trusted, "+name, host, []*cert{self}, self)
	}
	signed := leaf(plain)
	add("self: trusted though signed by another", host, []*cert{signed}, signed)
	// Cross-signed: one name and key, two issuers.
	cross := between(other, func(c *cert) { c.key = b.key })
	add("cross: both, first trusted", host, []*cert{plain}, l, b, cross)
	add("cross: both, second trusted", host, []*cert{other}, l, b, cross)
	add("cross: one expired", host, []*cert{plain, other}, l, between(plain, func(c *cert) { c.key = b.key }, expired), cross)
	add("cross: one for clients", host, []*cert{plain, other}, l, between(plain, func(c *cert) { c.key = b.key }, usages(client)), cross)
	again := between(plain, called("root"), func(c *cert) { c.key = plain.key })
	add("cross: root signed by itself again", host, []*cert{plain}, l, b, again)
	// Two that sign each other.
	x, y := root(called("x")), root(called("y"))
	xy := between(y, called("x"), func(c *cert) { c.key = x.key })
	yx := between(x, called("y"), func(c *cert) { c.key = y.key })
	add("circle: untrusted", host, []*cert{plain}, leaf(x), xy, yx)
	add("circle: one trusted", host, []*cert{y}, leaf(x), xy, yx)
	// Depths.
	for length := range 4 {
		r := root(authority(1, length))
		chain, by := []*cert{}, r
		for i := range 3 {
			by = between(r, called(fmt.Sprintf("b%d", i)), func(c *cert) { c.by = by })
			chain = append([]*cert{by}, chain...)
			add(fmt.Sprintf("depth: %d below pathlen %d", i+1, length), host, []*cert{r}, append([]*cert{leaf(by)}, chain...)...)
		}
	}
	same := between(plain, called("root"))
	add("depth: self-issued", host, []*cert{plain}, leaf(same), same)
	many := []*cert{leaf(b)}
	for range 120 {
		many = append(many, between(plain))
	}
	add("limit: many of one name", host, []*cert{plain}, append(many, b)...)
	add("limit: the right one first", host, []*cert{plain}, append([]*cert{many[0], b}, many[1:]...)...)
}

func ofConstraints(add adder, plain *cert) {
	empty := []asn1.RawValue(nil)
	for i, c := range []struct {
		permitted, excluded, names []asn1.RawValue
	}{
		{list(dns("example.com")), nil, list(dns(host))}, {list(dns("other.com")), nil, list(dns(host))}, {nil, list(dns("example.com")), list(dns(host))}, {nil, list(dns("other.com")), list(dns(host))},
		{list(dns(".example.com")), nil, list(dns(host))}, {list(dns("a.example.com")), nil, list(dns(host))}, {list(dns(".a.example.com")), nil, list(dns(host))}, {list(dns("EXAMPLE.com")), nil, list(dns(host))},
		{list(dns("ample.com")), nil, list(dns(host))}, {list(dns("")), nil, list(dns(host))}, {nil, list(dns("")), list(dns(host))}, {list(dns("example.com")), list(dns("a.example.com")), list(dns(host))},
		{list(dns("example.com")), nil, list(dns(host), dns("b.other.com"))}, {nil, list(dns("b.example.com")), list(dns("*.example.com"))}, {nil, list(dns("example.com")), list(dns("*.example.com"))}, {list(dns("b.example.com")), nil, list(dns("*.example.com"))},
		{list(dns("example.com.")), nil, list(dns(host))}, {list(dns("a..b")), nil, list(dns(host))}, {list(dns("other.com"), dns("example.com")), nil, list(dns(host))}, {list(dns("example.com")), nil, list(dns(host), dns("a b"))},
		{list(dns("example.com")), nil, list(dns(host), dns("x..example.com"))}, {list(dns("example.com")), nil, list(dns(host), dns("x.example.com."))}, {nil, list(dns("com")), list(dns(host), dns("-.example"))},
		{list(network("10.0.0.0/8")), nil, list(dns(host), ip("10.1.2.3"))}, {list(network("10.0.0.0/8")), nil, list(dns(host), ip("11.1.2.3"))}, {nil, list(network("10.0.0.0/8")), list(dns(host), ip("10.1.2.3"))},
		{list(network("10.0.0.0/8")), nil, list(dns(host), ip("::1"))}, {list(network("fd00::/8")), nil, list(dns(host), ip("fd00::1"))}, {nil, list(network("fd00::/8")), list(dns(host), ip("10.1.2.3"))}, {list(named(7, []byte{10, 0, 0, 0, 255, 0, 255, 0})), nil, list(dns(host))},
		{list(named(7, []byte{10, 0, 0, 0})), nil, list(dns(host))}, {list(network("0.0.0.0/0")), nil, list(dns(host), ip("10.1.2.3"))}, {list(network("10.0.0.0/8")), nil, list(dns(host))},
		{list(mail("example.com")), nil, list(dns(host), mail("a@example.com"))}, {list(mail("example.com")), nil, list(dns(host), mail("a@other.com"))}, {list(mail("a@example.com")), nil, list(dns(host), mail("a@EXAMPLE.com"))},
		{list(mail("a@example.com")), nil, list(dns(host), mail("b@example.com"))}, {list(mail("a@example.com")), nil, list(dns(host), mail("A@example.com"))}, {nil, list(mail("a@example.com")), list(dns(host), mail("a@example.com"))}, {list(mail(".example.com")), nil, list(dns(host), mail("a@b.example.com"))},
		{list(mail("example.com")), nil, list(dns(host), mail("a@b.example.com"))}, {list(mail("example.com")), nil, list(dns(host), mail("nobody"))}, {nil, list(mail("other.com")), list(dns(host), mail("nobody"))}, {list(mail("a@@example.com")), nil, list(dns(host))}, {list(mail("\"a b\"@example.com")), nil, list(dns(host), mail("\"a b\"@example.com"))},
		{list(uri("example.com")), nil, list(dns(host), uri("https://a.example.com/x"))}, {list(uri("example.com")), nil, list(dns(host), uri("https://a.example.com:8443/x"))}, {list(uri("example.com")), nil, list(dns(host), uri("https://a.other.com/x"))}, {nil, list(uri("example.com")), list(dns(host), uri("https://A.EXAMPLE.com/x"))},
		{list(uri(".example.com")), nil, list(dns(host), uri("https://example.com/x"))}, {list(uri("example.com")), nil, list(dns(host), uri("https://10.0.0.1/x"))}, {list(uri("example.com")), nil, list(dns(host), uri("https://[::1]/x"))}, {list(uri("example.com")), nil, list(dns(host), uri("mailto:a"))},
		{nil, list(uri("other.com")), list(dns(host), uri("mailto:a"))}, {list(uri("10.0.0.1")), nil, list(dns(host))}, {list(dns("example.com")), nil, list(dns(host), uri("https://other.com/"), mail("a@other.com"), ip("1.2.3.4"))}, {list(named(4, cn("x"))), nil, list(dns(host))},
		{empty, empty, list(dns(host))}, {[]asn1.RawValue{}, nil, list(dns(host))},
	} {
		limit := extra(subtrees(true, c.permitted, c.excluded))
		r := root(limit)
		add(fmt.Sprintf("constraint %d of the root", i), host, []*cert{r}, leaf(r, sans(c.names...)))
		if i%3 == 0 {
			b := between(plain, limit)
			add(fmt.Sprintf("constraint %d between", i), host, []*cert{plain}, leaf(b, sans(c.names...)), b)
		}
	}
	r := root(limited(list(dns("com")), nil))
	b := between(r, limited(list(dns("example.com")), nil))
	add("constraints: of two", host, []*cert{r}, leaf(b), b)
	b = between(r, limited(list(dns("other.com")), nil))
	add("constraints: of two, the lower forbids", host, []*cert{r}, leaf(b), b)
	r = root(limited(list(dns("other.com")), nil))
	b = between(r, limited(list(dns("example.com")), nil))
	add("constraints: of two, the upper forbids", host, []*cert{r}, leaf(b), b)
	b = between(r, sans(dns("x.example.net")))
	add("constraints: name between", host, []*cert{r}, leaf(b, sans(dns("x.other.com"))), b)
	add("constraints: name between, checked", "x.other.com", []*cert{r}, leaf(b, sans(dns("x.other.com"))), b)
	add("constraints: without alternative names", host, []*cert{r}, leaf(r, sans()))
	r = root(extra(subtrees(false, list(named(4, cn("x"))), nil)))
	add("constraints: directory, not critical", host, []*cert{r}, leaf(r))
	b = between(plain, limited(list(dns("example.com")), nil), func(c *cert) { c.names = list(dns("b.x")) })
	add("constraints: its own name", host, []*cert{plain}, leaf(b), b)
}

func ofPolicies(add adder, plain *cert) {
	p, q, anything := []int{1, 2, 3, 4, 1}, []int{1, 2, 3, 4, 2}, []int{2, 5, 29, 32, 0}
	try := func(name string, of []func(*cert), below ...func(*cert)) {
		b := between(plain, of...)
		add("policy: "+name, host, []*cert{plain}, leaf(b, below...), b)
	}
	on := func(all ...func(*cert)) []func(*cert) { return all }
	try("required and stated", on(policies(p), explicit(0)), policies(p))
	try("required and not stated", on(policies(p), explicit(0)))
	try("required, another", on(policies(p), explicit(0)), policies(q))
	try("required, any above", on(policies(anything), explicit(0)), policies(q))
	try("required, any below", on(policies(p), explicit(0)), policies(anything))
	try("required, any and inhibited", on(policies(p), explicit(0), extra(ext(true, []byte{2, 1, 0}, 2, 5, 29, 54))), policies(anything))
	try("required, none above", on(explicit(0)), policies(p))
	try("required later", on(policies(p), explicit(1)))
	try("required much later", on(policies(p), explicit(5)))
	try("mapped", on(policies(p), explicit(0), mapping(p, q)), policies(q))
	try("mapped away", on(policies(p), explicit(0), mapping(p, q)), policies(p))
	try("mapped from any", on(policies(p), mapping(anything, q)), policies(q))
	try("mapping of any", on(policies(anything), explicit(0), mapping(p, q)), policies(q))
	try("required by the leaf", on(policies(p)), explicit(0))
	try("required by the leaf and stated", on(policies(p)), explicit(0), policies(p))
	try("twice", on(policies(p, p)), policies(p))
	try("broken", on(extra(ext(false, []byte{5, 0}, 2, 5, 29, 32))))
	r := root(explicit(0))
	add("policy: required by the root", host, []*cert{r}, leaf(r))
	b := between(plain, policies(p), explicit(0))
	c := between(b, called("c"), policies(p), mapping(p, q), extra(ext(true, seq(16, 0, []byte{0x81, 1, 0}), 2, 5, 29, 36)))
	add("policy: mapped in the middle", host, []*cert{plain}, leaf(c, policies(q)), c, b)
	b = between(plain, policies(p), extra(ext(true, seq(16, 0, []byte{0x80, 1, 0, 0x81, 1, 0}), 2, 5, 29, 36)))
	c = between(b, called("c"), policies(p), mapping(p, q))
	add("policy: mapping inhibited", host, []*cert{plain}, leaf(c, policies(q)), c, b)
}
