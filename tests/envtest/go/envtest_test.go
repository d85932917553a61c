// Package envtest_test starts controller-runtime's envtest as operators' projects do: what KUBEBUILDER_ASSETS names is a pair of etcd and kube-apiserver,
// the real one or watchcache's (`watchcache setup-envtest`).
package envtest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var config *rest.Config

// began and ready say how long the pair took, as a person at a test waits for it.
var took time.Duration

func TestMain(m *testing.M) {
	environment := &envtest.Environment{CRDs: []*apiextensionsv1.CustomResourceDefinition{widgets()}}
	began := time.Now()
	var err error
	config, err = environment.Start()
	took = time.Since(began)
	if err != nil {
		fmt.Fprintln(os.Stderr, "envtest does not start:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "envtest does not stop:", err)
		code = 1
	}
	os.Exit(code)
}

// widgets is a definition with a schema, defaults and a status.
func widgets() *apiextensionsv1.CustomResourceDefinition {
	one := 1.0
	properties := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	schema := properties(map[string]apiextensionsv1.JSONSchemaProps{
		"spec": properties(map[string]apiextensionsv1.JSONSchemaProps{
			"size":  {Type: "integer", Minimum: &one},
			"color": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)}},
		}),
		"status": properties(map[string]apiextensionsv1.JSONSchemaProps{"seen": {Type: "integer"}}),
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

func widget(name string, size int64) *unstructured.Unstructured {
	widget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": size}}}
	widget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Widget"})
	widget.SetNamespace("default")
	widget.SetName(name)
	return widget
}

func TestItIsReadySoon(t *testing.T) {
	t.Logf("ready, with one definition, after %v", took)
	if took > 15*time.Second {
		t.Errorf("the pair took %v", took)
	}
}

// A controller sees an object, and writes what it has seen into its status.
func TestAController(t *testing.T) {
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		found := widget("", 0)
		if err := manager.GetClient().Get(ctx, request.NamespacedName, found); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		size, _, _ := unstructured.NestedInt64(found.Object, "spec", "size")
		if err := unstructured.SetNestedField(found.Object, size, "status", "seen"); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, manager.GetClient().Status().Update(ctx, found)
	}
	if err := ctrl.NewControllerManagedBy(manager).Named("widgets").For(widget("", 0)).Complete(reconcile.Func(seen)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	made := widget("a", 3)
	if err := direct.Create(ctx, made); err != nil {
		t.Fatal(err)
	}
	if color, _, _ := unstructured.NestedString(made.Object, "spec", "color"); color != "red" {
		t.Errorf("no default: %v", made.Object)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		found := widget("", 0)
		if err := direct.Get(ctx, client.ObjectKeyFromObject(made), found); err != nil {
			t.Fatal(err)
		}
		if number, _, _ := unstructured.NestedInt64(found.Object, "status", "seen"); number == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the controller has not seen it: %v", found.Object)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := direct.Create(ctx, widget("b", 0)); !apierrors.IsInvalid(err) {
		t.Errorf("a size of 0 was not refused: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Nothing collects garbage and nobody makes accounts: the pair has no kube-controller-manager.
func TestNoControllersRun(t *testing.T) {
	ctx := context.Background()
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "u"}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", Namespace: "default", OwnerReferences: []metav1.OwnerReference{owner}}}
	if err := direct.Create(ctx, made); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := direct.Get(ctx, client.ObjectKeyFromObject(made), made); err != nil {
		t.Error(err)
	}
	account := &corev1.ServiceAccount{}
	if err := direct.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, account); !apierrors.IsNotFound(err) {
		t.Errorf("there is an account: %v", err)
	}
}

// Flags that projects set: kube-apiserver takes them, and another pair beside the first one.
func TestAnotherPairWithFlags(t *testing.T) {
	environment := &envtest.Environment{}
	flags := environment.ControlPlane.GetAPIServer().Configure()
	flags.Append("enable-admission-plugins", "NodeRestriction").Append("feature-gates", "WatchList=true")
	flags.Set("max-requests-inflight", "100").Set("event-ttl", "10m").Set("profiling", "false").Set("runtime-config", "apps/v1=true")
	other, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	user, err := environment.AddUser(envtest.User{Name: "jane", Groups: []string{"nobody"}}, other)
	if err != nil {
		t.Fatal(err)
	}
	jane, err := client.New(user.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := jane.List(context.Background(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("jane has no rights: %v", err)
	}
	if err := environment.Stop(); err != nil {
		t.Error(err)
	}
}

// A flag that there is none of, ends the start with kube-apiserver's words.
func TestAFlagThatIsUnknown(t *testing.T) {
	environment := &envtest.Environment{}
	said, err := os.CreateTemp(t.TempDir(), "said")
	if err != nil {
		t.Fatal(err)
	}
	server := environment.ControlPlane.GetAPIServer()
	server.Err = said
	server.Configure().Set("nope", "1")
	if _, err := environment.Start(); err == nil {
		t.Error("it has started")
	}
	if err := environment.Stop(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(said.Name())
	// envtest has tried several times.
	if err != nil || !strings.HasPrefix(string(text), "Error: unknown flag: --nope\n") {
		t.Errorf("%q %v", text, err)
	}
}
