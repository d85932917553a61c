// functions.go: prints what the functions of kube-apiserver's CEL libraries make of many values: `go run functions.go quantity|net|semver|url|format|regex`.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"math"
	"math/rand"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
)

var _ = math.Pi
var _ = netip.Addr{}
var _ = semver.Version{}
var _ = url.URL{}
var _ = regexp.Regexp{}
var _ = resource.Quantity{}
var out *bufio.Writer
var env *cel.Env

func render(v ref.Val) string {
	switch x := v.(type) {
	case types.Bool:
		return fmt.Sprint(bool(x))
	case types.Int:
		return fmt.Sprint(int64(x))
	case types.Double:
		return strconv.FormatFloat(float64(x), 'g', -1, 64)
	case types.String:
		return string(x)
	case *types.Optional:
		if x.HasValue() {
			return render(x.GetValue())
		}
		return "none"
	case traits.Lister:
		p := []string{}
		for it := x.Iterator(); it.HasNext() == types.True; {
			p = append(p, render(it.Next()))
		}
		b, _ := marshal(p)
		return string(b)
	}
	return "?" + v.Type().TypeName()
}

var seen = map[string]bool{}
var progs = map[string]cel.Program{}

func row(op, expr string, args ...any) {
	p := progs[expr]
	if p == nil {
		e := env
		opts := []cel.EnvOption{}
		for i, a := range args {
			t := cel.StringType
			if _, ok := a.(int64); ok {
				t = cel.IntType
			}
			opts = append(opts, cel.Variable(string(rune('a'+i)), t))
		}
		e, err := env.Extend(opts...)
		if err != nil {
			panic(err)
		}
		ast, iss := e.Compile(expr)
		if iss.Err() != nil {
			panic(iss.Err())
		}
		p, err = e.Program(ast, cel.CostTracking(&library.CostEstimator{}))
		if err != nil {
			panic(err)
		}
		progs[expr] = p
	}
	vars := map[string]any{}
	for i, a := range args {
		vars[string(rune('a'+i))] = a
	}
	v, _, err := p.Eval(vars)
	r := ""
	if err != nil {
		r = "error: " + err.Error()
	} else {
		r = render(v)
	}
	if op == "format" || op == "uri" {
		var l []string
		if json.Unmarshal([]byte(r), &l) == nil {
			for i := range l {
				if seen[l[i]] && len(l[i]) > 40 {
					l[i] = l[i][:30] + "…"
				} else {
					seen[l[i]] = true
				}
			}
			bb, _ := marshal(l)
			r = string(bb)
		}
	}
	b, _ := marshal(append([]any{op}, append(args, r)...))
	b = []byte(string(b))
	out.Write(b)
	out.WriteByte('\n')
}
func marshal(v any) ([]byte, error) {
	var sb strings.Builder
	e := json.NewEncoder(&sb)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return []byte(strings.TrimSuffix(sb.String(), "\n")), err
}
func main() {
	env = environment.MustBaseEnvSet(version.MajorMinor(1, 36)).StoredExpressionsEnv()
	out = bufio.NewWriter(os.Stdout)
	defer out.Flush()
	which := os.Args[1]
	n := 0
	if len(os.Args) > 2 {
		n, _ = strconv.Atoi(os.Args[2])
	}
	r := rand.New(rand.NewSource(7))
	pick := func(s []string) string { return s[r.Intn(len(s))] }
	switch which {
	case "quantity":
		qs := []string{"0", "1", "-1", "+1", "1.5", "1500m", "0.5", "1k", "1Ki", "1024", "1000Ki", "12Mi", "1.5Gi", "10Ei", "8Ei", "7Ei", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "123456789012345678901", "1e3", "1E3", "1e-3", "1e18", "1e19", "1e300", "-1e300", "1n", "0.1n", "1u", "-0.1n", "1e100", "5e-324", "", "abc", "1 Gi", "1Zi", "1.2.3", "0x10", "m", ".", "-", "+", ".n", ".e-20", "1.", "1.G", "1e", "1E", "1K", "--1", "1e+5", "1e99999999999999999999", "00", "-0", "007", "1e5E", "0.0000000001", "1234567890123456789012", "999999999999999999", "1000000000000000000", "0.1Ki", "123456789.123456789123", "1eE5", "1i", "200M", "0.2G", "15Mi", " 1", "1 ", "１"}
		g := func() string {
			s := pick([]string{"", "-", "+", ""})
			nd := r.Intn(12)
			if r.Intn(8) == 0 {
				nd = 15 + r.Intn(12)
			}
			for i := 0; i < nd; i++ {
				s += string(rune('0' + r.Intn(10)))
			}
			if r.Intn(3) == 0 {
				s += "."
				for i := r.Intn(11); i > 0; i-- {
					s += string(rune('0' + r.Intn(10)))
				}
			}
			return s + pick([]string{"", "m", "k", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "E", "M", "G", "e3", "e-3", "e9", "e-9", "e18", "e20", "E-1"})
		}
		for i := 0; i < n; i++ {
			qs = append(qs, g())
		}
		for _, q := range qs {
			row("isQuantity", "isQuantity(a)", q)
			row("integer", "quantity(a).asInteger()", q)
			row("float", "quantity(a).asApproximateFloat()", q)
			row("sign", "sign(quantity(a))", q)
		}
		for i := 0; i < 60+2*n; i++ {
			a, b := pick(qs), pick(qs)
			row("compare", "quantity(a).compareTo(quantity(b))", a, b)
			row("sumFloat", "quantity(a).add(quantity(b)).asApproximateFloat()", a, b)
			row("differenceFloat", "quantity(a).sub(quantity(b)).asApproximateFloat()", a, b)
			row("sumInteger", "quantity(a).add(quantity(b)).asInteger()", a, b)
		}
		for _, k := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1000} {
			for _, q := range []string{"1", "0", "-1", "1m", "9223372036854775807", "1e300"} {
				row("addInt", "quantity(a).add(b).asInteger()", q, k)
				row("subInt", "quantity(a).sub(b).asInteger()", q, k)
			}
		}
	case "net":
		is := []string{"1.2.3.4", "::1", "::", "0.0.0.0", "127.0.0.1", "127.255.0.1", "224.0.0.1", "224.0.1.1", "169.254.1.1", "fe80::1", "ff02::1", "ff01::1", "ff12::1", "255.255.255.255", "2001:db8::abcd", "2001:DB8::ABCD", "2001:db8:0:0:0:0:0:1", "::ffff:1.2.3.4", "::ffff:c0a8:1", "fe80::1%eth0", "::%", "::1%", "%x", "01.2.3.4", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2..3", ".1.2.3", "1.2.3.", "a.b", "1.2.3.4a", "1.2.3.4é", "::1.2.3.4", "1::2::3", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::", "::1:2:3:4:5:6:7:8", "12345::", "1:", "1:2", "g::", ":::", ":1", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "::1.2.3", "::1.2.3.4x", "", "x", "1::1::", "fe80::1%", "fe80::1%a%b", "::00001", "1:2:3:4:5:6:7:8%z", "10.0.0.1", "192.168.0.1", "8.8.8.8", "2001:db8:1:1:1:1:1:0", "1:0:0:2:0:0:0:3", "1:0:2:0:0:3:0:0", "é::", "::1é"}
		for _, i := range is {
			row("isIP", "isIP(a)", i)
			row("ip", "string(ip(a))", i)
			row("isCanonical", "ip.isCanonical(a)", i)
			row("ipFlags", "[string(ip(a).family()),string(ip(a).isUnspecified()),string(ip(a).isLoopback()),string(ip(a).isLinkLocalMulticast()),string(ip(a).isLinkLocalUnicast()),string(ip(a).isGlobalUnicast())]", i)
		}
		cs := []string{"10.0.0.0/8", "10.1.2.3/8", "192.168.0.0/24", "192.168.0.128/25", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8:1::/48", "2001:db8:1::7/128", "1.2.3.4/32", "::ffff:1.2.3.4/96", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/01", "1.2.3.4/+1", "1.2.3.4/a", "::1/129", "fe80::1%eth0/64", "/8", "x/8", "1.2.3.4/8/8", "1.2.3.4/99999999999999999999", "1.2.3.4/ 8", "::1/0", "10.0.0.0/9"}
		for _, c := range cs {
			row("isCIDR", "isCIDR(a)", c)
			row("cidr", "[string(cidr(a)),string(cidr(a).masked()),string(cidr(a).prefixLength()),string(cidr(a).ip())]", c)
			for _, d := range []string{"10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/24", "0.0.0.0/0", "2001:db8:1::/48", "::/0"} {
				row("containsCIDR", "cidr(a).containsCIDR(cidr(b))", c, d)
			}
			for _, d := range []string{"10.255.0.1", "192.168.0.200", "2001:db8::1", "::1"} {
				row("containsIP", "cidr(a).containsIP(ip(b))", c, d)
			}
		}
	case "semver":
		vs := []string{"1.2.3", "v1.2.3", "1.2", "1", "", "01.2.3", "1.02.3", "1.2.03", "a.2.3", "1.b.3", "1.2.c", "1.2.3-alpha", "1.2.3-alpha.1", "1.2.3-alpha.01", "1.2.3-", "1.2.3-a..b", "1.2.3+", "1.2.3+build", "1.2.3+b..c", "1.2.3-a+b-c", "1.2.3+b_c", "1.2.3-a_b", "18446744073709551615.0.0", "18446744073709551616.0.0", "9223372036854775808.1.1", "1.2.3.4", "1.2.3-1.2.3", "1.0.0-alpha.beta", "1.0.0-rc.1", "1.0.0", "1.0.0-2", "1.0.0-10", "1.0.0-1a", "v01.002.0003", "v1", "v1.2", "1.2-rc", "1+b", "vv1.2.3", "00.00.00", "1..", "..", "v", "0", "1.2.3-00a", "1.2.03-x", "1.02.003-x+y", "é.1.1", "1.1.1-é", " 1.2.3"}
		for _, v := range vs {
			row("isSemver", "isSemver(a)", v)
			row("semver", "[string(semver(a).major()),string(semver(a).minor()),string(semver(a).patch())]", v)
			row("normalized", "[string(semver(a,true).major()),string(semver(a,true).minor()),string(semver(a,true).patch())]", v)
			row("isNormalized", "isSemver(a, true)", v)
		}
		ok := []string{"1.2.3", "1.2.3-alpha", "1.2.3-alpha.1", "1.2.3-alpha.beta", "1.2.3+build", "1.0.0", "1.0.0-2", "1.0.0-10", "1.0.0-1a", "1.0.0-rc.1", "2.0.0", "1.10.0", "1.2.3-a+b-c", "1.0.0-2.x", "18446744073709551615.0.0"}
		for _, a := range ok {
			for _, b := range ok {
				row("compareSemver", "semver(a).compareTo(semver(b))", a, b)
			}
		}
	case "url":
		us := []string{"https://example.com:80/path?query=val#fragment", "https://example.com", "HTTPS://u:p@Example.com:8080/a%20b/c?x=1&y=2&x=3", "/path", "/path?q=1", "path", "", "*", "//host/path", "///x", "file:///etc/passwd", "file:/etc", "mailto:a@b", "a:", "a:?q", "https://[::1]:80/", "https://[::1]", "https://[fe80::1%25eth0]:443/", "https://[fe80::1%25et%20h]/", "https://[::1%41]", "https://[1.2.3.4]/", "https://[::x]/", "https://[::1", "https://a[::1]/", "https://a b/", "https://a%41/", "https://a%20/", "https://%C3%A9/", "https://é.com/é?é=é#é", "https://a:b/", "https://a:80:90/", "http2://a:80:90/", "https://a:/", "https://u b@h/", "https://é@h/", "https://u%zz@h/", "https://u%40:p%3A@h/", "https://a/%zz", "https://a/%4", "https://a/b#%zz", "https://a/b#c d", "https://a/!'()*[]", "https://a/a b", "https://a/%2f%2F", "https://a?", "https://a??", "https://a/?", "https://a?b?", "/a?b#c", "a\u007f", "https://a/\u0001", "1:x", ":x", "+a://b", "a+b-c.d://e/f", "https://a/?a=b;c", "https://a/?a=%zz&b=1", "https://a/?a+b=c+d&%20=%26", "https://a/?a&b=&=c", "https://a<b>/", "https://a\"b/", "https://a^b/", "https://a%", "https://a/%aé", "https://a/b:c", "./a:b", "/a:b", "https:////a//b", "https://@a/", "https://:@a/", "https://a:p:q@b/", "https://a@b@c/", "https://a/b?c#d#e", "https://?q", "https://#f", "/%", "http://a/%E4%B8%96", "https://a/*", "/*", "https://[::1]x/", "https://[::1]:x/", "https://[::ffff:1.2.3.4]/", "https://a]b/"}
		for _, u := range us {
			row("isURL", "isURL(a)", u)
			row("url", "[url(a).getScheme(),url(a).getHost(),url(a).getHostname(),url(a).getPort(),url(a).getEscapedPath()]", u)
			row("query", "url(a).getQuery().map(k, k + '=' + url(a).getQuery()[k].join(',')).sort().join('|')", u)
			row("uri", "format.uri().validate(a).orValue([])", u)
		}
		for _, p := range [][2]string{{"https://a", "https://a/"}, {"HTTPS://a", "https://a"}, {"https://A", "https://a"}, {"https://a/%41", "https://a/A"}, {"https://a?", "https://a"}, {"https://a/ b", "https://a/%20b"}, {"https://é", "https://%C3%A9"}, {"file:/a", "file:///a"}, {"https://u%41@a", "https://uA@a"}, {"https://a#", "https://a"}, {"https://a#b c", "https://a#b%20c"}} {
			row("sameURL", "url(a)==url(b)", p[0], p[1])
		}
	case "format":
		ts := []string{"", "a", "A", "a-b", "-a", "a-", "a.b", "a..b", "A.b", "1a", "a_b", "a/b", "a/b/c", "/a", "A/b", "a/", "a/_", "é", "a ", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("a", 250) + ".b", strings.Repeat("A", 64), strings.Repeat("A", 254), "ab-", "a--", "-", "--", "é-", "1-", "00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000", "g0000000-0000-0000-0000-000000000000", "aGVsbG8=", "aGVsbG8", "====", "2024-02-30", "2024-02-29", "2024-1-1", "2024-02-29T10:00:00Z", "2024-02-29t10:00:00z", "2024-02-29T25:00:00Z", "2024-02-29T10:00:00+07:00", "2024-02-29T10:00:00", "a.b/c.d", "x.y.z/" + strings.Repeat("b", 64)}
		for _, f := range []string{"dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix", "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uuid", "byte", "date", "datetime"} {
			for _, t := range ts {
				row("format", "format.named(a).value().validate(b).orValue([])", f, t)
			}
		}
	case "regex":
		ps := []string{"a*", "a*?", "a+?", "(a|ab)(c|bcd)", "a|ab", "ab|a", "(?i)AB", "^a", "a$", "^", "$", "", "b*", "x*", "\\b", "\\bfoo\\b", "(|a)*", "(|a)+", "(a*)+", "(a*)*", "(?:a|b)*?c", "a{2,3}", "a{2,3}?", "(?U)a+", "(?U)a+?", "[^a]", "é", "(?s).", "(?m)^.", "\\d+", "(a?)*?b", "(?:(a)|b)*", "a.c|.*", "(?m)$", "(a|b|ab)*c", "x?", "(?:x?)+?y", "(a{0,2}){2}", "(?:|a){3}", "((a)|(ab))((c)|(bc)|())", "z|a*", "(", "a**", "a.*?c", ".*c|ab"}
		ts := []string{"", "a", "aa", "aab", "abcd", "ab", "foo bar", "foofoo foo", "éaé", "a\nb\nc", "12a345", "abc abc", "baaac", "xyxy", "ccc"}
		for _, p := range ps {
			row("findAll", "a.findAll(b)", "", p)
			re, err := regexp.Compile(p)
			if err != nil {
				continue
			}
			m := []any{}
			for _, t := range ts {
				al := re.FindAllString(t, -1)
				if al == nil {
					al = []string{}
				}
				m = append(m, []any{t, al})
			}
			bb, _ := marshal([]any{"matches", p, m})
			out.Write(bb)
			out.WriteByte('\n')
		}
		for _, t := range []string{"aab", "", "baaac"} {
			for _, p := range []string{"a*", "", "a"} {
				for _, k := range []int64{-1, 0, 1, 2} {
					row("findSome", "a.findAll(b, c)", t, p, k)
				}
			}
		}
	}
}
