package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// one is a kubeconfig file, and the files beside it.
type one struct {
	name  string
	text  string
	files map[string]string
}

func (c one) write(dir string) string {
	check(os.MkdirAll(dir, 0o700))
	for name, text := range c.files {
		path := filepath.Join(dir, name)
		check(os.MkdirAll(filepath.Dir(path), 0o700))
		mode := os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o700
		}
		check(os.WriteFile(path, []byte(text), mode))
	}
	path := filepath.Join(dir, "config")
	check(os.WriteFile(path, []byte(strings.ReplaceAll(c.text, "@DIR@", dir)), 0o600))
	return path
}

type object = map[string]any

func (p *place) server() string { return "https://localhost:" + p.https }

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// good is a cluster and a user that work.
func (p *place) cluster() object {
	return object{"server": p.server(), "certificate-authority-data": encode(p.ca)}
}

func with(of object, changes ...any) object {
	made := object{}
	for name, value := range of {
		made[name] = value
	}
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == absent {
			delete(made, changes[i].(string))
		} else {
			made[changes[i].(string)] = changes[i+1]
		}
	}
	return made
}

type nothing struct{}

var absent = nothing{}

func file(cluster, user any) object {
	return object{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": []any{object{"name": "c", "cluster": cluster}},
		"users":    []any{object{"name": "u", "user": user}},
		"contexts": []any{object{"name": "x", "context": object{"cluster": "c", "user": "u"}}},
	}
}

func text(value any) string {
	out, err := json.Marshal(value)
	check(err)
	return string(out)
}

// list gathers cases.
type list struct {
	p   *place
	all []one
}

func (l *list) raw(name, text string) { l.all = append(l.all, one{name, text, l.beside()}) }

func (l *list) of(name string, value any) { l.raw(name, text(value)) }

// beside is what every file may name.
func (l *list) beside() map[string]string {
	return map[string]string{
		"ca.pem": string(l.p.ca), "cert.pem": string(l.p.certificate), "key.pem": string(l.p.key), "sub/ca.pem": string(l.p.ca),
		"other-ca.pem": string(l.p.otherCA), "other-key.pem": string(l.p.otherKey),
		"token": "of-the-file\n", "empty": "", "blank": " \n", "two-lines": "a\nb\n",
		"plugin":      plugin("v1", `"token":"of-the-plugin"`),
		"plugin-beta": plugin("v1beta1", `"token":"of-the-plugin"`),
		"plugin-cert": plugin("v1", `"clientCertificateData":`+text(string(l.p.certificate))+`,"clientKeyData":`+text(string(l.p.key))),
		// Says what it was told, as its token.
		"tells": "#!/bin/sh\nprintf '{\"apiVersion\":\"client.authentication.k8s.io/%s\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}' " +
			"\"${SPEAKS:-v1}\" \"$(printf '%s|' \"$KUBERNETES_EXEC_INFO\" \"$GIVEN\" \"$@\" | base64 -w0)\"\n",
	}
}

func plugin(version, status string) string {
	return "#!/bin/sh\ncat <<'X'\n" + credential(version, status) + "\nX\n"
}

func credential(version, status string) string {
	return `{"apiVersion":"client.authentication.k8s.io/` + version + `","kind":"ExecCredential","status":{` + status + `}}`
}

func cases(p *place) []one {
	l := &list{p: p}
	l.encodings()
	l.types()
	l.credentials()
	l.parts()
	l.names()
	l.servers()
	l.trust()
	l.proxies()
	l.plugins()
	l.yaml()
	return l.all
}

