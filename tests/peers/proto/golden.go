package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"reflect"
	"slices"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
)

// message is what every Go type with protobuf can do.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// writeGolden writes a line for each kind: apiVersion, kind, the message in base64, the JSON that Go makes of it, and when Go makes another message
// of that JSON (a null takes back a pointer to a zero time), that one.
func writeGolden(out *bufio.Writer, seed int64, fullness int, only []string) {
	write(out, seed, fullness, only, func(reflect.Value) {})
}

// writeFilled writes the same of objects as a server would have them: each with the name `filled`, in the namespace `default`, not being deleted.
func writeFilled(out *bufio.Writer, seed int64, fullness int, only []string) {
	write(out, seed, fullness, only, func(object reflect.Value) {
		if field := object.FieldByName("ObjectMeta"); field.IsValid() {
			meta := field.Addr().Interface().(*metav1.ObjectMeta)
			meta.Name, meta.Namespace, meta.UID, meta.ResourceVersion, meta.SelfLink = "filled", "default", "filled", "", ""
			meta.DeletionTimestamp, meta.DeletionGracePeriodSeconds = nil, nil
		}
	})
}

func write(out *bufio.Writer, seed int64, fullness int, only []string, change func(reflect.Value)) {
	for i, kind := range kinds() {
		if len(only) > 0 && !slices.Contains(only, kind.name) {
			continue
		}
		fill := filler{rand.New(rand.NewSource(seed + int64(i))), fullness}
		object := reflect.New(kind.of)
		fill.value(object.Elem(), 0)
		change(object.Elem())
		raw, err := object.Interface().(message).Marshal()
		check(err)
		text := jsonOf(raw, kind.of, kind.apiVersion, kind.name)
		back := reflect.New(kind.of)
		check(kjson.UnmarshalCaseSensitivePreserveInts(text, back.Interface()))
		again, err := back.Interface().(message).Marshal()
		check(err)
		fmt.Fprintf(out, "%s\t%s\t%s\t%s", kind.apiVersion, kind.name, base64.StdEncoding.EncodeToString(raw), text)
		if !bytes.Equal(again, raw) {
			fmt.Fprint(out, "\t", base64.StdEncoding.EncodeToString(again))
		}
		fmt.Fprintln(out)
	}
}

// writeEncoded writes the messages of objects that it reads as JSON, one a line; those of kinds that have none are left out.
func writeEncoded(out *bufio.Writer, in io.Reader) {
	types := map[string]kind{}
	for _, kind := range kinds() {
		types[kind.apiVersion+" "+kind.name] = kind
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var meta metav1.TypeMeta
		check(json.Unmarshal(lines.Bytes(), &meta))
		kind, known := types[meta.APIVersion+" "+meta.Kind]
		if !known {
			continue
		}
		object := reflect.New(kind.of)
		check(kjson.UnmarshalCaseSensitivePreserveInts(lines.Bytes(), object.Interface()))
		raw, err := object.Interface().(message).Marshal()
		check(err)
		fmt.Fprintf(out, "%s\t%s\t%s\n", kind.apiVersion, kind.name, base64.StdEncoding.EncodeToString(raw))
	}
	check(lines.Err())
}

func jsonOf(raw []byte, of reflect.Type, apiVersion, kind string) []byte {
	read := reflect.New(of)
	check(read.Interface().(message).Unmarshal(raw))
	if meta := read.Elem().FieldByName("TypeMeta"); meta.IsValid() {
		meta.Set(reflect.ValueOf(metav1.TypeMeta{Kind: kind, APIVersion: apiVersion}))
	}
	if items := read.Elem().FieldByName("Items"); items.IsValid() && items.IsNil() {
		// Protobuf cannot say which, and kube-apiserver never answers a list with null.
		items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	}
	text, err := json.Marshal(read.Interface())
	check(err)
	return text
}

// filler fills values: everything that may be missing is there in `fullness` of 100 cases.
type filler struct {
	*rand.Rand
	fullness int
}

const depthMax = 14

var texts = []string{"", "a", "name", "a-b.c/d", "<&>\"\\\n\u2028é", "zażółć", "x y", "0", "\x01\x7f\t", "kubernetes.io/long-name-of-something-that-goes-on-and-on-for-more-than-one-hundred-and-twenty-seven-bytes-because-lengths-then-take-two-bytes"}
var quantities = []string{"0", "1", "500m", "1Gi", "250Mi", "1e3", "-5", "100k", "1536Ki", "123456789n", "99999999999999999999"}
var raws = []string{`{}`, `{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}`, `[1,2.50,"x"]`, `"t"`, `{"a":"\u003c","b":null,"c":[]}`, `true`}

