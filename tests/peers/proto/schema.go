package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const head = `# The messages of Kubernetes' protobuf and their JSON, from the Go types of k8s.io/api 0.36.3 by tests/peers/proto. Not to be edited.
# package PACKAGE          the package of the messages that follow
# message NAME [APIVERSION/KIND]…, then a line for each field, in the order in which Go prints them:
#  NUMBER "JSON NAME": TYPE [omitempty] [omitzero]
#  NUMBER inline TYPE      the members of the message stand in this object
# message NAME = FORM      a message whose JSON has a form of its own; the fields that it names follow without a JSON name
# A TYPE is string, bool, int32, int64, double, bytes or a message (.PACKAGE.NAME, or NAME in this package); *TYPE may be missing, []TYPE repeats,
# {}TYPE is a map with string keys.
`

// forms are the types that marshal themselves.
var forms = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                       "time",
	reflect.TypeFor[metav1.MicroTime]():                                  "micro-time",
	reflect.TypeFor[metav1.Duration]():                                   "duration",
	reflect.TypeFor[metav1.FieldsV1]():                                   "raw",
	reflect.TypeFor[runtime.RawExtension]():                              "raw",
	reflect.TypeFor[resource.Quantity]():                                 "quantity",
	reflect.TypeFor[intstr.IntOrString]():                                "int-or-string",
	reflect.TypeFor[apiextensions.JSON]():                                "raw",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():               "or-bool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():              "or-array",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray]():        "or-strings",
	reflect.TypeFor[apiextensionsv1beta1.JSON]():                         "raw",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrBool]():        "or-bool",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrArray]():       "or-array",
	reflect.TypeFor[apiextensionsv1beta1.JSONSchemaPropsOrStringArray](): "or-strings",
}

// messages collects what is reachable from the kinds.
type messages map[reflect.Type][]string

func writeSchema(out io.Writer) {
	found := messages{}
	for _, kind := range kinds() {
		found.add(kind.of)
		found[kind.of] = append(found[kind.of], kind.apiVersion+"/"+kind.name)
	}
	found.add(reflect.TypeFor[metav1.ListMeta]())
	var types []reflect.Type
	for t := range found {
		types = append(types, t)
	}
	sort.Slice(types, func(i, j int) bool {
		return packageOf(types[i])+" "+types[i].Name() < packageOf(types[j])+" "+types[j].Name()
	})
	fmt.Fprint(out, head)
	at := ""
	for _, t := range types {
		if packageOf(t) != at {
			at = packageOf(t)
			fmt.Fprintln(out, "package", at)
		}
		writeMessage(out, t, found[t])
	}
}

func (found messages) add(t reflect.Type) {
	switch {
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Map, t.Kind() == reflect.Slice && !isMessage(t):
		found.add(t.Elem())
	case isMessage(t):
		if _, there := found[t]; there {
			return
		}
		found[t] = nil
		if t.Kind() == reflect.Struct {
			for _, field := range fields(t) {
				found.add(field.of)
			}
		}
	}
}

// isMessage tells a struct or a named list that has a message of its own from other types.
func isMessage(t reflect.Type) bool {
	_, marshals := reflect.PointerTo(t).MethodByName("Marshal")
	return marshals && t.PkgPath() != "" && (t.Kind() == reflect.Struct || t.Kind() == reflect.Slice)
}

type field struct {
	number, name string
	of           reflect.Type
	options      []string
	inline       bool
}

// fields are those that protobuf has. Messages with a form of their own have fields without a JSON name.
func fields(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, jsonTag := f.Tag.Get("protobuf"), strings.Split(f.Tag.Get("json"), ",")
		if tag == "" || tag == "-" {
			if f.Type != reflect.TypeFor[metav1.TypeMeta]() && forms[t] == "" {
				panic(fmt.Sprint(t, " has a field without a number: ", f.Name))
			}
			continue
		}
		inline := f.Anonymous && jsonTag[0] == ""
		if forms[t] == "" && !inline && (jsonTag[0] == "" || jsonTag[0] == "-") {
			panic(fmt.Sprint(t, " has a field without a JSON name: ", f.Name))
		}
		if inline && f.Type.Kind() != reflect.Struct && forms[t] == "" {
			panic(fmt.Sprint(t, " has an inline field that may be missing: ", f.Name))
		}
		var options []string
		for _, option := range jsonTag[1:] {
			switch {
			case option == "omitempty", option == "omitzero" && forms[f.Type] == "time":
				options = append(options, option)
			case option != "inline":
				panic(fmt.Sprint(t, " has an option that is not known: ", option))
			}
		}
		all = append(all, field{strings.Split(tag, ",")[1], jsonTag[0], f.Type, options, inline})
	}
	return all
}

func writeMessage(out io.Writer, t reflect.Type, kinds []string) {
	form := forms[t]
	if t.Kind() == reflect.Slice {
		fmt.Fprintf(out, "message %s = items\n 1 []%s\n", t.Name(), typeName(t.Elem(), t))
		return
	}
	if form == "" && t.Implements(reflect.TypeFor[json.Marshaler]()) {
		panic(fmt.Sprint(t, " has a JSON form that is not known"))
	}
	if form != "" {
		fmt.Fprintf(out, "message %s = %s\n", t.Name(), form)
		if strings.HasPrefix(form, "or-") {
			for _, f := range fields(t) {
				fmt.Fprintf(out, " %s %s\n", f.number, typeName(f.of, t))
			}
		}
		return
	}
	fmt.Fprintln(out, strings.Join(append([]string{"message", t.Name()}, kinds...), " "))
	for _, f := range fields(t) {
		name := fmt.Sprintf("%q:", f.name)
		if f.inline {
			name = "inline"
		}
		fmt.Fprintln(out, "", strings.Join(append([]string{f.number, name, typeName(f.of, t)}, f.options...), " "))
	}
}

// typeName is how a field of a message of type `in` names its type.
func typeName(t, in reflect.Type) string {
	switch {
	case isMessage(t) && packageOf(t) == packageOf(in):
		return t.Name()
	case isMessage(t):
		return "." + packageOf(t) + "." + t.Name()
	case t.Kind() == reflect.Pointer:
		return "*" + typeName(t.Elem(), in)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "bytes"
	case t.Kind() == reflect.Slice:
		return "[]" + typeName(t.Elem(), in)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		return "{}" + typeName(t.Elem(), in)
	case t.Kind() == reflect.String, t.Kind() == reflect.Bool, t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		return t.Kind().String()
	case t.Kind() == reflect.Float64:
		return "double"
	}
	panic(fmt.Sprint("no protobuf for ", t))
}
