package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Objects of one transaction: etcd takes 128 operations.
const inTransaction = 100

// runStart compares how a watchcache starts that etcd feeds with one that the kube-apiserver feeds, with many ConfigMaps there.
func runStart(stage *stage) {
	seedConfigMaps()
	// The kube-apiserver has read them too before it is asked.
	client := newClient()
	_, _, err := do(client, request(background, "GET", stage.api, "/api/v1/configmaps?limit=1&resourceVersion=0", "", nil))
	must(err)
	time.Sleep(10 * time.Second)
	fmt.Printf("%d ConfigMaps of 1.5 kB\n", *objects)
	fmt.Println("fed by | ready after s | its CPU s | MiB, peak | MiB after 10 s | kube-apiserver's CPU s | its peak MiB")
	fmt.Println("---|---|---|---|---|---|---")
	for range *rounds {
		for _, source := range []string{"etcd", "kube-apiserver"} {
			stage.server.forgetPeak()
			spent, began := stage.server.cpu(), time.Now()
			var started *process
			if source == "etcd" {
				started = stage.start("replica", *watchcache, "serve", "--etcd-servers=http://"+address(0), "--insecure-port=0", "--bind-address=127.0.0.1", "--token-auth-file="+stage.file("tokens.csv"),
					"--secure-port="+strconv.Itoa(*base+7), "--tls-cert-file="+stage.file("server.crt"), "--tls-private-key-file="+stage.file("server.key"))
				started.address = address(7)
				stage.ready(started.address, started)
			} else {
				started = stage.startWatchcache("fed", 8, stage.api, "--resources=configmaps")
			}
			took, cpu := time.Since(began).Seconds(), started.cpu()
			_, peak := started.mib()
			time.Sleep(10 * time.Second)
			later, _ := started.mib()
			_, peer := stage.server.mib()
			fmt.Printf("%s | %.1f | %.1f | %d | %d | %.1f | %d\n", source, took, cpu, peak, later, stage.server.cpu()-spent, peer)
			started.stop()
		}
	}
}

// seedConfigMaps puts them into etcd itself, as a kube-apiserver stores JSON, through etcd's gateway for HTTP.
func seedConfigMaps() {
	filler := strings.Repeat("x", 1200)
	seed(*objects, func(nth int) (string, string) {
		value := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"map-%06d","namespace":"default","uid":"00000000-0000-4000-8000-%012d","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"a-%d"}},"data":{"a":%q}}`,
			nth, nth, nth%100, filler)
		return fmt.Sprintf("/registry/configmaps/default/map-%06d", nth), value
	})
}

// seed puts so many objects into etcd itself.
func seed(count int, object func(nth int) (key, value string)) {
	encode := base64.StdEncoding.EncodeToString
	for first := 0; first < count; first += inTransaction {
		var puts []any
		for nth := first; nth < min(first+inTransaction, count); nth++ {
			key, value := object(nth)
			puts = append(puts, map[string]any{"requestPut": map[string]any{"key": encode([]byte(key)), "value": encode([]byte(value))}})
		}
		body, err := json.Marshal(map[string]any{"success": puts})
		must(err)
		answer, err := http.Post("http://"+address(0)+"/v3/kv/txn", "application/json", bytes.NewReader(body))
		must(err)
		said, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 200 {
			panic(string(said))
		}
	}
}
