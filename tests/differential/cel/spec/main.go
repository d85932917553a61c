// Prints the cases of cel-spec without messages as lines for the oracle, with what the specification expects.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	celpb "cel.dev/expr"
	_ "cel.dev/expr/conformance/proto2"
	_ "cel.dev/expr/conformance/proto3"
	test "cel.dev/expr/conformance/test"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
)

func typ(t *celpb.Type) string {
	switch k := t.GetTypeKind().(type) {
	case *celpb.Type_Dyn:
		return "dyn"
	case *celpb.Type_Null:
		return "null"
	case *celpb.Type_Primitive:
		return map[string]string{"BOOL": "bool", "INT64": "int", "UINT64": "uint", "DOUBLE": "double", "STRING": "string", "BYTES": "bytes"}[k.Primitive.String()]
	case *celpb.Type_WellKnown:
		return strings.ToLower(k.WellKnown.String())
	case *celpb.Type_ListType_:
		return "list(" + typ(k.ListType.ElemType) + ")"
	case *celpb.Type_MapType_:
		return "map(" + typ(k.MapType.KeyType) + "," + typ(k.MapType.ValueType) + ")"
	case *celpb.Type_MessageType:
		return k.MessageType
	case *celpb.Type_Type:
		return "type"
	}
	return "?"
}
func val(v *celpb.Value) any {
	switch k := v.GetKind().(type) {
	case *celpb.Value_NullValue:
		return nil
	case *celpb.Value_BoolValue:
		return k.BoolValue
	case *celpb.Value_Int64Value:
		return k.Int64Value
	case *celpb.Value_DoubleValue:
		return k.DoubleValue
	case *celpb.Value_StringValue:
		return k.StringValue
	case *celpb.Value_ListValue:
		l := []any{}
		for _, e := range k.ListValue.Values {
			l = append(l, val(e))
		}
		return l
	case *celpb.Value_MapValue:
		m := map[string]any{}
		for _, e := range k.MapValue.Entries {
			m[fmt.Sprint(val(e.Key))] = val(e.Value)
		}
		return m
	}
	return "UNSUPPORTED"
}
func main() {
	files, _ := filepath.Glob(os.Args[1] + "/*.textproto")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		var file test.SimpleTestFile
		if err := (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, &file); err != nil {
			fmt.Fprintln(os.Stderr, f, err)
			continue
		}
		for _, s := range file.Section {
			for _, t := range s.Test {
				if t.Container != "" {
					continue
				}
				vars := map[string]map[string]any{}
				for _, d := range t.TypeEnv {
					if id := d.GetIdent(); id != nil {
						vars[d.Name] = map[string]any{"t": typ(id.Type)}
					}
				}
				for n, v := range t.Bindings {
					if vars[n] == nil {
						vars[n] = map[string]any{"t": "dyn"}
					}
					vars[n]["j"] = val(v.GetValue())
				}
				c := map[string]any{"e": t.Expr, "k": false, "d": t.DisableCheck}
				if len(vars) > 0 {
					c["v"] = vars
				}
				var want string
				switch r := t.ResultMatcher.(type) {
				case *test.SimpleTest_Value:
					w, _ := protojson.Marshal(r.Value)
					want = string(w)
				case *test.SimpleTest_EvalError:
					want = "ERROR"
				case nil:
					want = "true"
				default:
					want = "?"
				}
				c["name"] = filepath.Base(f) + "/" + s.Name + "/" + t.Name
				c["want"] = want
				o, _ := json.Marshal(c)
				fmt.Println(string(o))
			}
		}
	}
}
