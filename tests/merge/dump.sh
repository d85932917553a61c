#!/usr/bin/env bash
# Writes what structured-merge-diff's own tests do, and what comes of it, as JSON: tests/merge/dump.sh DIR
# The module is copied to DIR/module, told to write down its calls (dump/), and its tests are run. Nothing of it is kept in this project.
set -euo pipefail

version=v6.3.3
kubernetes=v1.36.3
kube_openapi=v0.0.0-20260317180543-43fb72c5454a
here=$(cd "$(dirname "$0")" && pwd)
out=$1
mkdir -p "$out"
out=$(cd "$out" && pwd)
done=$out/done-$(cat "$here/dump.sh" "$here"/dump/*.txt | sha256sum | cut -c1-16)
if [ -e "$done" ]; then exit 0; fi

rm -rf "$out/module" "$out"/*.jsonl "$out"/done-* "$out/testdata"
downloaded() { (cd "$out" && go mod download -json "$1") | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p'; }
cp -r "$(downloaded "sigs.k8s.io/structured-merge-diff/v6@$version")" "$out/module"
chmod -R u+w "$out/module"
cd "$out/module"

# Each function that is written down goes on under another name; dump/*.txt has those that write and call it.
hook() { # FILE RECEIVER NAME...
  local file=$1 receiver=$2 name
  shift 2
  for name; do
    sed -i "s/^func $receiver$name(/func ${receiver}plain$name(/" "$file"
    grep -q "plain$name(" "$file"
  done
}
hook typed/typed.go '(tv TypedValue) ' Validate ToFieldSet Merge Compare RemoveItems ExtractItems
hook typed/reconcile_schema.go '' ReconcileFieldSetWithSchema
hook fieldpath/serialize.go '(s \*Set) ' FromJSON
hook fieldpath/set.go '(s \*Set) ' Union Intersection Difference RecursiveDifference Leaves EnsureNamedFieldsAreMembers FilterIncludeMatches String
hook fieldpath/element.go '(e PathElement) ' Compare
hook internal/fixture/state.go '(s \*State) ' ApplyObject UpdateObject
sed -i '/^func (tc TestCase) TestWithConverter/,$s/err := ops.run(&state)/err := dumpRun(tc, converter, \&state, i, ops)/' internal/fixture/state.go
mkdir -p internal/dump/convert "$out/testdata"
cp "$here/dump/dump.go.txt" internal/dump/dump.go
cp "$here/dump/convert.go.txt" internal/dump/convert/main.go
cp "$here/dump/fieldpath.go.txt" fieldpath/dump.go
cp "$here/dump/typed.go.txt" typed/dump.go
cp "$here/dump/fixture.go.txt" internal/fixture/dump.go

SMD_DUMP=$out go test -count=1 ./fieldpath/... ./typed/... ./merge/... > "$out/go-test.log" 2>&1 || { tail -40 "$out/go-test.log"; exit 1; }
go run ./internal/dump/convert "$out/testdata"

# The types of Kubernetes' own documents.
rm -rf "$out/openapi" && mkdir "$out/openapi" && cd "$out/openapi"
cp "$here/dump/openapi.go.txt" main.go
go mod init openapi 2> /dev/null
go mod edit -require "k8s.io/kube-openapi@$kube_openapi" -require "sigs.k8s.io/structured-merge-diff/v6@$version" -require go.yaml.in/yaml/v2@v2.4.3
GOFLAGS=-mod=mod go run . "$(downloaded "k8s.io/kubernetes@$kubernetes")/api/openapi-spec/v3" "$out/testdata"
wc -l "$out"/*.jsonl
touch "$done"
