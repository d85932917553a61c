package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// writeOdd writes a line for each kind, as writeGolden does, with JSON as no server prints it and the message that Go makes of it: explicit nulls,
// empty values, members nobody knows, spaces, escapes, quantities and times in other forms. A dash stands in the place of the message.
func writeOdd(out *bufio.Writer, seed int64, fullness int, only []string) {
	for i, kind := range kinds() {
		if len(only) > 0 && !slices.Contains(only, kind.name) {
			continue
		}
		odd := odd{filler{rand.New(rand.NewSource(seed + int64(i))), fullness}}
		text := odd.object(kind.of, 0)
		read := reflect.New(kind.of)
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), read.Interface()); err != nil {
			panic(fmt.Sprint(kind, " ", err, ": ", text))
		}
		raw, err := read.Interface().(message).Marshal()
		check(err)
		fmt.Fprintf(out, "%s\t%s\t-\t%s\t%s\n", kind.apiVersion, kind.name, text, base64.StdEncoding.EncodeToString(raw))
	}
}

type odd struct{ filler }

func (o odd) one(of ...string) string { return of[o.Intn(len(of))] }

// object writes the members of a struct in random order.
func (o odd) object(t reflect.Type, depth int) string {
	members := o.members(t, depth)
	members = append(members, o.one(`"unknown":{"a":[1,{}]}`, `"Kind" : 5`, `"unknown":null`))
	o.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + o.one("", " ") + strings.Join(members, o.one(",", " , ")) + "}"
}

func (o odd) members(t reflect.Type, depth int) []string {
	var members []string
	for _, f := range fields(t) {
		switch {
		case f.inline:
			members = append(members, o.members(f.of, depth)...)
		case o.there(depth):
			name := f.name
			if o.Intn(20) == 0 {
				name = fmt.Sprintf(`\u%04x`, name[0]) + name[1:]
			}
			members = append(members, `"`+name+`":`+o.value(f.of, depth+1))
		}
	}
	return members
}

func (o odd) value(t reflect.Type, depth int) string {
	form := forms[t]
	nullable := form != "or-bool" && form != "or-array" && form != "or-strings"
	if nullable && o.Intn(5) == 0 {
		return "null"
	}
	if form != "" {
		return o.form(form, t, depth)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return o.value(t.Elem(), depth)
	case reflect.Struct:
		return o.object(t, depth)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return o.one(`""`, `"AA=="`, `"AB=="`, `"AAEC"`, `"\/\/8="`, `"A\nA=="`)
		}
		var items []string
		for o.there(depth) && len(items) < 3 {
			items = append(items, o.value(t.Elem(), depth+1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case reflect.Map:
		var entries []string
		for o.there(depth) && len(entries) < 4 {
			entries = append(entries, o.one(`"b"`, `"a"`, `""`, `"\u0061"`, `"é"`, `"z\\"`)+":"+o.value(t.Elem(), depth+1))
		}
		return "{" + strings.Join(entries, ",") + "}"
	case reflect.String:
		return o.one(`""`, `"a"`, `"\ud83d\ude00\ud83d"`, `"\/\b\f\n\r\t\"\\"`, `"<\u003c"`)
	case reflect.Bool:
		return o.one("true", "false")
	case reflect.Int32:
		return o.one("0", "-1", "2147483647", "-2147483648")
	case reflect.Int64:
		return o.one("0", "-1", "9223372036854775807", "-9223372036854775808")
	case reflect.Float64:
		return o.one("0", "-0", "1e3", "0.10", "1E-7", "123456789012345678901234567890")
	}
	panic(fmt.Sprint("no odd ", t))
}

func (o odd) form(form string, t reflect.Type, depth int) string {
	switch form {
	case "time":
		return o.one(`"2026-11-21T17:00:00Z"`, `"2026-11-21T17:00:00.5Z"`, `"2026-11-21T17:00:00+05:30"`, `"0001-01-01T00:00:00Z"`, `"1969-12-31T23:59:59Z"`)
	case "micro-time":
		return o.one(`"2026-11-21T17:00:00.000001Z"`, `"2026-11-21T17:00:00.123456+05:30"`, `"0001-01-01T00:00:00.000000Z"`)
	case "raw":
		if t == reflect.TypeFor[metav1.FieldsV1]() {
			return o.one(`{}`, `{"f:a":{ }}`)
		}
		return o.one(`{}`, `{ "a" : [ 1.50 ] }`, `"\u003c<"`, `[]`, `1e3`, `false`)
	case "quantity":
		return o.one(`"0.5"`, `"1.500"`, `1`, `0.25`, `"1024Ki"`, `" 1 "`, `"1e3"`, `"-0"`, `"100m"`)
	case "int-or-string":
		return o.one(`"80"`, `80`, `""`, `-1`)
	case "or-bool":
		return o.one("true", "false", "{}")
	case "or-array":
		return o.one("{}", "[]", "[{}]", `{"type":"t"}`)
	case "or-strings":
		return o.one("{}", "[]", `["a",""]`, `{"type":"t"}`)
	}
	panic(form)
}
