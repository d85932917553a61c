// sides measures builds of watchcache beside each other, in the same seconds: all follow one etcd, the same writes reach them, and each has the same watches.
// What disturbs one disturbs all, so that differences of a few per cent show that runs one after the other hide.
//
//	go run . --etcd PATH --mode shared --watches 500 BEFORE AFTER [BEFORE]
//
// It prints the memory of each server for a watch at rest, its CPU for an event that a watch is told, and the time from when the write was sent until the watch had its event, and fails when
// an event is lost. The order counts: of two equal servers the second one, whose memory the first has driven out of the caches, takes some 3 % more. Measure
// both orders, or give the first one again at the end.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	token         = "sides"
	perConnection = 100
	patience      = 60 * time.Second
)

var (
	etcd    = flag.String("etcd", "etcd", "program of etcd")
	mode    = flag.String("mode", "h2", "how watches come: h1, h2 (a connection each), shared (HTTP/2, 100 on a connection)")
	watches = flag.Int("watches", 300, "watches of each server")
	rate    = flag.Float64("rate", 15, "writes a second")
	seconds = flag.Int("seconds", 10, "of writes in a round")
	rounds  = flag.Int("rounds", 3, "rounds")
	size    = flag.Int("size", 1200, "bytes of the object")
	base    = flag.Int("base-port", 24000, "first port")
)

// sent tells when each write was sent, by its number.
var sent [1 << 16]atomic.Int64

type server struct {
	name  string
	port  int
	pid   int
	guard sync.Mutex
	// Of each event that was told, from when its write was sent.
	delays []time.Duration
}

