package main

import (
	"fmt"
	"strings"
)

// known are the differences, with their reasons.
var known = map[string]string{
	"without current-context":         onlyContext,
	"current-context is null":         onlyContext,
	"current-context in upper case":   onlyContext,
	"no current-context, one context": onlyContext,
	"cut before the last line":        onlyContext,
}

const onlyContext = "the only context counts; client-go refuses the file"

// parts are members that are not there, or twice.
func (l *list) parts() {
	p := l.p
	whole := file(p.cluster(), object{"token": "t"})
	for _, member := range []string{"apiVersion", "kind", "clusters", "users", "contexts", "current-context"} {
		l.of("without "+member, with(whole, member, absent))
		l.of(member+" in upper case", with(whole, member, absent, strings.ToUpper(member), whole[member]))
	}
	for _, version := range []string{"", "v2", "v1beta1", "config/v1", "/v1", "__internal", "V1"} {
		l.of("apiVersion "+version, with(whole, "apiVersion", version))
	}
	for _, kind := range []string{"", "config", "Pod", "List"} {
		l.of("kind "+kind, with(whole, "kind", kind))
	}
	l.of("a cluster without server", file(object{"certificate-authority-data": encode(p.ca)}, object{"token": "t"}))
	l.of("a cluster with an empty server", file(with(p.cluster(), "server", ""), object{"token": "t"}))
	l.of("a cluster that is empty", file(object{}, object{"token": "t"}))
	l.of("a context without user", with(whole, "contexts", []any{object{"name": "x", "context": object{"cluster": "c"}}}))
	l.of("a context with an empty user", with(whole, "contexts", []any{object{"name": "x", "context": object{"cluster": "c", "user": ""}}}))
	l.of("a context without cluster", with(whole, "contexts", []any{object{"name": "x", "context": object{"user": "u"}}}))
	l.of("a context without anything", with(whole, "contexts", []any{object{"name": "x"}}))
	l.of("a context with a namespace that cannot be", with(whole, "contexts", []any{object{"name": "x", "context": object{"cluster": "c", "user": "u", "namespace": "A B"}}}))
	l.of("a user without user", with(whole, "users", []any{object{"name": "u"}}))
	l.of("a cluster without cluster", with(whole, "clusters", []any{object{"name": "c"}}))
	l.of("users that are no list", with(whole, "users", object{"u": object{"token": "t"}}))
	l.of("preferences", with(whole, "preferences", object{"colors": true, "extensions": []any{object{"name": "a", "extension": 1}}}))
	l.of("preferences of another type", with(whole, "preferences", object{"colors": "true"}))
	l.of("unknown members everywhere", object{
		"apiVersion": "v1", "kind": "Config", "current-context": "x", "more": 1, "metadata": object{"name": 1},
		"clusters": []any{object{"name": "c", "more": 1, "cluster": with(p.cluster(), "more", []any{1}, "location-of-origin", 1)}},
		"users":    []any{object{"name": "u", "more": 1, "user": object{"token": "t", "more": object{}, "LocationOfOrigin": 1}}},
		"contexts": []any{object{"name": "x", "more": 1, "context": object{"cluster": "c", "user": "u", "more": 1}}},
	})
}

