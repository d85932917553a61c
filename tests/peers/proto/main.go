// Command proto says what Kubernetes' Go types make of protobuf and JSON: the schema from which src/codec/proto reads and writes both, and
// filled objects of every kind in both forms, to compare with.
//
//	go run . schema > ../../../src/codec/proto/schema.txt
//	go run . golden SEED FULLNESS [KIND…] > golden.tsv
//	go run . odd SEED FULLNESS [KIND…] > odd.tsv
//	go run . encode < objects.jsonl         a line for each object of JSON: apiVersion, kind, its message in base64
//	go run . filled SEED FULLNESS [KIND…]   as golden, but each object is default/filled
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "schema":
		writeSchema(out)
	case len(os.Args) == 2 && os.Args[1] == "encode":
		writeEncoded(out, os.Stdin)
	case len(os.Args) >= 4 && (os.Args[1] == "golden" || os.Args[1] == "odd" || os.Args[1] == "filled"):
		seed, err := strconv.ParseInt(os.Args[2], 10, 64)
		check(err)
		fullness, err := strconv.Atoi(os.Args[3])
		check(err)
		write := map[string]func(*bufio.Writer, int64, int, []string){"golden": writeGolden, "odd": writeOdd, "filled": writeFilled}[os.Args[1]]
		write(out, seed, fullness, os.Args[4:])
	default:
		fmt.Fprintln(os.Stderr, "usage: proto schema | proto encode | proto golden|odd|filled SEED FULLNESS [KIND…]")
		os.Exit(2)
	}
	check(out.Flush())
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// kind is a type that is served or stored: its proto message is that of the Go type.
type kind struct {
	apiVersion, name string
	of               reflect.Type
}

// notBodies are the kinds of every group version that are query parameters or watch frames.
var notBodies = map[string]bool{"ListOptions": true, "GetOptions": true, "CreateOptions": true, "UpdateOptions": true, "PatchOptions": true, "TableOptions": true, "WatchEvent": true}

// kinds are those of the API groups, of apiextensions, of kube-aggregator and of discovery, sorted.
func kinds() []kind {
	known := map[schema.GroupVersionKind]reflect.Type{}
	aggregator := runtime.NewScheme()
	check(apiregistration.AddToScheme(aggregator))
	metav1.AddToGroupVersion(aggregator, schema.GroupVersion{Version: "v1"})
	check(metav1.AddMetaToScheme(aggregator))
	check(metav1beta1.AddMetaToScheme(aggregator))
	check(apidiscovery.AddToScheme(aggregator))
	for _, s := range []*runtime.Scheme{scheme.Scheme, apiextensions.Scheme, aggregator} {
		for gvk, of := range s.AllKnownTypes() {
			known[gvk] = of
		}
	}
	// The legacy group says these two without a version.
	for _, name := range []string{"APIVersions", "APIResourceList"} {
		known[schema.GroupVersionKind{Kind: name}] = known[schema.GroupVersionKind{Version: "v1", Kind: name}]
	}
	var all []kind
	for gvk, of := range known {
		_, has := reflect.PointerTo(of).MethodByName("Marshal")
		if has && gvk.Version != runtime.APIVersionInternal && !notBodies[gvk.Kind] {
			all = append(all, kind{gvk.GroupVersion().String(), gvk.Kind, of})
		}
	}
	sort.Slice(all, func(i, j int) bool {
		return all[i].apiVersion+"/"+all[i].name < all[j].apiVersion+"/"+all[j].name
	})
	return all
}

// packageOf is the package that go-to-protobuf gives a Go package.
func packageOf(t reflect.Type) string {
	return strings.NewReplacer("/", ".", "-", "_").Replace(t.PkgPath())
}