// tell takes an event, whose line names the number of its write. Another is none of ours, and will be missed.
func (s *server) tell(line []byte) {
	_, rest, _ := bytes.Cut(line, []byte(`"n":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return
	}
	delay := time.Duration(time.Now().UnixNano() - sent[n%len(sent)].Load())
	s.guard.Lock()
	s.delays = append(s.delays, delay)
	s.guard.Unlock()
}

// told counts the events since they were taken.
func (s *server) told() int {
	s.guard.Lock()
	defer s.guard.Unlock()
	return len(s.delays)
}

// taken returns the delays since the last call, in order.
func (s *server) taken() []time.Duration {
	s.guard.Lock()
	defer s.guard.Unlock()
	delays := s.delays
	s.delays = nil
	slices.Sort(delays)
	return delays
}

func main() {
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "sides")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := func(name string) string { return filepath.Join(dir, name) }
	made := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
		"-keyout", path("key.pem"), "-out", path("cert.pem"), "-subj", "/CN=localhost")
	if out, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("openssl: %w: %s", err, out)
	}
	if err := os.WriteFile(path("tokens.csv"), []byte(token+",admin,1,\"system:masters\"\n"), 0o600); err != nil {
		return err
	}
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", *base), fmt.Sprintf("http://127.0.0.1:%d", *base+1)
	stop, _, err := start(path("etcd.log"), *etcd, "--data-dir", path("etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync")
	if err != nil {
		return err
	}
	defer stop()
	// The first one takes the writes, and is not measured.
	programs := append([]string{flag.Arg(0)}, flag.Args()...)
	var servers []*server
	for i, program := range programs {
		s := &server{name: filepath.Base(program), port: *base + 2 + i}
		stop, pid, err := start(path(fmt.Sprintf("%d.log", i)), program, "serve", "--etcd-servers", client, "--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(s.port),
			"--insecure-port", "0", "--tls-cert-file", path("cert.pem"), "--tls-private-key-file", path("key.pem"), "--token-auth-file", path("tokens.csv"), "--allow-writes")
		if err != nil {
			return err
		}
		defer stop()
		s.pid = pid
		servers = append(servers, s)
		if err := ready(s); err != nil {
			return err
		}
	}
	writer, subjects := newClient("h2"), servers[1:]
	if err := write(writer, servers[0], http.MethodPost, "", 0); err != nil {
		return err
	}
	failed := make(chan error, len(subjects)**watches)
	for _, s := range subjects {
		before := resident(s.pid)
		if err := open(s, failed); err != nil {
			return err
		}
		time.Sleep(2 * time.Second)
		fmt.Printf("%-6s %-20s %6.2f KB RSS an idle watch\n", *mode, s.name, (resident(s.pid)-before)/float64(*watches))
	}
	written := 0
	for range *rounds {
		before := make([]float64, len(subjects))
		for i, s := range subjects {
			s.taken()
			before[i] = cpu(s.pid)
		}
		writes, began := int(*rate*float64(*seconds)), time.Now()
		for i := range writes {
			written++
			sent[written%len(sent)].Store(time.Now().UnixNano())
			if err := write(writer, servers[0], http.MethodPut, "/a", written); err != nil {
				return err
			}
			time.Sleep(time.Until(began.Add(time.Duration(float64(i+1) / *rate * float64(time.Second)))))
		}
		all := writes * *watches
		for i, s := range subjects {
			for end := time.Now().Add(patience); s.told() < all; time.Sleep(10 * time.Millisecond) {
				select {
				case err := <-failed:
					return err
				default:
				}
				if time.Now().After(end) {
					return fmt.Errorf("%s told %d events of %d", s.name, s.told(), all)
				}
			}
			used, delays := cpu(s.pid)-before[i], s.taken()
			at := func(share float64) float64 { return delays[int(share*float64(len(delays)-1))].Seconds() * 1e3 }
			fmt.Printf("%-6s %-20s %6.2f us an event; sent to told, p10, p50, p90, p99, most: %.2f, %.2f, %.2f, %.2f, %.2f ms\n",
				*mode, s.name, used*1e6/float64(all), at(0.1), at(0.5), at(0.9), at(0.99), at(1))
		}
	}
	return nil
}

// start runs a program, whose output goes to a file, until the returned function is called.
func start(log, program string, args ...string) (func(), int, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, 0, err
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = file.Close()
	}, cmd.Process.Pid, nil
}

func newClient(mode string) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: mode != "h1"}
	if mode == "h1" {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &http.Client{Transport: transport}
}

func ask(client *http.Client, s *server, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequest(method, fmt.Sprintf("https://127.0.0.1:%d%s", s.port, path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	return client.Do(request)
}

func ready(s *server) error {
	client := newClient("h2")
	defer client.CloseIdleConnections()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if answer, err := ask(client, s, http.MethodGet, "/readyz", nil); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return fmt.Errorf("%s is not ready", s.name)
}

func write(client *http.Client, s *server, method, name string, n int) error {
	object := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"n":"%d","text":"%s"}}`, n, strings.Repeat("x", *size))
	answer, err := ask(client, s, method, "/api/v1/namespaces/default/configmaps"+name, []byte(object))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s: %s: %s", method, answer.Status, text)
	}
	return nil
}

// open begins the watches of a server, and returns when each has the object.
func open(s *server, failed chan error) error {
	var begun sync.WaitGroup
	var client *http.Client
	for i := range *watches {
		if *mode != "shared" || i%perConnection == 0 {
			client = newClient(*mode)
		}
		begun.Add(1)
		follow := func(client *http.Client) {
			answer, err := ask(client, s, http.MethodGet, "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Da", nil)
			if err == nil && answer.StatusCode != http.StatusOK {
				err = errors.New(answer.Status)
			}
			if err != nil {
				failed <- fmt.Errorf("%s: %w", s.name, err)
				begun.Done()
				return
			}
			defer answer.Body.Close()
			lines, first := bufio.NewReaderSize(answer.Body, *size+4096), true
			for {
				line, err := lines.ReadSlice('\n')
				switch {
				case errors.Is(err, bufio.ErrBufferFull):
				case err != nil:
					failed <- fmt.Errorf("%s: a watch ended: %w", s.name, err)
					return
				case first:
					first = false
					begun.Done()
				default:
					s.tell(line)
				}
			}
		}
		go follow(client)
		if i%50 == 49 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	begun.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// resident is the memory of a process that is in use, in KB.
func resident(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	return kilobytes
}

// cpu is what all threads of a process have used so far, in seconds.
func cpu(pid int) float64 {
	total := 0.0
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			nanoseconds, _ := strconv.ParseFloat(fields[0], 64)
			total += nanoseconds
		}
	}
	return total / 1e9
}