// encodings are ways to write bytes.
func (l *list) encodings() {
	p := l.p
	wrap := func(data []byte, width int, end string) string {
		t, out := encode(data), ""
		for len(t) > width {
			out, t = out+t[:width]+end, t[width:]
		}
		return out + t + end
	}
	numbers := func(data []byte) any {
		var all []any
		for _, b := range data {
			all = append(all, b)
		}
		return all
	}
	ways := []struct {
		name string
		make func([]byte) any
	}{
		{"wrapped", func(d []byte) any { return wrap(d, 76, "\n") }},
		{"wrapped narrowly", func(d []byte) any { return wrap(d, 3, "\n") }},
		{"wrapped by CRLF", func(d []byte) any { return wrap(d, 64, "\r\n") }},
		{"wrapped by CR", func(d []byte) any { return wrap(d, 64, "\r") }},
		{"with a line break at its end", func(d []byte) any { return encode(d) + "\n" }},
		{"with a line break before it", func(d []byte) any { return "\n" + encode(d) }},
		{"with a space at its end", func(d []byte) any { return encode(d) + " " }},
		{"with spaces in it", func(d []byte) any { return wrap(d, 64, " ") }},
		{"with a tab", func(d []byte) any { return "\t" + encode(d) }},
		{"with a byte order mark", func(d []byte) any { return "\ufeff" + encode(d) }},
		{"without padding", func(d []byte) any {
			return strings.TrimRight(encode(append(d, '\n', '\n')[:len(d)+1+(3-(len(d)+1)%3+1)%3]), "=")
		}},
		{"with too much padding", func(d []byte) any { return encode(d) + "=" }},
		{"in the alphabet of URLs", func(d []byte) any { return base64.URLEncoding.EncodeToString(append(d, 0xff, 0xfe, 0xfb)) }},
		{"cut", func(d []byte) any { t := encode(d); return t[:len(t)/2] }},
		{"cut by a byte", func(d []byte) any { t := encode(d); return t[:len(t)-1] }},
		{"not encoded", func(d []byte) any { return string(d) }},
		{"encoded twice", func(d []byte) any { return encode([]byte(encode(d))) }},
		{"as numbers", numbers},
		{"empty", func(d []byte) any { return "" }},
		{"null", func(d []byte) any { return nil }},
		{"of a line break", func(d []byte) any { return encode([]byte("\n")) }},
		{"of text before", func(d []byte) any { return encode(append([]byte("subject=x\n"), d...)) }},
		{"of text after", func(d []byte) any { return encode(append(append([]byte{}, d...), "x\n"...)) }},
		{"of CRLF lines", func(d []byte) any { return encode([]byte(strings.ReplaceAll(string(d), "\n", "\r\n"))) }},
	}
	for _, way := range ways {
		l.of("certificate-authority-data "+way.name, file(with(p.cluster(), "certificate-authority-data", way.make(p.ca)), object{"token": "t"}))
		l.of("client-certificate-data "+way.name, file(p.cluster(), object{"client-certificate-data": way.make(p.certificate), "client-key-data": encode(p.key)}))
		l.of("client-key-data "+way.name, file(p.cluster(), object{"client-certificate-data": encode(p.certificate), "client-key-data": way.make(p.key)}))
	}
	for _, style := range []string{"|", ">", "|-", ">-", "|+", ">+"} {
		block := strings.ReplaceAll(strings.TrimRight(wrap(p.ca, 60, "\n"), "\n"), "\n", "\n      ")
		yaml := strings.ReplaceAll(plain, "@CA@", style+"\n      "+block)
		l.raw("a block "+style, strings.ReplaceAll(yaml, "@SERVER@", p.server()))
	}
}

// plain is a file in YAML.
const plain = `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster:
    server: @SERVER@
    certificate-authority-data: @CA@
users:
- name: u
  user:
    token: t
contexts:
- name: x
  context:
    cluster: c
    user: u
current-context: x
`

func (l *list) plain(old, new string) string {
	yaml := strings.ReplaceAll(strings.ReplaceAll(plain, "@CA@", encode(l.p.ca)), "@SERVER@", l.p.server())
	if old != "" && !strings.Contains(yaml, old) {
		panic(old)
	}
	return strings.Replace(yaml, old, new, 1)
}

