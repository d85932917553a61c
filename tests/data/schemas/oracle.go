// Reads cases, each a line of JSON with a schema, an object and perhaps the old one that it replaces; writes each with what kube-apiserver's packages make of it:
// the object pruned and defaulted, unknown paths, what is wrong with it alone, as an update, and with its lists.
// In a folder with a go.mod that requires k8s.io/apiextensions-apiserver: go run oracle.go < cases.in > cases.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
)

type line struct {
	Schema  json.RawMessage `json:"schema"`
	Object  json.RawMessage `json:"object"`
	Old     json.RawMessage `json:"old,omitempty"`
	Made    any             `json:"made,omitempty"`
	Unknown []string        `json:"unknown"`
	Wrong   [][2]string     `json:"wrong"`
	Update  [][2]string     `json:"update,omitempty"`
	Lists   [][2]string     `json:"lists"`
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func read(raw json.RawMessage) (object map[string]any) {
	must(utiljson.Unmarshal(raw, &object))
	return object
}

// The causes as they are told, with their reasons.
func told(errors field.ErrorList) [][2]string {
	all := [][2]string{}
	for _, err := range errors {
		all = append(all, [2]string{string(err.Type), err.Error()})
	}
	sort.Slice(all, func(i, j int) bool { return all[i][1] < all[j][1] || all[i][1] == all[j][1] && all[i][0] < all[j][0] })
	return all
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var it line
		must(json.Unmarshal(lines.Bytes(), &it))
		var versioned v1.JSONSchemaProps
		must(json.Unmarshal(it.Schema, &versioned))
		var schema apiextensions.JSONSchemaProps
		must(v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&versioned, &schema, nil))
		structural, err := structuralschema.NewStructural(&schema)
		must(err)
		validator, _, err := validation.NewSchemaValidator(&schema)
		must(err)
		make := func(raw json.RawMessage) (map[string]any, []string) {
			object := read(raw)
			unknown := pruning.PruneWithOptions(object, structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
			defaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
			defaulting.Default(object, structural)
			return object, append([]string{}, unknown...)
		}
		object, unknown := make(it.Object)
		it.Made, it.Unknown = object, unknown
		it.Wrong = told(validation.ValidateCustomResource(nil, object, validator))
		it.Lists = told(listtype.ValidateListSetsAndMaps(nil, structural, object))
		if it.Old != nil {
			old, _ := make(it.Old)
			correlated := common.NewCorrelatedObject(object, old, &model.Structural{Structural: structural})
			it.Update = told(validation.ValidateCustomResourceUpdate(nil, object, old, validator, validation.WithRatcheting(correlated)))
		}
		must(out.Encode(it))
	}
}
