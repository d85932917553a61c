// Command informer runs a client-go informer against a server and exits 0 only if its store equals the truth.
//
// The truth is what kube-apiserver (--writer) lists from etcd at the end. This program also makes the writes, cuts the informer's
// connections, and once makes it resume from a revision that is too old, so that the server has to answer 410 and the informer to relist. A second
// informer follows the metadata alone, until the first restart.
//
// With --staged it asks whoever started it to restart the server and to compact etcd: it writes "do restart" or "do compact" on its standard output
// and goes on when a line comes on its standard input. Changes are made all the while.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// detector makes client-go compare every streamed list with an ordinary one, and panic when they differ. It is read before main begins.
const detector = "KUBE_WATCHLIST_INCONSISTENCY_DETECTOR"

// handlersPatience is how long handlers may take to be called after the store has changed.
const handlersPatience = 2 * time.Minute

type options struct {
	server, serverToken, serverCA string
	writer, writerToken, writerCA string
	namespace                     string
	objects, changes, writers     int
	media                         string
	staged                        bool
	patience                      time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "", "URL of the server under test")
	flag.StringVar(&o.serverToken, "token", "", "its bearer token, if it wants one")
	flag.StringVar(&o.serverCA, "ca", "", "file with its certificate authority, if it speaks TLS")
	flag.StringVar(&o.writer, "writer", "", "URL of the kube-apiserver that takes the writes and tells the truth")
	flag.StringVar(&o.writerToken, "writer-token", "", "its bearer token")
	flag.StringVar(&o.writerCA, "writer-ca", "", "file with its certificate authority")
	flag.StringVar(&o.namespace, "namespace", "informer", "namespace of the ConfigMaps")
	flag.IntVar(&o.objects, "objects", 10000, "ConfigMaps to begin with")
	flag.IntVar(&o.changes, "changes", 2000, "changes made while the informer runs")
	flag.IntVar(&o.writers, "writers", 16, "writers at a time")
	flag.StringVar(&o.media, "media", "", "media type in which the informer asks; JSON if empty")
	flag.BoolVar(&o.staged, "staged", false, "ask for restarts and a compaction, see above")
	flag.DurationVar(&o.patience, "patience", 2*time.Minute, "how long the informer may take to sync, to relist and to catch up")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if on, _ := strconv.ParseBool(os.Getenv(detector)); !on {
		return fmt.Errorf("%s must be true: without it a streamed list that lacks objects passes", detector)
	}
	if o.server == "" || o.writer == "" {
		return errors.New("--server and --writer are needed")
	}
	writer, err := clientFor(o.writer, o.writerToken, o.writerCA, nil)
	if err != nil {
		return err
	}
	w := &writes{client: writer, options: o}
	began := time.Now()
	if err := w.begin(ctx); err != nil {
		return fmt.Errorf("create %d ConfigMaps: %w", o.objects, err)
	}
	fmt.Printf("informer: %d ConfigMaps created in %v\n", o.objects, time.Since(began).Round(time.Millisecond))

	wire := newWire()
	config := configFor(o.server, o.serverToken, o.serverCA, wire)
	config.ContentType = o.media
	reader, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return follow(ctx, o, w, wire, reader)
}