// types are values of another type than is due.
func (l *list) types() {
	p := l.p
	values := []struct {
		name  string
		value any
	}{{"a number", 12}, {"true", true}, {"a list", []any{}}, {"an object", object{}}, {"a text", "no"}, {"null", nil}}
	exec := object{"apiVersion": "client.authentication.k8s.io/v1", "command": "@DIR@/plugin", "interactiveMode": "Never"}
	for _, v := range values {
		for _, member := range []string{"server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority", "certificate-authority-data", "proxy-url", "disable-compression", "extensions", "unknown"} {
			l.of("cluster: "+member+" is "+v.name, file(with(p.cluster(), member, v.value), object{"token": "t"}))
		}
		for _, member := range []string{"client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile", "as", "as-uid", "as-groups", "as-user-extra", "username", "password", "auth-provider", "exec", "extensions", "unknown"} {
			l.of("user: "+member+" is "+v.name, file(p.cluster(), with(object{"token": "t"}, member, v.value)))
		}
		for _, member := range []string{"apiVersion", "command", "args", "env", "installHint", "provideClusterInfo", "interactiveMode", "unknown"} {
			l.of("exec: "+member+" is "+v.name, file(p.cluster(), object{"exec": with(exec, member, v.value)}))
		}
		for _, member := range []string{"apiVersion", "kind", "preferences", "clusters", "users", "contexts", "current-context", "extensions", "unknown"} {
			l.of(member+" is "+v.name, with(file(p.cluster(), object{"token": "t"}), member, v.value))
		}
		l.of("cluster is "+v.name, file(v.value, object{"token": "t"}))
		l.of("user is "+v.name, file(p.cluster(), v.value))
		l.of("the file is "+v.name, v.value)
		other := file(p.cluster(), object{"token": "t"})
		other["users"] = append(other["users"].([]any), object{"name": "another", "user": object{"token": v.value}})
		l.of("another user: token is "+v.name, other)
		other = file(p.cluster(), object{"token": "t"})
		other["contexts"] = append(other["contexts"].([]any), object{"name": "another", "context": object{"namespace": v.value}})
		l.of("another context: namespace is "+v.name, other)
	}
	l.of("a number in as-groups", file(p.cluster(), object{"token": "t", "as": "a", "as-groups": []any{1}}))
	l.of("null in as-groups", file(p.cluster(), object{"token": "t", "as": "a", "as-groups": []any{nil, "g"}}))
	l.of("null in args", file(p.cluster(), object{"exec": with(exec, "command", "@DIR@/tells", "args", []any{nil, "b"})}))
	l.of("null in users", with(file(p.cluster(), object{"token": "t"}), "users", []any{nil, object{"name": "u", "user": object{"token": "t"}}}))
	l.of("a text in clusters", with(file(p.cluster(), object{"token": "t"}), "clusters", []any{"c"}))
}

