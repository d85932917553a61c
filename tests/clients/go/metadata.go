package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// metadataOnly is an informer that follows the metadata alone, as the garbage collector's do. Its connections are its own: nothing cuts them.
type metadataOnly struct {
	informer cache.SharedIndexInformer
	// end stops it and waits until it has stopped; it may be called again.
	end func()
}

// followMetadata returns when the informer has synced. It speaks protobuf: of metadata in JSON client-go keeps what it is in listed objects and not in
// streamed ones, whatever the server, which the detector takes for a difference.
func followMetadata(ctx context.Context, o options) (*metadataOnly, error) {
	client, err := metadata.NewForConfig(configFor(o.server, o.serverToken, o.serverCA, nil))
	if err != nil {
		return nil, err
	}
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, o.namespace, nil)
	informer := factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer()
	began := time.Now()
	ctx, stop := context.WithCancel(ctx)
	end := func() {
		stop()
		factory.Shutdown()
	}
	factory.Start(ctx.Done())
	if err := within(ctx, o.patience, informer.HasSynced); err != nil {
		end()
		return nil, fmt.Errorf("the informer of metadata did not sync: %w", err)
	}
	fmt.Printf("informer: synced the metadata of %d objects in %v\n", len(informer.GetStore().ListKeys()), time.Since(began).Round(time.Millisecond))
	return &metadataOnly{informer: informer, end: end}, nil
}

// compare waits until the store equals the truth, and looks at one object by a GET.
func (m *metadataOnly) compare(ctx context.Context, o options, truth map[string]*corev1.ConfigMap) error {
	var difference error
	err := within(ctx, o.patience, func() bool { difference = compareMetadata(truth, m.informer.GetStore()); return difference == nil })
	if err != nil {
		return fmt.Errorf("the store of metadata does not equal the truth: %w", difference)
	}
	client, err := metadata.NewForConfig(configFor(o.server, o.serverToken, o.serverCA, nil))
	if err != nil {
		return err
	}
	for _, real := range truth {
		one, err := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(o.namespace).Get(ctx, real.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(one.ObjectMeta, real.ObjectMeta) {
			return fmt.Errorf("a GET of the metadata of %s differs from the truth", real.Name)
		}
		break
	}
	return nil
}

func compareMetadata(truth map[string]*corev1.ConfigMap, store cache.Store) error {
	if keys := store.ListKeys(); len(keys) != len(truth) {
		return fmt.Errorf("%d objects in the store, %d in truth", len(keys), len(truth))
	}
	for key, real := range truth {
		item, ok, err := store.GetByKey(key)
		if err != nil || !ok {
			return fmt.Errorf("%s is not in the store (%v)", key, err)
		}
		mine := item.(*metav1.PartialObjectMetadata)
		if mine.Kind != "PartialObjectMetadata" && mine.Kind != "" || !reflect.DeepEqual(mine.ObjectMeta, real.ObjectMeta) {
			return fmt.Errorf("%s is %s at %s in the store, at %s in truth", key, mine.Kind, mine.ResourceVersion, real.ResourceVersion)
		}
	}
	return nil
}
