// expressions.go: each expression of standard input (JSON texts, a line each) as kube-apiserver's environment compiles, estimates and evaluates it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"os"
	"sort"
	"strconv"
	"strings"
)

func main() {
	env := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).StoredExpressionsEnv()
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(nil, 1<<26)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for sc.Scan() {
		var expr string
		if err := json.Unmarshal(sc.Bytes(), &expr); err != nil {
			panic(err)
		}
		res := map[string]any{"expr": expr}
		ast, iss := env.Compile(expr)
		if iss != nil && iss.Err() != nil {
			res["issues"] = iss.Err().Error()
		} else {
			res["type"] = ast.OutputType().String()
			est, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: &noSize{}})
			if err == nil {
				res["min"] = fmt.Sprint(est.Min)
				res["max"] = fmt.Sprint(est.Max)
			} else {
				res["esterr"] = err.Error()
			}
			prog, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.CostTracking(&library.CostEstimator{}))
			if err != nil {
				res["progerr"] = err.Error()
			} else {
				v, det, err := prog.Eval(map[string]any{})
				if det != nil && det.ActualCost() != nil {
					res["cost"] = fmt.Sprint(*det.ActualCost())
				}
				if err != nil {
					res["error"] = err.Error()
				} else {
					res["value"] = render(v)
				}
			}
		}
		b, _ := json.Marshal(res)
		out.Write(b)
		out.WriteByte('\n')
	}
}

type noSize struct{}

func (noSize) EstimateSize(checker.AstNode) *checker.SizeEstimate { return nil }
func (noSize) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
func render(v ref.Val) string {
	switch x := v.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return fmt.Sprint(bool(x))
	case types.Int:
		return fmt.Sprint(int64(x))
	case types.Uint:
		return fmt.Sprint(uint64(x)) + "u"
	case types.Double:
		return "double:" + strconv.FormatFloat(float64(x), 'g', -1, 64)
	case types.String:
		return strconv.Quote(string(x))
	case types.Bytes:
		return fmt.Sprintf("b:%x", []byte(x))
	case types.Timestamp:
		return "timestamp:" + string(x.ConvertToType(types.StringType).(types.String))
	case types.Duration:
		return "duration:" + string(x.ConvertToType(types.StringType).(types.String))
	case *types.Optional:
		if x.HasValue() {
			return "some(" + render(x.GetValue()) + ")"
		}
		return "none"
	case *types.Type:
		return "type:" + x.TypeName()
	case traits.Lister:
		var p []string
		for it := x.Iterator(); it.HasNext() == types.True; {
			p = append(p, render(it.Next()))
		}
		return "[" + strings.Join(p, ", ") + "]"
	case traits.Mapper:
		var p []string
		for it := x.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			p = append(p, render(k)+": "+render(x.Get(k)))
		}
		sort.Strings(p)
		return "{" + strings.Join(p, ", ") + "}"
	}
	return "opaque:" + v.Type().TypeName()
}