// credentials are all combinations of them.
func (l *list) credentials() {
	p := l.p
	parts := []struct {
		name string
		with object
	}{
		{"token", object{"token": "of-the-kubeconfig"}},
		{"tokenFile", object{"tokenFile": "token"}},
		{"password", object{"username": "me", "password": "it"}},
		{"certificate", object{"client-certificate": "cert.pem", "client-key": "key.pem"}},
		{"exec", object{"exec": object{"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}}},
		{"as", object{"as": "another", "as-uid": "7", "as-groups": []any{"g", "h"}, "as-user-extra": object{"example.org/A b": []any{"1", "2"}}}},
		{"auth-provider", object{"auth-provider": object{"name": "gcp", "config": object{"a": "b"}}}},
	}
	for _, scheme := range []string{"https", "http"} {
		for set := 0; set < 1<<len(parts); set++ {
			user, names := object{}, []string{}
			for i, part := range parts {
				if set&(1<<i) != 0 {
					user, names = with(user, pairs(part.with)...), append(names, part.name)
				}
			}
			cluster := p.cluster()
			if scheme == "http" {
				if set%5 != 0 {
					continue
				}
				cluster = object{"server": "http://localhost:" + p.http}
			}
			l.of(fmt.Sprintf("%s with %s", scheme, strings.Join(names, " and ")), file(cluster, user))
		}
	}
	for name, user := range map[string]object{
		"a password alone":                        {"password": "it"},
		"a name alone":                            {"username": "me"},
		"a password and a token":                  {"password": "it", "token": "t"},
		"a password and a tokenFile":              {"password": "it", "tokenFile": "token"},
		"a token and a tokenFile that is missing": {"token": "t", "tokenFile": "none"},
		"a token and a tokenFile that is empty":   {"token": "t", "tokenFile": "empty"},
		"a tokenFile that is missing":             {"tokenFile": "none"},
		"a tokenFile that is empty":               {"tokenFile": "empty"},
		"a tokenFile that is blank":               {"tokenFile": "blank"},
		"a tokenFile of two lines":                {"tokenFile": "two-lines"},
		"a tokenFile that is a directory":         {"tokenFile": "sub"},
		"a tokenFile by its whole path":           {"tokenFile": "@DIR@/token"},
		"a tokenFile by way of another directory": {"tokenFile": "sub/../token"},
		"a tokenFile in another case":             {"tokenfile": "token"},
		"a token with a line break":               {"token": "a\nb"},
		"a token with a line break at its end":    {"token": "a\n"},
		"a token with spaces":                     {"token": " a b "},
		"a token that is not ASCII":               {"token": "jané"},
		"a name with a colon":                     {"username": "a:b", "password": "c:d"},
		"a password that is not ASCII":            {"username": "jané", "password": "ü"},
		"a certificate without a key":             {"client-certificate": "cert.pem"},
		"a key without a certificate":             {"client-key": "key.pem"},
		"two keys without a certificate":          {"client-key": "key.pem", "client-key-data": encode(p.key)},
		"a certificate with the key of another":   {"client-certificate": "cert.pem", "client-key": "other-key.pem"},
		"a certificate in data, a key in a file":  {"client-certificate-data": encode(p.certificate), "client-key": "key.pem"},
		"a certificate in both":                   {"client-certificate": "cert.pem", "client-certificate-data": encode(p.certificate), "client-key": "key.pem"},
		"a key in both":                           {"client-certificate": "cert.pem", "client-key": "key.pem", "client-key-data": encode(p.key)},
		"a certificate that is missing":           {"client-certificate": "none.pem", "client-key": "key.pem"},
		"a key that is missing":                   {"client-certificate": "cert.pem", "client-key": "none.pem"},
		"a certificate that is a key":             {"client-certificate": "key.pem", "client-key": "key.pem"},
		"a certificate that is empty":             {"client-certificate": "empty", "client-key": "key.pem"},
		"a key that is empty":                     {"client-certificate": "cert.pem", "client-key": "empty"},
		"as with no more":                         {"token": "t", "as": "another"},
		"as that is not ASCII":                    {"token": "t", "as": "jané"},
		"as with a line break":                    {"token": "t", "as": "a\nb"},
		"as with spaces around":                   {"token": "t", "as": " a "},
		"as-uid without as":                       {"token": "t", "as-uid": "7"},
		"as-groups without as":                    {"token": "t", "as-groups": []any{"g"}},
		"as-groups that are empty, without as":    {"token": "t", "as-groups": []any{}},
		"as-user-extra without as":                {"token": "t", "as-user-extra": object{"a": []any{"b"}}},
		"as-user-extra that is empty, without as": {"token": "t", "as-user-extra": object{}},
		"as-user-extra of odd names":              {"token": "t", "as": "a", "as-user-extra": object{"a%b c/d:é": []any{"x"}, "UPPER": []any{"y"}}},
		"as-user-extra with no values":            {"token": "t", "as": "a", "as-user-extra": object{"a": nil, "b": []any{}}},
		"as-user-extra with an empty name":        {"token": "t", "as": "a", "as-user-extra": object{"": []any{"b"}}},
		"a group that is empty":                   {"token": "t", "as": "a", "as-groups": []any{""}},
		"auth-provider without a name":            {"auth-provider": object{}},
		"auth-provider azure":                     {"auth-provider": object{"name": "azure"}},
		"auth-provider oidc":                      {"auth-provider": object{"name": "oidc", "config": object{"id-token": "x"}}},
		"auth-provider with a number":             {"auth-provider": object{"name": "oidc", "config": object{"a": 1}}},
		"nobody":                                  {},
	} {
		l.of(name, file(p.cluster(), user))
	}
}

func pairs(of object) []any {
	var all []any
	for name, value := range of {
		all = append(all, name, value)
	}
	return all
}