// names are what contexts lead to.
func (l *list) names() {
	p := l.p
	named := func(kind, member, name string, value any) object { return object{"name": name, member: value} }
	whole := func(current any, contexts, clusters, users []any) object {
		return object{"current-context": current, "contexts": contexts, "clusters": clusters, "users": users}
	}
	cluster := func(name string) object { return named("clusters", "cluster", name, p.cluster()) }
	user := func(name, token string) object { return named("users", "user", name, object{"token": token}) }
	context := func(name, cluster, user string) object {
		return named("contexts", "context", name, object{"cluster": cluster, "user": user})
	}
	some := func(all ...any) []any { return all }
	l.of("the second of several", whole("y", some(context("x", "c", "u"), context("y", "c", "v")), some(cluster("c")), some(user("u", "1"), user("v", "2"))))
	l.of("no current-context, several contexts", whole("", some(context("x", "c", "u"), context("y", "c", "v")), some(cluster("c")), some(user("u", "1"), user("v", "2"))))
	l.of("no current-context, one context", whole("", some(context("x", "c", "u")), some(cluster("c")), some(user("u", "1"))))
	l.of("no current-context, null", whole(nil, some(context("x", "c", "u"), context("y", "c", "u")), some(cluster("c")), some(user("u", "1"))))
	l.of("no current-context, a context without a name", whole("", some(context("", "c", "u"), context("y", "c", "v")), some(cluster("c")), some(user("u", "1"), user("v", "2"))))
	l.of("no context, a cluster and a user without names", whole("", nil, some(cluster("")), some(user("", "1"))))
	l.of("no context, a cluster and a user", whole("", nil, some(cluster("c")), some(user("u", "1"))))
	l.of("a current-context that is not there", whole("z", some(context("x", "c", "u")), some(cluster("c")), some(user("u", "1"))))
	l.of("a current-context in another case", whole("X", some(context("x", "c", "u")), some(cluster("c")), some(user("u", "1"))))
	l.of("a current-context with a space", whole("x ", some(context("x", "c", "u")), some(cluster("c")), some(user("u", "1"))))
	l.of("a current-context without contexts", whole("x", nil, some(cluster("c")), some(user("u", "1"))))
	l.of("a user that is not there", whole("x", some(context("x", "c", "v")), some(cluster("c")), some(user("u", "1"))))
	l.of("a cluster that is not there", whole("x", some(context("x", "d", "u")), some(cluster("c")), some(user("u", "1"))))
	l.of("a cluster and a user that are not there", whole("x", some(context("x", "d", "v")), some(cluster("c")), some(user("u", "1"))))
	l.of("names with slashes, colons and spaces", whole("a/b: c", some(context("a/b: c", "arn:aws:eks:x:1:cluster/y", "é u")), some(cluster("arn:aws:eks:x:1:cluster/y")), some(user("é u", "1"))))
	l.of("a context twice", whole("x", some(context("x", "c", "u"), context("x", "c", "v")), some(cluster("c")), some(user("u", "1"), user("v", "2"))))
	l.of("a cluster twice", whole("x", some(context("x", "c", "u")), some(cluster("c"), cluster("c")), some(user("u", "1"))))
	l.of("a user twice", whole("x", some(context("x", "c", "u")), some(cluster("c")), some(user("u", "1"), user("u", "2"))))
	l.of("another user twice", whole("x", some(context("x", "c", "u")), some(cluster("c")), some(user("u", "1"), user("v", "2"), user("v", "3"))))
	l.of("two users without names", whole("x", some(context("x", "c", "u")), some(cluster("c")), some(user("u", "1"), user("", "2"), object{"user": object{"token": "3"}})))
	l.of("another cluster without a server", whole("x", some(context("x", "c", "u")), some(cluster("c"), object{"name": "d"}), some(user("u", "1"))))
	l.of("another user with two ways", whole("x", some(context("x", "c", "u")), some(cluster("c")), some(user("u", "1"), object{"name": "v", "user": object{"token": "a", "username": "b"}})))
	l.of("an extension twice", file(with(p.cluster(), "extensions", some(object{"name": "a", "extension": object{}}, object{"name": "a", "extension": object{}})), object{"token": "t"}))
	l.of("an extension of null twice", file(with(p.cluster(), "extensions", some(object{"name": "a"}, object{"name": "a"})), object{"token": "t"}))
}

