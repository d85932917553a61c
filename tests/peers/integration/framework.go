// Package framework is what is put in the place of test_server.go in k8s.io/kubernetes/test/integration/framework (run.sh).
package framework

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"
)

// TestServerSetup is what a test wants of its server.
type TestServerSetup struct {
	ModifyServerRunOptions func(*options.ServerRunOptions)
	ModifyServerConfig     func(*controlplane.Config)
}

// TearDownFunc ends a server.
type TearDownFunc func()

const accountKey = `-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIEZmTmUhuanLjPA2CLquXivuwBDHTt5XYwgIr/kA1LtRoAoGCCqGSM49
AwEHoUQDQgAEH6cuzP8XuD5wal6wf9M6xDljTOPLX2i8uIp/C/ASqiIGUeeKQtX0
/IR3qCXyThP/dbCiHrF3v1cuhBOHY8CLVg==
-----END EC PRIVATE KEY-----`

// StartTestServer runs a server with what the options of a test say, as flags. A test that changes the server's own structures ends here.
func StartTestServer(_ context.Context, t testing.TB, setup TestServerSetup) (client.Interface, *rest.Config, TearDownFunc) {
	if setup.ModifyServerConfig != nil {
		t.Skip("changes the structures of the server in its own process")
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(accountKey), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := options.NewServerRunOptions()
	opts.ServiceAccountSigningKeyFile = key
	opts.Authentication.APIAudiences = []string{"https://foo.bar.example.com"}
	opts.Authentication.ServiceAccounts.Issuers = []string{"https://foo.bar.example.com"}
	opts.Authentication.ServiceAccounts.KeyFiles = []string{key}
	opts.Authorization.Modes = []string{"Node", "RBAC"}
	if setup.ModifyServerRunOptions != nil {
		setup.ModifyServerRunOptions(opts)
	}
	flags := []string{}
	flag := func(name string, values ...string) {
		if len(values) > 0 && values[0] != "" {
			flags = append(flags, fmt.Sprintf("--%s=%s", name, strings.Join(values, ",")))
		}
	}
	accounts, admission := opts.Authentication.ServiceAccounts, opts.Admission.GenericAdmission
	flag("admission-control-config-file", admission.ConfigFile)
	flag("disable-admission-plugins", admission.DisablePlugins...)
	flag("enable-admission-plugins", admission.EnablePlugins...)
	flag("api-audiences", opts.Authentication.APIAudiences...)
	flag("authorization-mode", opts.Authorization.Modes...)
	if webhook := opts.Authorization; webhook.WebhookConfigFile != "" {
		flag("authorization-webhook-config-file", webhook.WebhookConfigFile)
		flag("authorization-webhook-version", webhook.WebhookVersion)
		flag("authorization-webhook-cache-authorized-ttl", webhook.WebhookCacheAuthorizedTTL.String())
		flag("authorization-webhook-cache-unauthorized-ttl", webhook.WebhookCacheUnauthorizedTTL.String())
	}
	flag("service-account-issuer", accounts.Issuers...)
	flag("service-account-jwks-uri", accounts.JWKSURI)
	flag("service-account-key-file", accounts.KeyFiles...)
	flag("service-account-signing-key-file", opts.ServiceAccountSigningKeyFile)
	if longest := opts.ServiceAccountTokenMaxExpiration; longest != 0 {
		flag("service-account-max-token-expiration", longest.String())
	}
	if tokens := opts.Authentication.TokenFile; tokens != nil {
		flag("token-auth-file", tokens.TokenFile)
	}
	server, err := startWatchcache(flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, err := client.NewForConfig(server.config)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes, server.config, server.stop
}
