// Command apply runs the same story of server-side applies, with client-go's typed configurations and extractors, on watchcache and on a kube-apiserver, and
// exits 0 only if both answer the same: objects, managed fields, conflicts, what is extracted for a manager.
//
// tests/differential/run.sh starts both and runs it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const namespace = "apply-go"

var (
	widgets     = schema.GroupVersionResource{Group: "go.example.org", Version: "v1", Resource: "widgets"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

func main() {
	ours, theirs := flag.String("ours", "", "URL of watchcache"), flag.String("theirs", "", "URL of kube-apiserver")
	ca, token := flag.String("ca", "", "file with the authority of both"), flag.String("token", "", "a token that both take")
	flag.String("known", "", "not used")
	flag.Parse()
	var told [2][]string
	for nth, url := range []string{*ours, *theirs} {
		config := &rest.Config{Host: url, BearerToken: *token, TLSClientConfig: rest.TLSClientConfig{CAFile: *ca}, QPS: 1000, Burst: 1000}
		s := &story{Clientset: kubernetes.NewForConfigOrDie(config), dynamic: dynamic.NewForConfigOrDie(config)}
		if err := s.run(context.Background()); err != nil {
			fmt.Fprintf(os.Stderr, "apply: %s: %v\n", url, err)
			os.Exit(1)
		}
		told[nth] = s.told
	}
	differ := 0
	for nth := range max(len(told[0]), len(told[1])) {
		ours, theirs := at(told[0], nth), at(told[1], nth)
		if ours != theirs {
			differ++
			fmt.Printf("differs:\n  ours   %s\n  theirs %s\n", ours, theirs)
		}
	}
	fmt.Printf("%d answers compared, %d differ\n", len(told[1]), differ)
	if differ > 0 || len(told[1]) < 20 {
		os.Exit(1)
	}
}

func at(told []string, nth int) string {
	if nth < len(told) {
		return told[nth]
	}
	return "nothing"
}

// story is what happens on one server, and what it answered.
type story struct {
	*kubernetes.Clientset
	dynamic dynamic.Interface
	told    []string
}

// tell notes an answer, without what differs from server to server.
func (s *story) tell(what string, object any, err error) {
	if err != nil {
		status := apierrors.APIStatus(nil)
		if known, ok := err.(apierrors.APIStatus); ok {
			status = known
		}
		text, _ := json.Marshal(status)
		if status != nil {
			text, _ = json.Marshal(status.Status())
		}
		s.told = append(s.told, fmt.Sprintf("%s: conflict %t, %v, %s", what, apierrors.IsConflict(err), err, text))
		return
	}
	text, _ := json.Marshal(object)
	var tree map[string]any
	_ = json.Unmarshal(text, &tree)
	if metadata, ok := tree["metadata"].(map[string]any); ok {
		for _, name := range []string{"uid", "resourceVersion", "creationTimestamp"} {
			delete(metadata, name)
		}
		entries, _ := metadata["managedFields"].([]any)
		for _, entry := range entries {
			delete(entry.(map[string]any), "time")
		}
		// Their order is that of seconds, which pass while a server is asked.
		slices.SortFunc(entries, func(a, b any) int {
			first, _ := json.Marshal(a)
			second, _ := json.Marshal(b)
			return bytes.Compare(first, second)
		})
	}
	text, _ = json.Marshal(tree)
	s.told = append(s.told, what+": "+string(text))
}

func (s *story) run(ctx context.Context) error {
	manager := func(name string, force bool) metav1.ApplyOptions {
		return metav1.ApplyOptions{FieldManager: name, Force: force}
	}
	if _, err := s.CoreV1().Namespaces().Apply(ctx, corev1ac.Namespace(namespace), manager("go", false)); err != nil {
		return err
	}
	if err := s.deployments(ctx, manager); err != nil {
		return err
	}
	if err := s.maps(ctx, manager); err != nil {
		return err
	}
	return s.custom(ctx, manager)
}

func deployment(replicas *int32, image string) *appsv1ac.DeploymentApplyConfiguration {
	container := corev1ac.Container().WithName("web").WithImage(image).
		WithPorts(corev1ac.ContainerPort().WithContainerPort(80), corev1ac.ContainerPort().WithContainerPort(53).WithProtocol(corev1.ProtocolUDP)).
		WithEnv(corev1ac.EnvVar().WithName("A").WithValue("1"))
	labels := map[string]string{"app": "web"}
	template := corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(corev1ac.PodSpec().WithContainers(container))
	spec := appsv1ac.DeploymentSpec().WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).WithTemplate(template)
	spec.Replicas = replicas
	return appsv1ac.Deployment("web", namespace).WithLabels(labels).WithSpec(spec)
}

func (s *story) deployments(ctx context.Context, manager func(string, bool) metav1.ApplyOptions) error {
	three := int32(3)
	client := s.AppsV1().Deployments(namespace)
	made, err := client.Apply(ctx, deployment(&three, "nginx:1"), manager("deployer", false))
	s.tell("created by apply", made, err)
	if err != nil {
		return err
	}
	extracted, err := appsv1ac.ExtractDeployment(made, "deployer")
	s.tell("extracted", extracted, err)
	scale := appsv1ac.Deployment("web", namespace).WithSpec(appsv1ac.DeploymentSpec().WithReplicas(5))
	refused, err := client.Apply(ctx, scale, manager("scaler", false))
	s.tell("conflict", refused, err)
	scaled, err := client.Apply(ctx, scale, manager("scaler", true))
	s.tell("forced", scaled, err)
	given, err := client.Apply(ctx, deployment(nil, "nginx:2"), manager("deployer", false))
	s.tell("given up", given, err)
	extracted, err = appsv1ac.ExtractDeployment(given, "deployer")
	s.tell("extracted by the first", extracted, err)
	extracted, err = appsv1ac.ExtractDeployment(given, "scaler")
	s.tell("extracted by the second", extracted, err)
	status := appsv1ac.Deployment("web", namespace).WithStatus(appsv1ac.DeploymentStatus().WithObservedGeneration(1).WithReplicas(5).
		WithConditions(appsv1ac.DeploymentCondition().WithType("Available").WithStatus(corev1.ConditionTrue).WithReason("Tried")))
	shown, err := client.ApplyStatus(ctx, status, manager("controller", false))
	s.tell("status", shown, err)
	extracted, err = appsv1ac.ExtractDeploymentStatus(shown, "controller")
	s.tell("extracted of the status", extracted, err)
	current, err := client.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	current.Spec.Template.Spec.Containers[0].Image = "nginx:3"
	current.Annotations = map[string]string{"by": "update"}
	updated, err := client.Update(ctx, current, metav1.UpdateOptions{FieldManager: "updater"})
	s.tell("updated", updated, err)
	extracted, err = appsv1ac.ExtractDeployment(updated, "deployer")
	s.tell("extracted after an update", extracted, err)
	again, err := client.Apply(ctx, deployment(nil, "nginx:2"), manager("deployer", false))
	s.tell("conflict with an update", again, err)
	again, err = client.Apply(ctx, deployment(nil, "nginx:2"), manager("deployer", true))
	s.tell("forced over an update", again, err)
	options := manager("deployer", true)
	options.DryRun = []string{metav1.DryRunAll}
	tried, err := client.Apply(ctx, deployment(&three, "nginx:4"), options)
	s.tell("dry run", tried, err)
	same, err := client.Apply(ctx, deployment(nil, "nginx:2"), manager("deployer", false))
	s.tell("without change", same, err)
	return nil
}

func (s *story) maps(ctx context.Context, manager func(string, bool) metav1.ApplyOptions) error {
	client := s.CoreV1().ConfigMaps(namespace)
	config := corev1ac.ConfigMap("m", namespace).WithData(map[string]string{"a": "1", "b": "2"}).WithBinaryData(map[string][]byte{"c": []byte("3")})
	made, err := client.Apply(ctx, config, manager("first", false))
	s.tell("map", made, err)
	other, err := client.Apply(ctx, corev1ac.ConfigMap("m", namespace).WithData(map[string]string{"b": "2", "d": "4"}), manager("second", false))
	s.tell("map shared", other, err)
	less, err := client.Apply(ctx, corev1ac.ConfigMap("m", namespace).WithData(map[string]string{"a": "1"}), manager("first", false))
	s.tell("map without what nobody wants", less, err)
	extracted, err := corev1ac.ExtractConfigMap(less, "second")
	s.tell("extracted of the map", extracted, err)
	empty, err := client.Apply(ctx, corev1ac.ConfigMap("m", namespace), manager("second", false))
	s.tell("map given up", empty, err)
	err = client.Delete(ctx, "m", metav1.DeleteOptions{})
	s.tell("deleted", map[string]any{}, err)
	options := metav1.ApplyOptions{}
	_, err = client.Apply(ctx, config, options)
	s.tell("without a manager", nil, err)
	return nil
}

func definition() *unstructured.Unstructured {
	items := map[string]any{"type": "object", "required": []any{"name"}, "properties": map[string]any{
		"name": map[string]any{"type": "string"}, "value": map[string]any{"type": "integer"}}}
	list := map[string]any{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"name"}, "items": items}
	root := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": map[string]any{
		"list": list, "size": map[string]any{"type": "integer", "default": int64(1)}}}}}
	version := map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": root}}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.go.example.org"},
		"spec": map[string]any{"group": widgets.Group, "scope": "Namespaced", "versions": []any{version},
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}}}}
}