// servers are URLs.
func (l *list) servers() {
	p := l.p
	for _, server := range []string{
		"https://localhost:@", "HTTPS://localhost:@", "https://LOCALHOST:@", "https://localhost:@/", "https://localhost:@/a", "https://localhost:@/a/b/",
		"https://localhost:@//a//b", "https://localhost:@/a/../b", "https://localhost:@/a%2Fb%20c", "https://localhost:@/a?b=c", "https://localhost:@?b=c",
		"https://localhost:@#d", "https://localhost:@/a#d", "https://127.0.0.1:@", "https://me:it@localhost:@", "https://me@localhost:@/x", "localhost:@", "127.0.0.1:@",
		"localhost:@/a", "//localhost:@", "https//localhost:@", "https:/localhost:@", "https:localhost:@", "ftp://localhost:@", "ws://localhost:@", "unix:///x",
		"https://", "https://:@", "https://localhost:", "https://localhost:x", "https://localhost:99999", "https://localhost:@:1", "https://local host:@", " https://localhost:@",
		"https://localhost:@ ", "https://localhost:@\n", "https://[::1", "https://localhost:@/%zz", "https://localhost:@/é", "https://localhost:@/a b", "http://localhost:@", "x", "/",
	} {
		l.of("server "+strings.TrimSpace(server)+fmt.Sprint(len(server)), file(with(p.cluster(), "server", strings.ReplaceAll(server, "@", p.https)), object{"token": "t"}))
	}
	for _, server := range []string{"http://localhost:@", "localhost:@", "127.0.0.1:@", "localhost:@/", "localhost:@/a", "http://me:it@localhost:@", "http://localhost:@/a/", "HTTP://localhost:@"} {
		server = strings.ReplaceAll(server, "@", p.http)
		l.of("plain server "+strings.ReplaceAll(server, p.http, "@"), file(object{"server": server}, object{"token": "t"}))
		l.of("plain server with an authority "+strings.ReplaceAll(server, p.http, "@"), file(with(p.cluster(), "server", server), object{"token": "t"}))
	}
}

// trust is whose certificates are good.
func (l *list) trust() {
	p := l.p
	t := object{"token": "t"}
	bare := object{"server": p.server()}
	for name, cluster := range map[string]object{
		"those of the system":                           bare,
		"an authority in a file":                        with(bare, "certificate-authority", "ca.pem"),
		"an authority in another directory":             with(bare, "certificate-authority", "sub/ca.pem"),
		"an authority by its whole path":                with(bare, "certificate-authority", "@DIR@/ca.pem"),
		"an authority by ./":                            with(bare, "certificate-authority", "./ca.pem"),
		"an authority by ../":                           with(bare, "certificate-authority", "sub/../ca.pem"),
		"an authority by ~":                             with(bare, "certificate-authority", "~/ca.pem"),
		"an authority that is missing":                  with(bare, "certificate-authority", "none.pem"),
		"an authority that is a directory":              with(bare, "certificate-authority", "sub"),
		"an authority that is empty":                    with(bare, "certificate-authority", "empty"),
		"an authority that is blank":                    with(bare, "certificate-authority", "blank"),
		"an authority that is a key":                    with(bare, "certificate-authority", "key.pem"),
		"another authority":                             with(bare, "certificate-authority", "other-ca.pem"),
		"an authority in both":                          with(p.cluster(), "certificate-authority", "ca.pem"),
		"nobody verified":                               with(bare, "insecure-skip-tls-verify", true),
		"nobody verified, with an authority":            with(p.cluster(), "insecure-skip-tls-verify", true),
		"nobody verified, with a missing authority":     with(bare, "certificate-authority", "none.pem", "insecure-skip-tls-verify", true),
		"another name that it has":                      with(p.cluster(), "tls-server-name", "other.example"),
		"another name that it has not":                  with(p.cluster(), "tls-server-name", "third.example"),
		"another name that it has not, nobody verified": with(bare, "insecure-skip-tls-verify", true, "tls-server-name", "third.example"),
		"an address as its name":                        with(p.cluster(), "tls-server-name", "127.0.0.1"),
		"a name in upper case":                          with(p.cluster(), "tls-server-name", "OTHER.EXAMPLE"),
		"a name with a dot at its end":                  with(p.cluster(), "tls-server-name", "other.example."),
		"a name with a space":                           with(p.cluster(), "tls-server-name", "other example"),
		"a name of the system's":                        with(bare, "tls-server-name", "other.example"),
		"two authorities":                               with(bare, "certificate-authority-data", encode(append(append([]byte{}, p.otherCA...), p.ca...))),
		"an authority and a key":                        with(bare, "certificate-authority-data", encode(append(append([]byte{}, p.key...), p.ca...))),
		"a plain server with a missing authority":       {"server": "http://localhost:" + p.http, "certificate-authority": "none.pem"},
		"a plain server with an authority in both":      {"server": "http://localhost:" + p.http, "certificate-authority": "ca.pem", "certificate-authority-data": encode(p.ca)},
		"a plain server, nobody verified":               {"server": "http://localhost:" + p.http, "insecure-skip-tls-verify": true, "certificate-authority-data": encode(p.ca)},
		"a plain server with another name":              {"server": "http://localhost:" + p.http, "tls-server-name": "a b"},
		"a plain server with bad data":                  {"server": "http://localhost:" + p.http, "certificate-authority-data": encode([]byte("x"))},
		"no compression":                                with(p.cluster(), "disable-compression", true),
	} {
		l.of(name, file(cluster, t))
	}
	for name, user := range map[string]object{
		"a plain server with a missing certificate":     {"client-certificate": "none.pem", "client-key": "key.pem"},
		"a plain server with a certificate alone":       {"client-certificate": "cert.pem"},
		"a plain server with a missing tokenFile":       {"tokenFile": "none"},
		"a plain server with another's key":             {"client-certificate": "cert.pem", "client-key": "other-key.pem"},
		"a plain server with a token and a name":        {"token": "t", "username": "me"},
		"a plain server with an exec of no version":     {"exec": object{"apiVersion": "x", "command": "x", "interactiveMode": "Never"}},
		"a plain server with an exec without a command": {"exec": object{"apiVersion": "x", "interactiveMode": "Never"}},
		"a plain server with an auth-provider":          {"auth-provider": object{"name": "gcp"}},
		"a plain server with as":                        {"as": "another", "token": "t"},
	} {
		l.of(name, file(object{"server": "http://localhost:" + p.http}, user))
	}
}

