package main

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// place has what the cases name: certificates, servers and proxies.
type place struct {
	dir                                                  string
	ca, certificate, key, otherCA, otherPair, otherKey   []byte
	https, http                                          string
	proxy, proxyAuth, proxyTLS, socks, socksAuth, nobody string
	mu                                                   sync.Mutex
	// via is which proxy has which connection to a server.
	via map[string]string
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

var serial int64

func template(name string) *x509.Certificate {
	serial++
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func newAuthority(name string) authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	t := template(name)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	check(err)
	certificate, err := x509.ParseCertificate(der)
	check(err)
	return authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// signs makes a certificate and its key, as PEM.
func (a authority) signs(name string, usage x509.ExtKeyUsage, names ...string) ([]byte, []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	t := template(name)
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{usage}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.certificate, &key.PublicKey, a.key)
	check(err)
	bytes, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bytes})
}

func newPlace(dir string) *place {
	log.SetOutput(io.Discard)
	p := &place{dir: dir, via: map[string]string{}}
	ours, other := newAuthority("ours"), newAuthority("other")
	p.ca, p.otherCA = ours.pem, other.pem
	p.certificate, p.key = ours.signs("we", x509.ExtKeyUsageClientAuth)
	p.otherPair, p.otherKey = other.signs("others", x509.ExtKeyUsageClientAuth)
	chain, key := ours.signs("server", x509.ExtKeyUsageServerAuth, "localhost", "127.0.0.1", "other.example")
	pair, err := tls.X509KeyPair(chain, key)
	check(err)
	// What is trusted where no authority is named.
	roots := filepath.Join(dir, "roots.pem")
	check(os.WriteFile(roots, p.ca, 0o600))
	check(os.Setenv("SSL_CERT_FILE", roots))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "KUBERNETES_SERVICE_HOST", "KUBERNETES_MASTER"} {
		check(os.Unsetenv(name))
	}
	settings := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"http/1.1"}}
	p.https = p.serve(tls.NewListener(listen(), settings), http.HandlerFunc(p.echo))
	p.http = p.serve(listen(), http.HandlerFunc(p.echo))
	p.proxy = p.serve(listen(), p.proxying("proxy", ""))
	p.proxyAuth = p.serve(listen(), p.proxying("proxy with a password", "Basic "+base64.StdEncoding.EncodeToString([]byte("me:it"))))
	p.proxyTLS = p.serve(tls.NewListener(listen(), settings), p.proxying("proxy over TLS", ""))
	p.socks = p.serveSocks("socks", "")
	p.socksAuth = p.serveSocks("socks with a password", "\x02me\x02it")
	closed := listen()
	p.nobody = port(closed)
	closed.Close()
	return p
}

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	return listener
}

func port(listener net.Listener) string {
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(err)
	return port
}

func (p *place) serve(listener net.Listener, handler http.Handler) string {
	go http.Serve(listener, handler)
	return port(listener)
}

// echo answers with what it was sent.
func (p *place) echo(w http.ResponseWriter, r *http.Request) {
	said := map[string]any{"path": r.URL.Path, "host": r.Host}
	if r.URL.RawQuery != "" {
		said["query"] = r.URL.RawQuery
	}
	if r.TLS != nil {
		said["serverName"] = r.TLS.ServerName
		for _, certificate := range r.TLS.PeerCertificates {
			said["certificate"] = certificate.Subject.CommonName
			break
		}
	}
	for name, values := range r.Header {
		if name == "Authorization" || name == "Forwarded" || name == "Proxy-Authorization" || strings.HasPrefix(name, "Impersonate-") {
			sort.Strings(values)
			said[name] = values
		}
	}
	p.mu.Lock()
	if via := p.via[r.RemoteAddr]; via != "" {
		said["via"] = via
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	body, err := json.Marshal(said)
	check(err)
	w.Write(body)
}

// dial connects to a server for a proxy.
func (p *place) dial(name, address string) (net.Conn, error) {
	server, err := net.Dial("tcp", address)
	if err == nil {
		p.mu.Lock()
		p.via[server.LocalAddr().String()] = name
		p.mu.Unlock()
	}
	return server, err
}

// proxying is a proxy that tunnels, and forwards requests whose URL is whole.
func (p *place) proxying(name, password string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if password != "" && r.Header.Get("Proxy-Authorization") != password {
			http.Error(w, "who?", http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect {
			r.RequestURI = ""
			r.Header.Del("Proxy-Authorization")
			r.Header.Set("Forwarded", name)
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			defer answer.Body.Close()
			w.WriteHeader(answer.StatusCode)
			io.Copy(w, answer.Body)
			return
		}
		server, err := p.dial(name, r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		client, rest, err := w.(http.Hijacker).Hijack()
		check(err)
		io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		tunnel(client, rest.Reader, server)
	})
}

func tunnel(client net.Conn, from io.Reader, server net.Conn) {
	go func() {
		io.Copy(server, from)
		server.Close()
	}()
	io.Copy(client, server)
	client.Close()
}

// serveSocks is a SOCKS5 proxy.
func (p *place) serveSocks(name, password string) string {
	listener := listen()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				if !p.socksFor(client, name, password) {
					client.Close()
				}
			}()
		}
	}()
	return port(listener)
}

func (p *place) socksFor(client net.Conn, name, password string) bool {
	from := bufio.NewReader(client)
	take := func(n int) []byte {
		taken := make([]byte, n)
		io.ReadFull(from, taken)
		return taken
	}
	methods := take(int(take(2)[1]))
	method := byte(0)
	if password != "" {
		method = 2
	}
	if !bytes.Contains(methods, []byte{method}) {
		client.Write([]byte{5, 255})
		return false
	}
	client.Write([]byte{5, method})
	if method == 2 {
		user := take(int(take(2)[1]))
		word := take(int(take(1)[0]))
		said := string(append([]byte{byte(len(user))}, user...)) + string(append([]byte{byte(len(word))}, word...))
		if said != password {
			client.Write([]byte{1, 1})
			return false
		}
		client.Write([]byte{1, 0})
	}
	head := take(4)
	host := ""
	switch head[3] {
	case 1:
		host = net.IP(take(4)).String()
	case 3:
		host = string(take(int(take(1)[0])))
	case 4:
		host = net.IP(take(16)).String()
	}
	// A name that only the proxy knows.
	if host == "other.example" {
		host = "127.0.0.1"
	}
	number := binary.BigEndian.Uint16(take(2))
	server, err := p.dial(name, net.JoinHostPort(host, big.NewInt(int64(number)).String()))
	if err != nil {
		client.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
		return false
	}
	client.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	tunnel(client, from, server)
	return true
}
