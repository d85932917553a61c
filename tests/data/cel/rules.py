#!/usr/bin/env python3
"""rules.py DIR: records what Kubernetes' own tests of rules in CEL make of their schemas and objects: rules.jsonl, estimates.jsonl and definitions.jsonl beside this file.

DIR is an empty folder on a disk with room for the module. The module k8s.io/apiextensions-apiserver is copied there, its validator is made to note what it is asked and
answers, and its tests are run. Of all cases those are kept that are short; the tests of src/rules read all from the files that WATCHCACHE_CEL_RULES and
WATCHCACHE_CEL_ESTIMATES name (DIR/rules.jsonl, DIR/estimates.jsonl). Needs a Go toolchain."""
import json, os, pathlib, shutil, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
MODULE = "k8s.io/apiextensions-apiserver@v0.36.3"
CEL, CHECK = "pkg/apiserver/schema/cel", "pkg/apis/apiextensions/validation"
NOTE = '''package %s

import (
	"encoding/json"
	"os"
	"sync"
)

var noting sync.Mutex

func note(name string, said map[string]any) {
	line, err := json.Marshal(said)
	if err != nil {
		return
	}
	noting.Lock()
	defer noting.Unlock()
	file, _ := os.OpenFile(os.Getenv("NOTES")+"/"+name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0644)
	file.Write(append(line, '\\n'))
	file.Close()
}
'''
# What is replaced in which file.
CHANGES = {
    f"{CEL}/validation.go": [("return s.validate(ctx, fldPath, obj, oldObj, opt.ratchetingOptions, costBudget)", '''recorder := &noted{}
	errs, remainingBudget = s.validate(warning.WithWarningRecorder(ctx, recorder), fldPath, obj, oldObj, opt.ratchetingOptions, costBudget)
	list := [][2]string{}
	for _, e := range errs {
		list = append(list, [2]string{string(e.Type), e.Error()})
	}
	if s != nil && s.Schema != nil {
		note("rules", map[string]any{"schema": s.Schema.ToKubeOpenAPI(), "root": s.isResourceRoot, "object": obj, "old": oldObj, "ratchet": opt.currentCorrelation != nil, "errors": list, "warnings": recorder.all, "left": remainingBudget, "budget": costBudget, "path": fldPath.String()})
	}
	return errs, remainingBudget'''), ("type options struct {", '''type noted struct{ all []string }

func (n *noted) AddWarning(agent, text string) { n.all = append(n.all, text) }

type options struct {''')],
    f"{CEL}/compilation.go": [("	return compResults, nil", '''	list := [][4]string{}
	for _, r := range compResults {
		one := [4]string{fmt.Sprint(r.MaxCost), fmt.Sprint(r.MessageExpressionMaxCost)}
		if r.Error != nil {
			one[2] = r.Error.Detail
		}
		if r.MessageExpressionError != nil {
			one[3] = r.MessageExpressionError.Detail
		}
		list = append(list, one)
	}
	note("estimates", map[string]any{"schema": s.ToKubeOpenAPI(), "rules": list, "cardinality": fmt.Sprint(maxCardinality)})
	return compResults, nil''')],
    f"{CHECK}/validation.go": [('allErrs = append(allErrs, ValidateCustomResourceDefinitionOpenAPISchema(schema, fldPath.Child("openAPIV3Schema"), openAPIV3Schema, true, &opts, celContext).AllErrors()...)', '''before := append(field.ErrorList{}, allErrs...)
		found := ValidateCustomResourceDefinitionOpenAPISchema(schema, fldPath.Child("openAPIV3Schema"), openAPIV3Schema, true, &opts, celContext)
		allErrs = append(allErrs, found.AllErrors()...)
		count := len(allErrs)
		defer func() {
			var said apiextensionsv1.JSONSchemaProps
			if celContext == nil || opts.suppressPerExpressionCost || apiextensionsv1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(schema, &said, nil) != nil {
				return
			}
			wrong, errs := []string{}, [][2]string{}
			for _, e := range append(before, found.SchemaErrors...) {
				wrong = append(wrong, e.Field)
			}
			for _, e := range append(append(field.ErrorList{}, found.CELErrors...), allErrs[count:]...) {
				errs = append(errs, [2]string{string(e.Type), e.Error()})
			}
			note("definitions", map[string]any{"schema": said, "wrong": wrong, "errors": errs, "path": fldPath.Child("openAPIV3Schema").String()})
		}()''')],
}
# Cases that depend on what the file does not say: an order that is random there, another limit, a client that leaves, numbers of 32 bits, functions of the test,
# defaults by themselves.
ODD = ["test()", '"path":"spec.validation.openAPIV3Schema.', "operation interrupted", "call cost exceeds limit", "self.val[k] > 1", "340282346638528859811704183484516925440"]
NAMES = {"Rule": "rule", "Message": "message", "MessageExpression": "messageExpression", "Reason": "reason", "FieldPath": "fieldPath", "OptionalOldSelf": "optionalOldSelf"}


def named(schema):
    """A schema in which rules have the names of the API."""
    if isinstance(schema, list):
        return [named(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    rule = lambda said: {NAMES.get(name, name): part for name, part in said.items() if part not in (None, "")}
    return {name: [rule(one) for one in part] if name == "x-kubernetes-validations" else named(part) for name, part in schema.items()}


def main():
    directory = pathlib.Path(sys.argv[1])
    cache = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    module = directory / "module"
    shutil.copytree(pathlib.Path(cache) / MODULE, module)
    subprocess.run(["chmod", "-R", "u+w", module], check=True)
    for path, changes in CHANGES.items():
        file = module / path
        text = file.read_text()
        for old, new in changes:
            assert old in text, f"{path} has another text than {MODULE}: {old}"
            text = text.replace(old, new, 1)
        file.write_text(text)
    for folder, package in ((CEL, "cel"), (CHECK, "validation")):
        (module / folder / "note.go").write_text(NOTE % package)
    environment = {"NOTES": str(directory.resolve()), "GOFLAGS": "-mod=mod"}
    # Some tests look at warnings, which the notes take.
    subprocess.run(["go", "test", "-count=1", f"./{CEL}", f"./{CHECK}"], cwd=module, env=os.environ | environment, check=False)
    for name, longest, every in (("rules", 700, 3), ("estimates", 900, 2), ("definitions", 4000, 1)):
        lines = []
        for line in (directory / name).read_text().splitlines():
            case = json.loads(line)
            case["schema"] = named(case["schema"])
            if not any(odd in line for odd in ODD):
                lines.append(json.dumps(case, ensure_ascii=False, separators=(",", ":"), sort_keys=True))
        lines = sorted(set(lines))
        (directory / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
        kept = [line for line in lines if len(line) < longest][::every]
        (HERE / f"{name}.jsonl").write_text("".join(line + "\n" for line in kept))


if __name__ == "__main__":
    main()