// proxies are proxy-url.
func (l *list) proxies() {
	p := l.p
	for name, proxy := range map[string]string{
		"a proxy":                                    "http://127.0.0.1:" + p.proxy,
		"a proxy by name":                            "http://localhost:" + p.proxy,
		"a proxy with a path":                        "http://localhost:" + p.proxy + "/x?y#z",
		"a proxy in upper case":                      "HTTP://localhost:" + p.proxy,
		"a proxy with a password":                    "http://me:it@localhost:" + p.proxyAuth,
		"a proxy with an encoded password":           "http://m%65:i%74@localhost:" + p.proxyAuth,
		"a proxy with another password":              "http://me:other@localhost:" + p.proxyAuth,
		"a proxy without its password":               "http://localhost:" + p.proxyAuth,
		"a proxy with a password that nobody wants":  "http://me:it@localhost:" + p.proxy,
		"a proxy over TLS":                           "https://localhost:" + p.proxyTLS,
		"a proxy over TLS by an address":             "https://127.0.0.1:" + p.proxyTLS,
		"a proxy that speaks no TLS":                 "https://localhost:" + p.proxy,
		"a proxy that speaks TLS, without it":        "http://localhost:" + p.proxyTLS,
		"a SOCKS proxy":                              "socks5://localhost:" + p.socks,
		"a SOCKS proxy with a password":              "socks5://me:it@localhost:" + p.socksAuth,
		"a SOCKS proxy with another password":        "socks5://me:other@localhost:" + p.socksAuth,
		"a SOCKS proxy without its password":         "socks5://localhost:" + p.socksAuth,
		"a SOCKS proxy with a password it wants not": "socks5://me:it@localhost:" + p.socks,
		"a proxy that is away":                       "http://localhost:" + p.nobody,
		"a SOCKS proxy that is away":                 "socks5://localhost:" + p.nobody,
		"a proxy without a scheme":                   "localhost:" + p.proxy,
		"a proxy of an address without a scheme":     "127.0.0.1:" + p.proxy,
		"a proxy by //":                              "//localhost:" + p.proxy,
		"a proxy of socks4":                          "socks4://localhost:" + p.socks,
		"a proxy of socks5h":                         "socks5h://localhost:" + p.socks,
		"a proxy of ftp":                             "ftp://localhost:" + p.proxy,
		"a proxy without a host":                     "http://",
		"a proxy that is no URL":                     "http://local host",
		"a proxy with a bad port":                    "http://localhost:x",
	} {
		l.of(name, file(with(p.cluster(), "proxy-url", proxy), object{"token": "t"}))
		l.of(name+" before a plain server", file(object{"server": "http://localhost:" + p.http, "proxy-url": proxy}, object{"token": "t"}))
	}
	l.of("a SOCKS proxy that finds the server", file(with(p.cluster(), "server", "https://other.example:"+p.https, "proxy-url", "socks5://localhost:"+p.socks), object{"token": "t"}))
	l.of("a proxy and a certificate", file(with(p.cluster(), "proxy-url", "http://localhost:"+p.proxy), object{"client-certificate": "cert.pem", "client-key": "key.pem"}))
	l.of("a proxy and another name", file(with(p.cluster(), "proxy-url", "http://localhost:"+p.proxy, "tls-server-name", "other.example"), object{"token": "t"}))
	l.of("a proxy over TLS and another name", file(with(p.cluster(), "proxy-url", "https://localhost:"+p.proxyTLS, "tls-server-name", "other.example"), object{"token": "t"}))
	l.of("a proxy over TLS and another authority", file(with(p.cluster(), "proxy-url", "https://localhost:"+p.proxyTLS, "certificate-authority-data", encode(p.otherCA)), object{"token": "t"}))
	l.of("a proxy over TLS, nobody verified", file(object{"server": p.server(), "insecure-skip-tls-verify": true, "proxy-url": "https://localhost:" + p.proxyTLS}, object{"token": "t"}))
}

