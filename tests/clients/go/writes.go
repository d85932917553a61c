package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// writes makes the changes, through kube-apiserver, and knows what is true in the end.
type writes struct {
	client  kubernetes.Interface
	options options
	round   int
}

// begin makes the namespace and the ConfigMaps.
func (w *writes) begin(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.options.namespace}}
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return w.spread(w.options.objects, func(n int) error {
		_, err := w.client.CoreV1().ConfigMaps(w.options.namespace).Create(ctx, created(w.options.namespace, n), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// change makes this many changes: updates, and every fifth time a deletion, or a creation of what was deleted before.
func (w *writes) change(ctx context.Context, count int) error {
	w.round++
	maps := w.client.CoreV1().ConfigMaps(w.options.namespace)
	return w.spread(count, func(n int) error {
		object := created(w.options.namespace, rand.IntN(w.options.objects))
		object.Data["text"] += fmt.Sprintf(" round %d, change %d", w.round, n)
		if n%5 == 0 {
			err := maps.Delete(ctx, object.Name, metav1.DeleteOptions{})
			if err == nil || !apierrors.IsNotFound(err) {
				return err
			}
		}
		_, err := maps.Update(ctx, object, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		}
		// Another writer was faster with the same object: that is a change too.
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// truth lists what is there, from etcd by way of kube-apiserver (a consistent read).
func (w *writes) truth(ctx context.Context) (map[string]*corev1.ConfigMap, error) {
	list, err := w.client.CoreV1().ConfigMaps(w.options.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	truth := make(map[string]*corev1.ConfigMap, len(list.Items))
	for n := range list.Items {
		truth[list.Items[n].Namespace+"/"+list.Items[n].Name] = &list.Items[n]
	}
	return truth, nil
}

// spread calls f for 0 to count-1 from several writers; the first error ends its writer and is returned.
func (w *writes) spread(count int, f func(n int) error) error {
	var group sync.WaitGroup
	failed := make(chan error, w.options.writers)
	for first := range w.options.writers {
		group.Go(func() {
			for n := first; n < count; n += w.options.writers {
				if err := f(n); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return <-failed
}
