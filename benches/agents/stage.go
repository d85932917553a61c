package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const token = "agents"

var background = context.Background()

// process is a program that runs; address is where it listens, if anybody asks.
type process struct {
	*exec.Cmd
	name, address string
	again         func() *process
}

// stage is everything that was started.
type stage struct {
	dir     string
	running []*process
	server  *process
	api     string
}

func newStage() *stage {
	dir := *keep
	if dir == "" {
		made, err := os.MkdirTemp("", "agents-")
		must(err)
		dir = made
	} else {
		must(os.MkdirAll(dir, 0o755))
	}
	stage := &stage{dir: dir}
	certificate(stage.file("server"))
	must(os.WriteFile(stage.file("tokens.csv"), []byte(token+`,admin,1,"system:masters"`+"\n"), 0o600))
	return stage
}

func (stage *stage) file(name string) string { return filepath.Join(stage.dir, name) }

func (stage *stage) end() {
	for i := len(stage.running) - 1; i >= 0; i-- {
		stage.running[i].stop()
	}
	if *keep == "" {
		os.RemoveAll(stage.dir)
	}
}

func (stage *stage) start(name, program string, arguments ...string) *process {
	log, err := os.OpenFile(stage.file(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(err)
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = log, log
	must(command.Start())
	started := &process{Cmd: command, name: name}
	started.again = func() *process { return stage.start(name, program, arguments...) }
	stage.running = append(stage.running, started)
	return started
}

func (process *process) stop() {
	if process.ProcessState == nil {
		process.Process.Kill()
		process.Wait()
	}
}

func (stage *stage) startEtcd() {
	client, peer := "http://"+address(0), "http://"+address(1)
	stage.start("etcd", *etcd, "--data-dir="+stage.file("etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer, "--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--watch-progress-notify-interval=5s")
	time.Sleep(time.Second)
}

func (stage *stage) startAPIServer() {
	must(run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", stage.file("sa.key")))
	must(run("openssl", "pkey", "-pubout", "-in", stage.file("sa.key"), "-out", stage.file("sa.pub")))
	stage.api = address(2)
	stage.server = stage.start("kube-apiserver", *apiserver, "--etcd-servers=http://"+address(0), "--secure-port="+strconv.Itoa(*base+2), "--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1", "--cert-dir="+stage.file("certs"), "--tls-cert-file="+stage.file("server.crt"), "--tls-private-key-file="+stage.file("server.key"),
		"--token-auth-file="+stage.file("tokens.csv"), "--service-account-key-file="+stage.file("sa.pub"), "--service-account-signing-key-file="+stage.file("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/16", "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount")
	stage.ready(stage.api, stage.server)
}

// startWatchcache starts one at the nth port that is fed by whoever is at an address.
func (stage *stage) startWatchcache(name string, nth int, upstream string, more ...string) *process {
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"a","clusters":[{"name":"a","cluster":{"server":"https://%s","certificate-authority":%q}}],
"users":[{"name":"a","user":{"token":%q}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}]}`, upstream, stage.file("server.crt"), token)
	must(os.WriteFile(stage.file(name+".kubeconfig"), []byte(config), 0o600))
	arguments := []string{"serve", "--source=upstream", "--upstream-kubeconfig=" + stage.file(name+".kubeconfig"), "--insecure-port=0", "--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(*base+nth), "--tls-cert-file=" + stage.file("server.crt"), "--tls-private-key-file=" + stage.file("server.key")}
	started := stage.start(name, *watchcache, append(arguments, more...)...)
	started.address = address(nth)
	stage.ready(started.address, started)
	return started
}

// startBetween starts what the agents are pointed at; nil is nothing.
func (stage *stage) startBetween(name string) *process {
	switch name {
	case "direct":
		return nil
	case "watchcache":
		return stage.startWatchcache(name, 4, stage.api)
	case "proxy":
		return stage.startProxy(name, 5, false)
	case "haproxy":
		pair, err := os.ReadFile(stage.file("server.crt"))
		must(err)
		key, err := os.ReadFile(stage.file("server.key"))
		must(err)
		must(os.WriteFile(stage.file("haproxy.pem"), append(pair, key...), 0o600))
		config := fmt.Sprintf(`defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend front
  bind %s ssl crt %s alpn h2,http/1.1
  default_backend back
backend back
  server a %s ssl verify none alpn h2 check-alpn h2
`, address(6), stage.file("haproxy.pem"), stage.api)
		must(os.WriteFile(stage.file("haproxy.cfg"), []byte(config), 0o600))
		started := stage.start(name, *haproxy, "-db", "-f", stage.file("haproxy.cfg"))
		started.address = address(6)
		stage.ready(started.address, started)
		return started
	}
	panic("no such server: " + name)
}

// startProxy starts a reverse proxy in front of the kube-apiserver, which may ask for nothing but JSON.
func (stage *stage) startProxy(name string, nth int, json bool) *process {
	self, err := os.Executable()
	must(err)
	started := stage.start(name, self, "--mode=proxy", "--keep="+stage.dir, "--base-port="+strconv.Itoa(*base+nth), "--backend="+stage.api, "--json="+strconv.FormatBool(json))
	started.address = address(nth)
	stage.ready(started.address, started)
	return started
}

func (stage *stage) ready(at string, process *process) {
	client := newClient()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if status, _, err := get(context.Background(), client, at, "/readyz"); err == nil && status == 200 {
			return
		}
	}
	panic(process.name + " is not ready")
}

func run(program string, arguments ...string) error {
	said, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, said)
	}
	return nil
}

// certificate makes one of loopback that is its own authority.
func certificate(path string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true}
	signed, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	must(err)
	private, err := x509.MarshalECPrivateKey(key)
	must(err)
	must(os.WriteFile(path+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o644))
	must(os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600))
}

// newClient has one HTTP/2 connection to each server.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true, ReadBufferSize: 4096, WriteBufferSize: 1024}}
}

func request(ctx context.Context, method, at, path, media string, body []byte) *http.Request {
	made, err := http.NewRequestWithContext(ctx, method, "https://"+at+path, bytes.NewReader(body))
	must(err)
	made.Header.Set("Authorization", "Bearer "+token)
	if media != "" {
		made.Header.Set("Content-Type", media)
	}
	return made
}

func do(client *http.Client, made *http.Request) (int, []byte, error) {
	answer, err := client.Do(made)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

func get(ctx context.Context, client *http.Client, at, path string) (int, []byte, error) {
	return do(client, request(ctx, "GET", at, path, "", nil))
}

// serveProxy is a reverse proxy as people write one.
func serveProxy(port int, backend string) error {
	target := &url.URL{Scheme: "https", Host: backend}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if *onlyJSON && strings.Contains(r.Out.Header.Get("Accept"), "protobuf") {
				r.Out.Header.Set("Accept", "application/json")
			}
		},
		FlushInterval: -1,
		Transport:     newClient().Transport,
	}
	return http.ListenAndServeTLS(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), filepath.Join(*keep, "server.crt"), filepath.Join(*keep, "server.key"), proxy)
}

// cpu is what a process took, in seconds; mib its resident memory and the most of it since forgetPeak.
func (process *process) cpu() float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.Process.Pid))
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0
	for _, at := range []int{11, 12} {
		more, _ := strconv.Atoi(fields[at])
		ticks += more
	}
	return float64(ticks) / 100
}

func (process *process) mib() (now, peak int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.Process.Pid))
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "VmRSS:" {
			now, _ = strconv.Atoi(fields[1])
		}
		if len(fields) > 1 && fields[0] == "VmHWM:" {
			peak, _ = strconv.Atoi(fields[1])
		}
	}
	return now / 1024, peak / 1024
}

func (process *process) forgetPeak() {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", process.Process.Pid), []byte("5"), 0o200)
}
