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
	"slices"
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
	data   string
	stop   func()
}

// etcd returns where its store is asked as an etcd.
func (w *watchcache) etcd() string { return "unix://" + filepath.Join(w.data, "store.sock") }

// stores are the directories of data of tests that start a server again, by what they name their etcd with. $TMPDIR has them until the end.
var stores sync.Map

// startWatchcache runs the program $WATCHCACHE until it is ready. It gets those of a test's flags that it knows, and the data of another server with this etcd.
func startWatchcache(flags []string, etcd any) (*watchcache, error) {
	dir, err := os.MkdirTemp("", "watchcache")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if etcd != nil {
		made, err := os.MkdirTemp("", "store")
		if err != nil {
			return nil, err
		}
		known, _ := stores.LoadOrStore(etcd, made)
		data = known.(string)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	arguments := []string{"serve", "--data-dir", data, "--insecure-port=0", fmt.Sprintf("--secure-port=%d", port),
		"--bind-address=127.0.0.1", "--write-admin-kubeconfig", kubeconfig, "--controllers=" + os.Getenv("WATCHCACHE_CONTROLLERS")}
	given, err := withLoopback(dir, known(flags))
	if err != nil {
		return nil, err
	}
	arguments = append(arguments, given...)
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
			config = rest.AnonymousClientConfig(config)
			config.BearerToken = loopback
			config.QPS, config.Burst = 1000, 10000
			return &watchcache{config, dir, data, stop}, nil
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

// loopback is the token of the client that a test gets: the user that kube-apiserver is to itself.
const loopback = "loopback-of-integration-tests"

// withLoopback adds that user to the users of a test, and what kube-apiserver does where no flag says who may do what.
func withLoopback(dir string, flags []string) ([]string, error) {
	users, kept, authorizes := fmt.Sprintf("%s,system:apiserver,loopback,system:masters\n", loopback), []string{}, false
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		authorizes = authorizes || strings.HasPrefix(name, "--authorization-")
		if name != "--token-auth-file" {
			kept = append(kept, flag)
			continue
		}
		text, err := os.ReadFile(value)
		if err != nil {
			return nil, err
		}
		users += string(text)
	}
	if !authorizes {
		kept = append(kept, "--authorization-mode=AlwaysAllow")
	}
	file := filepath.Join(dir, "users.csv")
	return append(kept, "--token-auth-file="+file), os.WriteFile(file, []byte(users), 0o600)
}

// passed are the flags of a test that this server gets; what else a test wants of its server it has by itself, or lacks.
var passed = []string{
	"admission-control-config-file", "anonymous-auth", "api-audiences", "audit-log-mode", "audit-log-path", "audit-policy-file", "authorization-config",
	"authorization-mode", "authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl", "authorization-webhook-config-file",
	"authorization-webhook-version", "default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds", "disable-admission-plugins", "enable-admission-plugins",
	"service-account-issuer", "service-account-jwks-uri", "service-account-key-file", "service-account-max-token-expiration", "service-account-signing-key-file",
	"token-auth-file",
}

// known returns the flags that this server gets, each in one argument.
func known(flags []string) []string {
	var found []string
	for at := 0; at < len(flags); at++ {
		name, _, is := strings.Cut(strings.TrimPrefix(flags[at], "--"), "=")
		flag := flags[at]
		if !is && at+1 < len(flags) && !strings.HasPrefix(flags[at+1], "--") {
			at++
			flag += "=" + flags[at]
		}
		if slices.Contains(passed, name) {
			found = append(found, flag)
		}
	}
	return found
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