// follow runs the informer through its life: sync, changes, a cut, a relist, and the comparison at the end.
func follow(ctx context.Context, o options, w *writes, wire *wire, reader kubernetes.Interface) error {
	ctx, stop := context.WithCancel(ctx)
	alone, err := followMetadata(ctx, o)
	if err != nil {
		stop()
		return err
	}
	defer alone.end()
	factory := informers.NewSharedInformerFactoryWithOptions(reader, 0, informers.WithNamespace(o.namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	seen := &handled{}
	registration, err := informer.AddEventHandler(seen.handler())
	if err != nil {
		stop()
		return err
	}
	began := time.Now()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer stop()
	if err := within(ctx, o.patience, func() bool { return registration.HasSynced() }); err != nil {
		return fmt.Errorf("the informer did not sync: %w", err)
	}
	fmt.Printf("informer: synced with %d objects in %v, streamed lists %d, plain lists %d\n",
		len(informer.GetStore().ListKeys()), time.Since(began).Round(time.Millisecond), wire.streamed.Load(), wire.listed.Load())

	third := o.changes / 3
	if err := w.change(ctx, third); err != nil {
		return err
	}
	cut := wire.cut()
	if err := w.change(ctx, third); err != nil {
		return err
	}
	loads := wire.loads()
	wire.age.Store(true)
	wire.cut()
	if err := within(ctx, o.patience, func() bool { return wire.loads() > loads && !wire.age.Load() }); err != nil {
		return fmt.Errorf("a watch from revision 1 was not answered with 410 and a relist: %w", err)
	}
	if err := w.change(ctx, o.changes-2*third); err != nil {
		return err
	}

	truth, err := w.truth(ctx)
	if err != nil {
		return err
	}
	if err := alone.compare(ctx, o, truth); err != nil {
		return err
	}
	alone.end()
	if o.staged {
		if truth, err = stage(ctx, o, w, wire, informer.GetStore()); err != nil {
			return err
		}
	}
	if err := reach(ctx, o, truth, informer.GetStore()); err != nil {
		return err
	}
	if err := seen.compare(truth); err != nil {
		return fmt.Errorf("what the handlers were told does not equal the truth: %w", err)
	}
	fmt.Printf("informer: stores and handlers equal the truth: %d objects; %d connections cut, %d loads in all, %d handler calls\n",
		len(truth), cut, wire.loads(), seen.count())
	return nil
}

// stage makes changes while the server is restarted, while etcd is compacted, and while the server is restarted again: then it has none of the
// history that the informer would go on from, and etcd has it no more. Returns the truth, which the store has reached.
func stage(ctx context.Context, o options, w *writes, wire *wire, store cache.Store) (map[string]*corev1.ConfigMap, error) {
	var truth map[string]*corev1.ConfigMap
	answers := bufio.NewScanner(os.Stdin)
	for _, deed := range []string{"restart", "compact", "restart"} {
		loads, began := wire.loads(), time.Now()
		answered := make(chan bool, 1)
		fmt.Printf("do %s\n", deed)
		go func() { answered <- answers.Scan() }()
		changes, waiting := 0, true
		for waiting {
			if err := w.change(ctx, o.writers); err != nil {
				return nil, err
			}
			changes += o.writers
			select {
			case ok := <-answered:
				if !ok {
					return nil, fmt.Errorf("nobody did %q: %w", deed, answers.Err())
				}
				waiting = false
			default:
			}
		}
		var err error
		if truth, err = w.truth(ctx); err != nil {
			return nil, err
		}
		if err := reach(ctx, o, truth, store); err != nil {
			return nil, fmt.Errorf("after %s: %w", deed, err)
		}
		if deed == "restart" && wire.loads() == loads {
			return nil, errors.New("the server was restarted and had all of the history, or was not asked")
		}
		fmt.Printf("informer: %s and %d changes within %v, loads %d\n", deed, changes, time.Since(began).Round(time.Millisecond), wire.loads()-loads)
	}
	return truth, nil
}

// reach waits until the store equals the truth.
func reach(ctx context.Context, o options, truth map[string]*corev1.ConfigMap, store cache.Store) error {
	var difference error
	err := within(ctx, o.patience, func() bool { difference = compare(truth, store); return difference == nil })
	if err != nil {
		return fmt.Errorf("the store does not equal the truth: %w", difference)
	}
	return nil
}

// compare says how the store differs from the truth.
func compare(truth map[string]*corev1.ConfigMap, store cache.Store) error {
	if keys := store.ListKeys(); len(keys) != len(truth) {
		return fmt.Errorf("%d objects in the store, %d in truth", len(keys), len(truth))
	}
	for key, real := range truth {
		item, ok, err := store.GetByKey(key)
		if err != nil || !ok {
			return fmt.Errorf("%s is not in the store (%v)", key, err)
		}
		if mine := item.(*corev1.ConfigMap); !reflect.DeepEqual(mine, real) {
			return fmt.Errorf("%s is at %s in the store, at %s in truth", key, mine.ResourceVersion, real.ResourceVersion)
		}
	}
	return nil
}

// handled is the state that the event handlers' calls add up to.
type handled struct {
	mutex sync.Mutex
	state map[string]string
	calls int
}

func (h *handled) handler() cache.ResourceEventHandler {
	put := func(object any) {
		m := object.(*corev1.ConfigMap)
		h.note(m.Namespace+"/"+m.Name, m.ResourceVersion)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, object any) { put(object) },
		DeleteFunc: func(object any) {
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			if err == nil {
				h.note(key, "")
			}
		},
	}
}

func (h *handled) note(key, version string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.state == nil {
		h.state = map[string]string{}
	}
	h.calls++
	if version == "" {
		delete(h.state, key)
	} else {
		h.state[key] = version
	}
}

func (h *handled) count() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.calls
}

// compare waits a little: handlers are called after the store has changed.
func (h *handled) compare(truth map[string]*corev1.ConfigMap) error {
	return within(context.Background(), handlersPatience, func() bool {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		for key, real := range truth {
			if h.state[key] != real.ResourceVersion {
				return false
			}
		}
		return len(h.state) == len(truth)
	})
}

// within waits until done says so.
func within(ctx context.Context, patience time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func clientFor(url, token, ca string, wire *wire) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(configFor(url, token, ca, wire))
}

func configFor(url, token, ca string, wire *wire) *rest.Config {
	config := &rest.Config{Host: url, BearerToken: token, QPS: -1}
	config.TLSClientConfig.CAFile = ca
	if wire != nil {
		config.Dial = wire.dial
		config.Wrap(wire.wrap)
	}
	return config
}

// created is what a new ConfigMap looks like.
func created(namespace string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("cm-%05d", n), Labels: map[string]string{"n": strconv.Itoa(n % 10)}},
		Data:       map[string]string{"text": fmt.Sprintf("<%d>&é\u2028", n)},
	}
}