// plugins are exec.
func (l *list) plugins() {
	p := l.p
	exec := object{"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}
	of := func(name string, cluster, exec object) { l.of("plugin: "+name, file(cluster, object{"exec": exec})) }
	for name, exec := range map[string]object{
		"plain":                               exec,
		"by its whole path":                   with(exec, "command", "@DIR@/plugin"),
		"by way of another directory":         with(exec, "command", "sub/../plugin"),
		"without a slash":                     with(exec, "command", "plugin"),
		"in PATH":                             with(exec, "command", "sh", "args", []any{"-c", "exec @DIR@/plugin"}),
		"that is missing":                     with(exec, "command", "./none", "installHint", "get it"),
		"that is missing in PATH":             with(exec, "command", "no-such-program"),
		"that may not run":                    with(exec, "command", "./token"),
		"that is a directory":                 with(exec, "command", "./sub"),
		"without a command":                   with(exec, "command", absent),
		"without apiVersion":                  with(exec, "apiVersion", absent),
		"of v1beta1":                          with(exec, "apiVersion", "client.authentication.k8s.io/v1beta1", "command", "./plugin-beta"),
		"of v1beta1 without interactiveMode":  with(exec, "apiVersion", "client.authentication.k8s.io/v1beta1", "command", "./plugin-beta", "interactiveMode", absent),
		"of v1beta1 that answers v1":          with(exec, "apiVersion", "client.authentication.k8s.io/v1beta1"),
		"of v1 that answers v1beta1":          with(exec, "command", "./plugin-beta"),
		"of v1alpha1":                         with(exec, "apiVersion", "client.authentication.k8s.io/v1alpha1"),
		"of v2":                               with(exec, "apiVersion", "client.authentication.k8s.io/v2"),
		"without interactiveMode":             with(exec, "interactiveMode", absent),
		"interactive if available":            with(exec, "interactiveMode", "IfAvailable"),
		"always interactive":                  with(exec, "interactiveMode", "Always"),
		"interactive otherwise":               with(exec, "interactiveMode", "never"),
		"with a certificate":                  with(exec, "command", "./plugin-cert"),
		"that is told little":                 with(exec, "command", "./tells"),
		"that is told of v1beta1":             with(exec, "command", "./tells", "apiVersion", "client.authentication.k8s.io/v1beta1", "env", []any{object{"name": "SPEAKS", "value": "v1beta1"}}),
		"with arguments":                      with(exec, "command", "./tells", "args", []any{"a", "b c", "", "$HOME", "é\n"}),
		"with an environment":                 with(exec, "command", "./tells", "env", []any{object{"name": "GIVEN", "value": "a b"}}),
		"with an environment twice":           with(exec, "command", "./tells", "env", []any{object{"name": "GIVEN", "value": "1"}, object{"name": "GIVEN", "value": "2"}}),
		"with an environment of its own info": with(exec, "command", "./tells", "env", []any{object{"name": "KUBERNETES_EXEC_INFO", "value": "x"}}),
		"with an environment without a name":  with(exec, "env", []any{object{"value": "1"}}),
		"with an environment without a value": with(exec, "command", "./tells", "env", []any{object{"name": "GIVEN"}}),
		"with an environment that is a map":   with(exec, "env", object{"GIVEN": "1"}),
		"with a number in its environment":    with(exec, "env", []any{object{"name": "GIVEN", "value": 1}}),
		"with a number as argument":           with(exec, "args", []any{1}),
		"that is told of the cluster":         with(exec, "command", "./tells", "provideClusterInfo", true),
		"with a hint that is long and odd":    with(exec, "installHint", "\u001b[1m"+strings.Repeat("x", 1000)),
		"with unknown members":                with(exec, "more", 1, "stdinUnavailable", true, "pluginPolicy", 1),
	} {
		of(name, p.cluster(), exec)
	}
	told := with(exec, "command", "./tells", "provideClusterInfo", true)
	extension := func(value any) []any {
		return []any{object{"name": "other", "extension": 1}, object{"name": "client.authentication.k8s.io/exec", "extension": value}}
	}
	for name, cluster := range map[string]object{
		"an authority in a file":  {"server": p.server(), "certificate-authority": "ca.pem"},
		"no authority":            {"server": p.server()},
		"nobody verified":         {"server": p.server(), "insecure-skip-tls-verify": true},
		"another name":            with(p.cluster(), "tls-server-name", "other.example"),
		"a proxy":                 with(p.cluster(), "proxy-url", "http://localhost:"+p.proxy),
		"no compression":          with(p.cluster(), "disable-compression", true),
		"a path and a query":      with(p.cluster(), "server", p.server()+"/a/?b=c#d"),
		"an extension":            with(p.cluster(), "extensions", extension(object{"b": []any{1, 1.5, "<&>", nil, true}, "a": object{"é": "\u2028"}})),
		"an extension of a text":  with(p.cluster(), "extensions", extension("x")),
		"an extension of null":    with(p.cluster(), "extensions", extension(nil)),
		"an extension of numbers": with(p.cluster(), "extensions", extension([]any{1e21, 1e-7, 100, 0.1, 12345678901234567})),
	} {
		of("that is told of a cluster with "+name, cluster, told)
	}
	for name, output := range map[string]string{
		"nothing":                    "",
		"a text":                     "token",
		"half of it":                 `{"apiVersion":"client.authentication.k8s.io/v1",`,
		"an empty object":            `{}`,
		"no kind":                    `{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"a"}}`,
		"no apiVersion":              `{"kind":"ExecCredential","status":{"token":"a"}}`,
		"another kind":               `{"apiVersion":"client.authentication.k8s.io/v1","kind":"Pod","status":{"token":"a"}}`,
		"no status":                  `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}`,
		"an empty status":            credential("v1", ""),
		"a status of null":           `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":null}`,
		"a status that is a list":    `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":[]}`,
		"a token that is a number":   credential("v1", `"token":1`),
		"a token that is null":       credential("v1", `"token":null`),
		"a token that is empty":      credential("v1", `"token":""`),
		"a token with a line break":  credential("v1", `"token":"a\nb"`),
		"a token with spaces":        credential("v1", `"token":" a "`),
		"a time to come":             credential("v1", `"token":"a","expirationTimestamp":"2999-01-01T00:00:00Z"`),
		"a time that is over":        credential("v1", `"token":"a","expirationTimestamp":"2001-01-01T00:00:00Z"`),
		"a time with a fraction":     credential("v1", `"token":"a","expirationTimestamp":"2999-01-01T00:00:00.123456789+02:00"`),
		"a time of null":             credential("v1", `"token":"a","expirationTimestamp":null`),
		"a time that is empty":       credential("v1", `"token":"a","expirationTimestamp":""`),
		"a time that is none":        credential("v1", `"token":"a","expirationTimestamp":"tomorrow"`),
		"a time that is a number":    credential("v1", `"token":"a","expirationTimestamp":1`),
		"a time without a zone":      credential("v1", `"token":"a","expirationTimestamp":"2999-01-01T00:00:00"`),
		"a certificate alone":        credential("v1", `"clientCertificateData":"x"`),
		"a key alone":                credential("v1", `"clientKeyData":"x"`),
		"a certificate that is none": credential("v1", `"clientCertificateData":"x","clientKeyData":"y"`),
		"another's key":              credential("v1", `"clientCertificateData":`+text(string(p.certificate))+`,"clientKeyData":`+text(string(p.otherKey))),
		"a certificate and a token":  credential("v1", `"token":"a","clientCertificateData":`+text(string(p.certificate))+`,"clientKeyData":`+text(string(p.key))),
		"a spec and unknown members": `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":true,"more":1},"more":1,"status":{"token":"a","more":{}}}`,
		"a spec of another type":     `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":"yes"},"status":{"token":"a"}}`,
		"spaces around":              "\n\n  " + credential("v1", `"token":"a"`) + "\n\n",
		"more after it":              credential("v1", `"token":"a"`) + "\nmore",
		"two of them":                credential("v1", `"token":"a"`) + "\n" + credential("v1", `"token":"b"`),
		"YAML":                       "apiVersion: client.authentication.k8s.io/v1\nkind: ExecCredential\nstatus:\n  token: a\n",
		"a token twice":              credential("v1", `"token":"a","token":"b"`),
		"a token in another case":    credential("v1", `"Token":"a"`),
		"a byte order mark":          "\ufeff" + credential("v1", `"token":"a"`),
	} {
		c := one{"plugin that says " + name, text(file(p.cluster(), object{"exec": exec})), l.beside()}
		c.files["plugin"] = "#!/bin/sh\ncat <<'X'\n" + output + "\nX\n"
		if output == "" {
			c.files["plugin"] = "#!/bin/sh\n"
		}
		l.all = append(l.all, c)
	}
	for name, script := range map[string]string{
		"fails":                         "exit 3",
		"fails after it has said it":    "cat <<'X'\n" + credential("v1", `"token":"a"`) + "\nX\nexit 1",
		"is killed":                     "kill -9 $$",
		"writes to standard error":      "echo oh >&2\ncat <<'X'\n" + credential("v1", `"token":"a"`) + "\nX",
		"reads":                         "read line\ncat <<'X'\n" + credential("v1", `"token":"a"`) + "\nX",
		"runs elsewhere than its place": "printf '" + credential("v1", `"token":"%s"`) + "' \"$(test -e ./plugin && echo here || echo elsewhere)\"",
	} {
		c := one{"plugin that " + name, text(file(p.cluster(), object{"exec": exec})), l.beside()}
		c.files["plugin"] = "#!/bin/sh\n" + script + "\n"
		l.all = append(l.all, c)
	}
}

// yaml are corners of YAML.
func (l *list) yaml() {
	l.raw("YAML", l.plain("", ""))
	l.raw("empty", "")
	l.raw("a line break", "\n")
	l.raw("a comment", "# nothing\n")
	l.raw("a document's beginning", "---\n")
	l.raw("null", "null")
	l.raw("a byte order mark", "\ufeff"+l.plain("", ""))
	l.raw("CRLF", strings.ReplaceAll(l.plain("", ""), "\n", "\r\n"))
	l.raw("CR", strings.ReplaceAll(l.plain("", ""), "\n", "\r"))
	l.raw("a document before it", "--- \na: b\n---\n"+l.plain("", ""))
	l.raw("an empty document before it", "---\n---\n"+l.plain("", ""))
	l.raw("a document after it", l.plain("", "")+"---\na: [\n")
	l.raw("an end of the document", l.plain("", "")+"...\nmore\n")
	l.raw("a directive", "%YAML 1.1\n---\n"+l.plain("", ""))
	l.raw("a comment at each end", strings.ReplaceAll(l.plain("", ""), "\n", " # x\n"))
	l.raw("tabs", strings.ReplaceAll(l.plain("", ""), "    token", "\ttoken"))
	l.raw("an anchor", l.plain("    token: t", "    token: &t t\n    as: *t"))
	l.raw("a merge", l.plain("- name: u\n  user:\n    token: t", "- name: v\n  user: &u\n    token: merged\n    as: x\n- name: u\n  user:\n    <<: *u\n    as: y"))
	l.raw("a merge of a list", l.plain("- name: u\n  user:\n    token: t", "- name: v\n  user: &u\n    token: merged\n- name: u\n  user:\n    <<: [*u, {as: z}]"))
	l.raw("an alias that is not there", l.plain("token: t", "token: *none"))
	l.raw("a member twice", l.plain("    token: t", "    token: s\n    token: t"))
	l.raw("a list twice", l.plain("users:", "users: []\nusers:"))
	l.raw("a list twice, the second empty", l.plain("", "")+"users: []\n")
	l.raw("current-context twice", l.plain("", "")+"current-context: y\n")
	l.raw("a flow", l.plain("  user:\n    token: t", "  user: {token: t, as: 'it''s', as-groups: [\"a\\tb\", c]}"))
	for _, value := range []string{"12", "1e3", "0x10", "0o17", "017", "1_000", "yes", "No", "on", "~", "null", "true", "2001-01-01", "1.5", ".inf", ".nan", "12:30", "=", "!!str 12", "!!binary YWJj", "!x y", "'12'", "\"\\x41\\u00e9\"", "a: b", "a #b", "a#b", "@a", "`a", "%a", "&a", "[a", "{a", "- a", "? a", "! a", "'a", "\"a", ">\n      a\n      b", "|\n      a", "a\n      b", "''", "\"\""} {
		l.raw("token: "+value, l.plain("token: t", "token: "+value))
	}
	for _, value := range []string{"yes", "YES", "y", "Y", "on", "no", "n", "off", "true", "True", "TRUE", "tRue", "false", "1", "0", "'true'", "~", "!!bool yes"} {
		l.raw("disable-compression: "+value, l.plain("    server:", "    disable-compression: "+value+"\n    server:"))
		l.raw("insecure-skip-tls-verify: "+value, l.plain("    certificate-authority-data: "+encode(l.p.ca), "    insecure-skip-tls-verify: "+value))
	}
	l.raw("names that are numbers", l.plain("- name: u\n", "- name: 1\n"))
	l.raw("names that are numbers, in quotes", strings.ReplaceAll(l.plain("- name: u\n", "- name: '1'\n"), "user: u", "user: '1'"))
	l.raw("a key that is a number", l.plain("    token: t", "    token: t\n    1: 2"))
	l.raw("a key that is null", l.plain("    token: t", "    token: t\n    ~: 2"))
	l.raw("a key that is a list", l.plain("    token: t", "    token: t\n    [a]: 2"))
	l.raw("a key in quotes", l.plain("    token: t", "    \"tok\\x65n\": t"))
	l.raw("a key with an explicit mark", l.plain("    token: t", "    ? token\n    : t"))
	l.raw("a name that is not UTF-8", l.plain("token: t", "token: \xff"))
	l.raw("a NUL", l.plain("token: t", "token: a\x00b"))
	l.raw("UTF-16", utf16(l.plain("", "")))
	l.raw("JSON with a comma at its end", strings.Replace(text(file(l.p.cluster(), object{"token": "t"})), "}]", "},]", 1))
	l.raw("JSON with a comment", "/* x */"+text(file(l.p.cluster(), object{"token": "t"})))
	l.raw("JSON and more", text(file(l.p.cluster(), object{"token": "t"}))+" more")
	l.raw("JSON twice", text(file(l.p.cluster(), object{"token": "t"}))+"\n"+text(file(l.p.cluster(), object{"token": "s"})))
	l.raw("JSON with a member twice", strings.Replace(text(file(l.p.cluster(), object{"token": "t"})), `"token":"t"`, `"token":"s","token":"t"`, 1))
	l.raw("JSON with escapes", strings.Replace(text(file(l.p.cluster(), object{"token": "t"})), `"token":"t"`, `"\u0074oken":"\u0041\/"`, 1))
	l.raw("JSON with tabs", strings.ReplaceAll(text(file(l.p.cluster(), object{"token": "t"})), ",", ",\n\t"))
	l.raw("deep nesting", l.plain("    token: t", "    token: t\n    more: "+strings.Repeat("[", 120)+strings.Repeat("]", 120)))
	l.raw("cut in half", l.plain("", "")[:len(l.plain("", ""))/2])
	l.raw("cut before the last line", strings.Replace(l.plain("", ""), "current-context: x\n", "", 1))
	l.raw("cut in the last line", strings.Replace(l.plain("", ""), "current-context: x\n", "current-co", 1))
	l.raw("no kubeconfig", "#!/bin/sh\necho hello\n")
	l.raw("a certificate", string(l.p.ca))
}

func utf16(text string) string {
	out := "\xff\xfe"
	for _, c := range text {
		out += string([]byte{byte(c), byte(c >> 8)})
	}
	return out
}