func (f filler) there(depth int) bool { return depth < depthMax && f.Intn(100) < f.fullness }

func (f filler) text() string { return texts[f.Intn(len(texts))] }

func (f filler) raw() []byte { return []byte(raws[f.Intn(len(raws))]) }

func (f filler) value(v reflect.Value, depth int) {
	if f.special(v, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if f.there(depth) {
			v.Set(reflect.New(v.Type().Elem()))
			f.value(v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Type != reflect.TypeFor[metav1.TypeMeta]() {
				f.value(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if f.there(depth) {
				bytes := make([]byte, 1+f.Intn(20))
				f.Read(bytes)
				v.SetBytes(bytes)
			}
		} else if f.there(depth) {
			n := 1 + f.Intn(2)
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.value(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if f.there(depth) {
			v.Set(reflect.MakeMap(v.Type()))
			for range 1 + f.Intn(3) {
				value := reflect.New(v.Type().Elem()).Elem()
				f.value(value, depth+1)
				v.SetMapIndex(reflect.ValueOf(f.text()).Convert(v.Type().Key()), value)
			}
		}
	default:
		if f.there(depth) {
			f.scalar(v)
		}
	}
}

func (f filler) scalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.Intn(3) > 0)
	case reflect.Int32:
		v.SetInt(int64(int32(f.Uint32()) >> f.Intn(32)))
	case reflect.Int64:
		v.SetInt(int64(f.Uint64()) >> f.Intn(64))
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, 0.1, -2.5e30, 1e-7, 100}[f.Intn(6)])
	default:
		panic(fmt.Sprint("cannot fill ", v.Type()))
	}
}

// special fills the types that have a form of their own in JSON.
func (f filler) special(v reflect.Value, depth int) bool {
	there := f.there(depth)
	at := time.Unix(f.Int63n(1<<33)-1<<31, f.Int63n(1e9))
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		if there {
			*p = metav1.NewTime(at)
		}
	case *metav1.MicroTime:
		if there {
			*p = metav1.NewMicroTime(at)
		}
	case *metav1.Duration:
		if there {
			p.Duration = time.Duration(int64(f.Uint64()) >> f.Intn(64))
		}
	case *resource.Quantity:
		if there {
			*p = resource.MustParse(quantities[f.Intn(len(quantities))])
		}
	case *intstr.IntOrString:
		if there {
			*p = []intstr.IntOrString{intstr.FromInt32(8080), intstr.FromString("http"), intstr.FromString("25%"), intstr.FromInt32(-1)}[f.Intn(4)]
		}
	case *metav1.FieldsV1:
		p.Raw = f.raw()
	case *runtime.RawExtension:
		if there {
			p.Raw = f.raw()
		}
	case *apiextensions.JSON:
		p.Raw = f.raw()
	case *apiextensionsv1beta1.JSON:
		p.Raw = f.raw()
	case *apiextensions.JSONSchemaPropsOrBool:
		p.Allows = f.Intn(3) > 0
		if p.Allows && there {
			p.Schema = &apiextensions.JSONSchemaProps{}
			f.value(reflect.ValueOf(p.Schema).Elem(), depth+4)
		}
	case *apiextensionsv1beta1.JSONSchemaPropsOrBool:
		p.Allows = f.Intn(3) > 0
		if p.Allows && there {
			p.Schema = &apiextensionsv1beta1.JSONSchemaProps{}
			f.value(reflect.ValueOf(p.Schema).Elem(), depth+4)
		}
	case *apiextensions.JSONSchemaPropsOrArray:
		f.either(v, there, depth)
	case *apiextensionsv1beta1.JSONSchemaPropsOrArray:
		f.either(v, there, depth)
	case *apiextensions.JSONSchemaPropsOrStringArray:
		f.either(v, there, depth)
	case *apiextensionsv1beta1.JSONSchemaPropsOrStringArray:
		f.either(v, there, depth)
	case *apiextensions.JSONSchemaProps, *apiextensionsv1beta1.JSONSchemaProps:
		// It contains itself in fifteen places.
		sparse := filler{f.Rand, f.fullness / (depth/2 + 1)}
		for i := range v.NumField() {
			sparse.value(v.Field(i), depth+1)
		}
	default:
		return false
	}
	return true
}

// either fills one of two fields: the schema, or the list.
func (f filler) either(v reflect.Value, schema bool, depth int) {
	if schema {
		v.Field(0).Set(reflect.New(v.Field(0).Type().Elem()))
		f.value(v.Field(0).Elem(), depth+4)
	} else {
		v.Field(1).Set(reflect.MakeSlice(v.Field(1).Type(), 1, 1))
		f.value(v.Field(1).Index(0), depth+4)
	}
}
