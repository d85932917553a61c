// Command operator KUBECONFIG is an operator made with controller-runtime, and what is asked of it: one line for each check, exit status 1 when one fails.
//
// It keeps a ConfigMap and a Secret for each Thing, which owns them, and holds the Thing with a finalizer. What it owns goes by itself: nothing else runs beside the server.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	group     = "controller-runtime.example"
	namespace = "default"
	finalizer = group + "/finalizer"
	patience  = 30 * time.Second
)

var things = schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}

// operator reconciles Things.
type operator struct {
	client    client.Client
	finalized atomic.Int32
}

func thing(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(things)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func (o *operator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := thing(request.Name)
	if err := o.client.Get(ctx, request.NamespacedName, owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if owner.GetDeletionTimestamp() != nil {
		if controllerutil.RemoveFinalizer(owner, finalizer) {
			if err := o.client.Update(ctx, owner); err != nil {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			o.finalized.Add(1)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(owner, finalizer) {
		if err := o.client.Update(ctx, owner); err != nil {
			return ctrl.Result{}, err
		}
	}
	owned := metav1.ObjectMeta{Namespace: namespace, Name: "of-" + owner.GetName()}
	configMap, secret := &corev1.ConfigMap{ObjectMeta: owned}, &corev1.Secret{ObjectMeta: owned}
	size := fmt.Sprint(owner.Object["spec"])
	kept := map[client.Object]func() error{
		configMap: func() error { configMap.Data = map[string]string{"spec": size}; return nil },
		secret:    func() error { secret.StringData = map[string]string{"spec": size}; return nil },
	}
	for object, fill := range kept {
		_, err := controllerutil.CreateOrUpdate(ctx, o.client, object, func() error {
			if err := fill(); err != nil {
				return err
			}
			return controllerutil.SetControllerReference(owner, object, o.client.Scheme())
		})
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	before := owner.DeepCopy()
	if err := unstructured.SetNestedField(owner.Object, true, "status", "ready"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, o.client.Status().Patch(ctx, owner, client.MergeFrom(before))
}

var failed bool

func check(name string, question func() (bool, error)) {
	deadline := time.Now().Add(patience)
	for {
		held, err := question()
		if held && err == nil {
			fmt.Println("ok: operator:", name)
			return
		}
		if time.Now().After(deadline) {
			fmt.Println("FAILED: operator:", name, err)
			failed = true
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

// definition is that of Things.
func definition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}

func main() {
	ctrl.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	direct, err := client.New(config, client.Options{})
	must(err)
	must(direct.Create(ctx, definition()))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(things)
	check("the definition is served", func() (bool, error) { err := direct.List(ctx, list); return err == nil, err })

	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0"})
	must(err)
	o := &operator{client: manager.GetClient()}
	must(ctrl.NewControllerManagedBy(manager).For(thing("")).Owns(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(o))
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()

	gone := func(object client.Object, name string) (bool, error) {
		err := direct.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	propagations := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	for number, propagation := range propagations {
		name := fmt.Sprintf("thing-%d", number)
		one := thing(name)
		one.Object["spec"] = map[string]any{"size": int64(number)}
		must(direct.Create(ctx, one))
		ready := func() (bool, error) {
			err := direct.Get(ctx, client.ObjectKeyFromObject(one), one)
			is, _, _ := unstructured.NestedBool(one.Object, "status", "ready")
			return is && controllerutil.ContainsFinalizer(one, finalizer), err
		}
		check(fmt.Sprintf("a Thing is made ready (%s)", propagation), ready)
		var owned corev1.ConfigMap
		must(direct.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "of-" + name}, &owned))
		must(direct.Delete(ctx, owned.DeepCopy()))
		again := func() (bool, error) {
			var now corev1.ConfigMap
			err := direct.Get(ctx, client.ObjectKeyFromObject(&owned), &now)
			return err == nil && now.UID != owned.UID, client.IgnoreNotFound(err)
		}
		check("what it owns is made again", again)
		must(direct.Delete(ctx, one, client.PropagationPolicy(propagation)))
		check("the finalizer runs, and the Thing goes", func() (bool, error) {
			is, err := gone(thing(""), name)
			return is && o.finalized.Load() > int32(number), err
		})
		if propagation != metav1.DeletePropagationOrphan {
			check("its ConfigMap goes", func() (bool, error) { return gone(&corev1.ConfigMap{}, "of-"+name) })
			check("its Secret goes", func() (bool, error) { return gone(&corev1.Secret{}, "of-"+name) })
			continue
		}
		var left corev1.ConfigMap
		must(direct.Get(ctx, client.ObjectKeyFromObject(&owned), &left))
		check("its ConfigMap stays, and is nobody's", func() (bool, error) { return len(left.OwnerReferences) == 0, nil })
	}
	must(direct.Delete(ctx, definition()))
	check("the definition goes", func() (bool, error) {
		object := definition()
		err := direct.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	cancel()
	must(<-ended)
	if failed {
		os.Exit(1)
	}
}
