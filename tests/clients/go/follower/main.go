// Command follower KUBECONFIG RESTRICTED NAME NAMESPACE is client-go as a follower of tests/clients/follow.py, which says what is asked and answered.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// page is how many objects a page of a list has.
const page = 700

type follower struct {
	client                      kubernetes.Interface
	restricted, name, namespace string
	store                       cache.Store
}

func say(words ...any) { fmt.Println(words...) }

func check(what string, held bool, found any) {
	if held {
		say("ok", what)
	} else {
		say("FAILED", what+":", found)
	}
}

// refused checks that an error is the one that the client has a question for.
func refused(what string, is func(error) bool, err error) { check(what, is(err), err) }

func clientOf(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": value}}
}

func (f *follower) answers(ctx context.Context) error {
	names, count, following := map[string]bool{}, 0, ""
	for {
		list, err := f.client.CoreV1().ConfigMaps(f.namespace).List(ctx, metav1.ListOptions{Limit: page, Continue: following})
		if err != nil {
			return err
		}
		for _, one := range list.Items {
			names[one.Name] = true
		}
		count += len(list.Items)
		if following = list.Continue; following == "" {
			break
		}
	}
	say("paged", count, len(names))

	maps := f.client.CoreV1().ConfigMaps(f.name)
	_, err := maps.Get(ctx, "missing", metav1.GetOptions{})
	refused("404", apierrors.IsNotFound, err)
	stale, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
	refused("409 of what is there", apierrors.IsAlreadyExists, err)
	if _, err := maps.Patch(ctx, "one", types.MergePatchType, []byte(`{"data": {"b": "2"}}`), metav1.PatchOptions{}); err != nil {
		return err
	}
	_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
	refused("409 of what has changed", apierrors.IsConflict, err)
	_, err = maps.Create(ctx, configMap("Not_A_Name", "1"), metav1.CreateOptions{})
	refused("422", apierrors.IsInvalid, err)
	err = f.client.PolicyV1().Evictions(f.name).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "guarded"}})
	refused("429", apierrors.IsTooManyRequests, err)
	if f.restricted != "" {
		nobody, err := clientOf(f.restricted)
		if err != nil {
			return err
		}
		_, err = nobody.CoreV1().Secrets(f.name).List(ctx, metav1.ListOptions{})
		refused("403", apierrors.IsForbidden, err)
	}

	apply := func(manager, value string, force bool) (*corev1.ConfigMap, error) {
		applied := applycorev1.ConfigMap("applied", f.name).WithData(map[string]string{"a": value})
		return maps.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	made, err := apply("first", "1", false)
	check("an apply", err == nil && made.Data["a"] == "1", err)
	_, err = apply("second", "2", false)
	refused("409 of an apply", apierrors.IsConflict, err)
	made, err = apply("second", "2", true)
	check("an apply by force", err == nil && made.Data["a"] == "2", err)
	return nil
}

func (f *follower) late(ctx context.Context) error {
	began, err := f.client.CoreV1().ConfigMaps(f.namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: "1", TimeoutSeconds: new(int64(5))})
	if err == nil {
		err = errors.New("no event")
		for event := range began.ResultChan() {
			if event.Type == watch.Error {
				err = apierrors.FromObject(event.Object)
			}
			break
		}
		began.Stop()
	}
	check("410", apierrors.IsResourceExpired(err) || apierrors.IsGone(err), err)
	return nil
}

func (f *follower) follow(ctx context.Context) error {
	selected := informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "follower!=" + f.name })
	factory := informers.NewSharedInformerFactoryWithOptions(f.client, 0, informers.WithNamespace(f.namespace), selected)
	informer := factory.Core().V1().ConfigMaps().Informer()
	put := func(object any) {
		say("put", object.(*corev1.ConfigMap).Name, object.(*corev1.ConfigMap).ResourceVersion)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, object any) { put(object) },
		DeleteFunc: func(object any) {
			name, err := cache.DeletionHandlingObjectToName(object)
			if err == nil {
				say("gone", name.Name)
			}
		},
	})
	f.store = informer.GetStore()
	factory.Start(ctx.Done())
	return err
}

func (f *follower) held(context.Context) error {
	for _, object := range f.store.List() {
		say("held", object.(*corev1.ConfigMap).Name, object.(*corev1.ConfigMap).ResourceVersion)
	}
	return nil
}

func run() error {
	if len(os.Args) != 5 {
		return errors.New("it takes KUBECONFIG RESTRICTED NAME NAMESPACE")
	}
	client, err := clientOf(os.Args[1])
	if err != nil {
		return err
	}
	f := &follower{client: client, restricted: os.Args[2], name: os.Args[3], namespace: os.Args[4]}
	words := map[string]func(context.Context) error{"answers": f.answers, "late": f.late, "follow": f.follow, "held": f.held}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		do, ok := words[input.Text()]
		if !ok {
			return fmt.Errorf("it is told %q", input.Text())
		}
		if err := do(context.Background()); err != nil {
			return fmt.Errorf("%s: %w", input.Text(), err)
		}
		say("done")
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "follower:", err)
		os.Exit(1)
	}
}
