// Package testing is what is put in the place of k8s.io/kubernetes/cmd/kube-apiserver/app/testing (run.sh).
package testing

import (
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// TearDownFunc ends a server.
type TearDownFunc func()

// TestServerInstanceOptions are not heeded.
type TestServerInstanceOptions struct {
	SkipHealthzCheck       bool
	EnableCertAuth         bool
	StorageVersionWrapFunc func(storageversion.Manager) storageversion.Manager
	ProxyCA                *ProxyCA
	BinaryVersion          string
	RequestTimeout         time.Duration
}

// ProxyCA is not heeded.
type ProxyCA struct {
	ProxySigningCert *x509.Certificate
	ProxySigningKey  *rsa.PrivateKey
}

// TestServer is a server that runs.
type TestServer struct {
	ClientConfig      *rest.Config
	ServerOpts        *options.ServerRunOptions
	TearDownFn        TearDownFunc
	TmpDir            string
	EtcdClient        *clientv3.Client
	EtcdStoragePrefix string
}

// NewDefaultTestServerOptions returns options.
func NewDefaultTestServerOptions() *TestServerInstanceOptions { return &TestServerInstanceOptions{} }

// StartTestServer starts a server.
func StartTestServer(_ ktesting.TB, _ *TestServerInstanceOptions, flags []string, config *storagebackend.Config) (TestServer, error) {
	server, err := startWatchcache(flags, config)
	if err != nil {
		return TestServer{}, err
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{server.etcd()}})
	return TestServer{
		ClientConfig: server.config, ServerOpts: options.NewServerRunOptions(), TearDownFn: server.stop, TmpDir: server.dir,
		EtcdClient: etcd, EtcdStoragePrefix: "/registry",
	}, err
}

// StartTestServerOrDie starts a server.
func StartTestServerOrDie(t testing.TB, options *TestServerInstanceOptions, flags []string, config *storagebackend.Config) *TestServer {
	server, err := StartTestServer(nil, options, flags, config)
	if err != nil {
		t.Fatal(err)
	}
	return &server
}

// GetEtcdClients returns an error: no test that is run asks for an etcd that it has not started.
func GetEtcdClients(storagebackend.TransportConfig) (*clientv3.Client, clientv3.KV, error) {
	return nil, nil, errors.ErrUnsupported
}
