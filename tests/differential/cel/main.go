// Reads lines of JSON {"e": expression, "v": {name: {"t": type, "j": json}}, "k": kubernetes environment} and writes what cel-go says.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

type Var struct {
	T string          `json:"t"`
	J json.RawMessage `json:"j"`
}
type Case struct {
	E string         `json:"e"`
	V map[string]Var `json:"v,omitempty"`
	K bool           `json:"k"`
	D bool           `json:"d,omitempty"` // parse only
}
type Out struct {
	Case
	Issues string `json:"issues,omitempty"`
	Plan   string `json:"plan,omitempty"`
	Type   string `json:"type,omitempty"`
	Min    uint64 `json:"min"`
	Max    uint64 `json:"max"`
	Value  string `json:"value,omitempty"`
	Error  string `json:"error,omitempty"`
	Cost   uint64 `json:"cost"`
}

func parseType(s string) (*types.Type, string) {
	end := strings.IndexAny(s, "(,)")
	name := s
	rest := ""
	if end >= 0 {
		name, rest = s[:end], s[end:]
	}
	var params []*types.Type
	if strings.HasPrefix(rest, "(") {
		rest = rest[1:]
		for {
			var p *types.Type
			p, rest = parseType(strings.TrimSpace(rest))
			params = append(params, p)
			if strings.HasPrefix(rest, ",") {
				rest = rest[1:]
				continue
			}
			rest = strings.TrimPrefix(rest, ")")
			break
		}
	}
	switch name {
	case "list":
		return types.NewListType(params[0]), rest
	case "map":
		return types.NewMapType(params[0], params[1]), rest
	case "optional_type":
		return types.NewOptionalType(params[0]), rest
	case "type":
		if len(params) > 0 {
			return types.NewTypeTypeWithParam(params[0]), rest
		}
		return types.TypeType, rest
	}
	m := map[string]*types.Type{"int": types.IntType, "uint": types.UintType, "double": types.DoubleType, "string": types.StringType, "bytes": types.BytesType,
		"bool": types.BoolType, "dyn": types.DynType, "null": types.NullType, "timestamp": types.TimestampType, "duration": types.DurationType}
	if t, ok := m[name]; ok {
		return t, rest
	}
	return types.NewObjectType(name), rest
}

func show(v ref.Val) string {
	switch t := v.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return fmt.Sprint(bool(t))
	case types.Int:
		return fmt.Sprint(int64(t))
	case types.Uint:
		return fmt.Sprint(uint64(t)) + "u"
	case types.Double:
		return "d" + fmt.Sprint(float64(t))
	case types.String:
		b, _ := json.Marshal(string(t))
		var s strings.Builder
		enc := json.NewEncoder(&s)
		enc.SetEscapeHTML(false)
		enc.Encode(string(t))
		_ = b
		return strings.TrimSuffix(s.String(), "\n")
	case types.Bytes:
		return "b" + base64.StdEncoding.EncodeToString([]byte(t))
	case types.Timestamp:
		return "t" + string(t.ConvertToType(types.StringType).(types.String))
	case types.Duration:
		return fmt.Sprint(int64(t.Duration)) + "ns"
	case *types.Optional:
		if t.HasValue() {
			return "some(" + show(t.GetValue()) + ")"
		}
		return "none"
	case traits.Lister:
		var out []string
		for it := t.Iterator(); it.HasNext() == types.True; {
			out = append(out, show(it.Next()))
		}
		return "[" + strings.Join(out, ",") + "]"
	case traits.Mapper:
		var out []string
		for it := t.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			out = append(out, show(k)+":"+show(t.Get(k)))
		}
		sort.Strings(out)
		return "{" + strings.Join(out, ",") + "}"
	case *types.Type:
		return "type " + t.TypeName()
	}
	return fmt.Sprintf("%s", v.Type().TypeName())
}

type sizes struct{}

func (sizes) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	if n.Path() == nil {
		return nil
	}
	p := strings.Join(n.Path(), ".")
	if strings.HasPrefix(p, "sized") {
		return &checker.SizeEstimate{Min: 0, Max: uint64(len(p))}
	}
	return nil
}
func (sizes) EstimateCallCost(f, o string, t *checker.AstNode, a []checker.AstNode) *checker.CallEstimate {
	return nil
}

func main() {
	k8s, err := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).Env(environment.StoredExpressions)
	if err != nil {
		panic(err)
	}
	std, err := cel.NewEnv(cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), cel.DefaultUTCTimeZone(true), ext.TwoVarComprehensions(), ext.Strings(ext.StringsVersion(2)),
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)))
	if err != nil {
		panic(err)
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for in.Scan() {
		var c Case
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err)
		}
		o := Out{Case: c}
		run(&o, k8s, std)
		enc.Encode(o)
	}
}

func run(o *Out, k8s, std *cel.Env) {
	defer func() {
		if r := recover(); r != nil {
			o.Error = fmt.Sprintf("PANIC %v", r)
		}
	}()
	env := std
	var popts []cel.ProgramOption
	if o.K {
		env = k8s
	} else {
		popts = append(popts, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)), cel.CostTracking(nil))
	}
	var opts []cel.EnvOption
	vars := map[string]any{}
	names := []string{}
	for n := range o.V {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		v := o.V[n]
		t, _ := parseType(v.T)
		opts = append(opts, cel.Variable(n, t))
		if v.J != nil {
			dec := json.NewDecoder(strings.NewReader(string(v.J)))
			dec.UseNumber()
			var x any
			dec.Decode(&x)
			vars[n] = fix(x)
		}
	}
	env, err := env.Extend(opts...)
	if err != nil {
		o.Issues = "ENV " + err.Error()
		return
	}
	a, iss := env.Compile(o.E)
	if iss.Err() != nil {
		o.Issues = iss.String()
		return
	}
	o.Type = a.OutputType().String()
	est, err := env.EstimateCost(a, &library.CostEstimator{SizeEstimator: sizes{}})
	if err == nil {
		o.Min, o.Max = est.Min, est.Max
	}
	p, err := env.Program(a, popts...)
	if err != nil {
		o.Plan = err.Error()
		return
	}
	v, det, err := p.Eval(vars)
	if det != nil && det.ActualCost() != nil {
		o.Cost = *det.ActualCost()
	}
	if err != nil {
		o.Error = err.Error()
		return
	}
	o.Value = show(v)
}

func fix(x any) any {
	switch t := x.(type) {
	case json.Number:
		if i, err := t.Int64(); err == nil {
			return i
		}
		f, _ := t.Float64()
		return f
	case []any:
		for i := range t {
			t[i] = fix(t[i])
		}
	case map[string]any:
		for k := range t {
			t[k] = fix(t[k])
		}
	}
	return x
}
