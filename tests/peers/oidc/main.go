// An OpenID provider on loopback for the live tests: the example server of zitadel/oidc, with TLS. A user logs in as a browser would.
//
//	oidc-provider serve PORT CERTIFICATE KEY
//	oidc-provider login PORT AUTHORITY USER PASSWORD    prints an ID token for the client "web"
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

const callback = "http://localhost/callback"

func main() {
	args := os.Args[1:]
	var err error
	switch {
	case len(args) == 4 && args[0] == "serve":
		err = serve(args[1], args[2], args[3])
	case len(args) == 5 && args[0] == "login":
		err = login(args[1], args[2], args[3], args[4])
	default:
		err = fmt.Errorf("usage: oidc-provider serve PORT CERTIFICATE KEY | login PORT AUTHORITY USER PASSWORD")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func issuer(port string) string { return "https://localhost:" + port + "/" }

func serve(port, certificate, key string) error {
	storage.RegisterClients(storage.WebClient("web", "secret", callback))
	store := storage.NewStorage(storage.NewUserStore(issuer(port)))
	handler := exampleop.SetupServer(issuer(port), store, slog.Default(), false)
	return http.ListenAndServeTLS("127.0.0.1:"+port, certificate, key, handler)
}

func login(port, authority, user, password string) error {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	// next follows one redirect.
	next := func(response *http.Response, err error) (*url.URL, error) {
		if err != nil {
			return nil, err
		}
		response.Body.Close()
		return response.Location()
	}
	asked := url.Values{
		"client_id": {"web"}, "redirect_uri": {callback}, "response_type": {"id_token"},
		"scope": {"openid email profile"}, "nonce": {"n"}, "state": {"s"},
	}
	page, err := next(client.Get(issuer(port) + "auth?" + asked.Encode()))
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	form := url.Values{"id": {page.Query().Get("authRequestID")}, "username": {user}, "password": {password}}
	done, err := next(client.PostForm(issuer(port)+"login/username", form))
	if err != nil {
		return fmt.Errorf("login: %w", err)
	}
	back, err := next(client.Get(done.String()))
	if err != nil {
		return fmt.Errorf("callback: %w", err)
	}
	answer, err := url.ParseQuery(back.Fragment)
	if err != nil {
		return err
	}
	fmt.Println(answer.Get("id_token"))
	return nil
}