func widget(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "go.example.org/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "namespace": namespace}, "spec": spec}}
}

func (s *story) custom(ctx context.Context, manager func(string, bool) metav1.ApplyOptions) error {
	if _, err := s.dynamic.Resource(definitions).Create(ctx, definition(), metav1.CreateOptions{}); err != nil {
		return err
	}
	client := s.dynamic.Resource(widgets).Namespace(namespace)
	item := func(name string, value int64) any { return map[string]any{"name": name, "value": value} }
	first := widget(map[string]any{"list": []any{item("a", 1), item("b", 2)}})
	var made *unstructured.Unstructured
	var err error
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		made, err = client.Apply(ctx, "w", first, manager("first", false))
		if !apierrors.IsNotFound(err) || time.Now().After(deadline) {
			break
		}
	}
	s.tell("widget", made, err)
	second, err := client.Apply(ctx, "w", widget(map[string]any{"list": []any{item("b", 3), item("c", 4)}}), manager("second", false))
	s.tell("widget's conflict", second, err)
	second, err = client.Apply(ctx, "w", widget(map[string]any{"list": []any{item("b", 3), item("c", 4)}, "size": int64(7)}), manager("second", true))
	s.tell("widget forced", second, err)
	var extractor metav1ac.UnstructuredExtractor
	// What kube-apiserver publishes of a definition comes later.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var extracted *unstructured.Unstructured
		if extractor, err = metav1ac.NewUnstructuredExtractor(s.Discovery()); err == nil {
			if extracted, err = extractor.Extract(second, "second"); err == nil {
				s.tell("widget extracted by what OpenAPI says", extracted, nil)
				break
			}
		}
		if time.Now().After(deadline) {
			return err
		}
	}
	less, err := client.Apply(ctx, "w", widget(map[string]any{"list": []any{item("a", 1)}}), manager("first", false))
	s.tell("widget with less", less, err)
	return nil
}
