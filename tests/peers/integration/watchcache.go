// Package integration is copied into the packages of Kubernetes that start the server under test (run.sh), under their names.
package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// watchcache is a server on its embedded store.
type watchcache struct {
	config *rest.Config
	dir    string
	stop   func()
}

// etcd returns where its store is asked as an etcd.
func (w *watchcache) etcd() string { return "unix://" + filepath.Join(w.dir, "data", "store.sock") }

// startWatchcache runs the program $WATCHCACHE until it is ready. Of the flags that a test wants, those that it knows are given to it.
func startWatchcache(flags []string) (*watchcache, error) {
	dir, err := os.MkdirTemp("", "watchcache")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	arguments := []string{"serve", "--data-dir", filepath.Join(dir, "data"), "--insecure-port=0", fmt.Sprintf("--secure-port=%d", port),
		"--bind-address=127.0.0.1", "--write-admin-kubeconfig", kubeconfig, "--controllers=" + os.Getenv("WATCHCACHE_CONTROLLERS")}
	for _, flag := range flags {
		if strings.HasPrefix(flag, "--authorization-mode=") || strings.HasPrefix(flag, "--token-auth-file=") {
			arguments = append(arguments, flag)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	command := exec.Command(os.Getenv("WATCHCACHE"), arguments...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { _ = command.Wait(); close(ended) }()
	stop := func() { _ = command.Process.Kill(); <-ended; _ = os.RemoveAll(dir) }
	for began := time.Now(); ; {
		config, err := ready(kubeconfig)
		if err == nil {
			config.QPS, config.Burst = 1000, 10000
			return &watchcache{config, dir, stop}, nil
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("%v: %s", arguments, text)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Since(began) > time.Minute {
			stop()
			return nil, fmt.Errorf("it is not ready: %w", err)
		}
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func ready(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	_, err = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(context.Background())
	return config, err
}

// makeNamespaces has each namespace made before something is made in it: Kubernetes' server of definitions alone does not ask for them.
func (w *watchcache) makeNamespaces() {
	client, made := kubernetes.NewForConfigOrDie(rest.CopyConfig(w.config)), sync.Map{}
	w.config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			_, path, _ := strings.Cut(request.URL.Path, "/namespaces/")
			name, _, _ := strings.Cut(path, "/")
			if name != "" && (request.Method == http.MethodPost || request.Method == http.MethodPatch) {
				if _, is := made.LoadOrStore(name, true); !is {
					namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
					_, _ = client.CoreV1().Namespaces().Create(request.Context(), namespace, metav1.CreateOptions{})
				}
			}
			return inner.RoundTrip(request)
		})
	})
}

type roundTripper func(request *http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
