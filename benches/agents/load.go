package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// delays of events, and what failed.
type delays struct {
	guard  sync.Mutex
	all    []time.Duration
	events atomic.Int64
	failed atomic.Int64
	why    map[string]int
}

// fail notes a request that came to nothing.
func (delays *delays) fail(what string, status int, err error) {
	delays.failed.Add(1)
	why := what + ": " + strconv.Itoa(status)
	if err != nil {
		why = what + ": " + err.Error()
		if at := strings.LastIndex(why, ": "); len(why) > 100 && at > 0 {
			why = what + why[at:]
		}
	}
	delays.guard.Lock()
	defer delays.guard.Unlock()
	if delays.why == nil {
		delays.why = map[string]int{}
	}
	delays.why[why]++
}

var stampName = []byte(`"sent":"`)

// take notes an event's delay, if a write of ours made it.
func (delays *delays) take(line []byte) {
	at := bytes.Index(line, stampName)
	if at < 0 {
		return
	}
	at += len(stampName)
	end := bytes.IndexByte(line[at:], '"')
	if end < 0 {
		return
	}
	sent, err := strconv.ParseInt(string(line[at:at+end]), 10, 64)
	if err != nil || sent < since.Load() {
		return
	}
	delay := time.Duration(time.Now().UnixNano() - sent)
	delays.events.Add(1)
	delays.guard.Lock()
	delays.all = append(delays.all, delay)
	delays.guard.Unlock()
}

// since is when the writes began that count.
var since atomic.Int64

func (delays *delays) percentiles() (p50, p99 float64) {
	delays.guard.Lock()
	defer delays.guard.Unlock()
	if len(delays.all) == 0 {
		return 0, 0
	}
	slices.Sort(delays.all)
	at := func(percent int) float64 {
		return float64(delays.all[(len(delays.all)-1)*percent/100].Microseconds()) / 1000
	}
	return at(50), at(99)
}

// listed is a list's revision.
type listed struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

// follow lists a target from the cache, tells that it has, and watches from there as informers do, until the context ends.
func follow(ctx context.Context, client *http.Client, at, path, query string, told *delays, synced func()) {
	from := ""
	for ctx.Err() == nil {
		if from == "" {
			status, body, err := get(ctx, client, at, path+"?"+query+"&resourceVersion=0")
			var list listed
			if err != nil || status != 200 || json.Unmarshal(body, &list) != nil {
				if ctx.Err() == nil {
					told.fail("list", status, err)
					pause(ctx)
				}
				continue
			}
			from = list.Metadata.ResourceVersion
		}
		answer, err := client.Do(request(ctx, "GET", at, path+"?watch=true&allowWatchBookmarks=true&timeoutSeconds=600&"+query+"&resourceVersion="+from, "", nil))
		if err != nil {
			if ctx.Err() == nil {
				told.fail("watch", 0, err)
				pause(ctx)
			}
			continue
		}
		if answer.StatusCode != 200 {
			answer.Body.Close()
			told.fail("watch", answer.StatusCode, nil)
			from = ""
			pause(ctx)
			continue
		}
		if synced != nil {
			synced()
			synced = nil
		}
		from = read(answer, told, from)
		answer.Body.Close()
	}
}

// read takes a watch's events, and returns the revision to go on from, none when it is over.
func read(answer *http.Response, told *delays, from string) string {
	lines := bufio.NewReaderSize(answer.Body, 2048)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return from
		}
		if bytes.HasPrefix(line, []byte(`{"type":"ERROR"`)) {
			told.fail("ended: "+string(line[:min(len(line), 300)]), 0, nil)
			return ""
		}
		told.take(line)
		if at := bytes.Index(line, []byte(`"resourceVersion":"`)); at >= 0 {
			rest := line[at+19:]
			from = string(rest[:bytes.IndexByte(rest, '"')])
		}
	}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(500+rand.IntN(1000)) * time.Millisecond):
	}
}

// herd is all agents of a cluster, the dashboard and the collector.
type herd struct {
	cancel context.CancelFunc
	synced sync.WaitGroup
	began  time.Time
}

func startHerd(at string, clients []*http.Client, told *delays) *herd {
	ctx, cancel := context.WithCancel(context.Background())
	herd := &herd{cancel: cancel, began: time.Now()}
	herd.synced.Add(3 * len(clients))
	for nth, client := range clients {
		node := "fieldSelector=spec.nodeName%3Dnode-" + strconv.Itoa(nth)
		// What asks at the same time before there is a connection would make one each.
		go follow(ctx, client, at, "/api/v1/pods", node, told, func() {
			herd.synced.Done()
			go follow(ctx, client, at, "/api/v1/services", "", told, herd.synced.Done)
			go follow(ctx, client, at, "/apis/discovery.k8s.io/v1/endpointslices", "", told, herd.synced.Done)
			go again(ctx, client, at, "/api/v1/pods?"+node, time.Duration(*every)*time.Second, told)
		})
	}
	dashboard, collector := newClient(), newClient()
	for _, path := range []string{"/api/v1/pods?limit=500", "/api/v1/services?limit=500", "/api/v1/namespaces?limit=500"} {
		go again(ctx, dashboard, at, path, 5*time.Second, told)
	}
	go follow(ctx, collector, at, "/api/v1/pods", "", told, nil)
	go again(ctx, collector, at, "/api/v1/pods", 30*time.Second, told)
	return herd
}

// again asks for the same, now and then.
func again(ctx context.Context, client *http.Client, at, path string, every time.Duration, told *delays) {
	wait := time.Duration(rand.Int64N(int64(every)))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if status, _, err := get(ctx, client, at, path); (err != nil || status != 200) && ctx.Err() == nil {
			told.fail("list now and then", status, err)
		}
		wait = every
	}
}

// write patches objects, so many in a second, until the context ends; what is sent is told in an annotation.
func write(ctx context.Context, at string, target func(nth int) string) {
	clients := []*http.Client{newClient(), newClient(), newClient(), newClient()}
	tick := time.NewTicker(time.Second / time.Duration(*rate))
	defer tick.Stop()
	for nth := 0; ; nth++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		go func() {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"sent":"%d"}}}`, time.Now().UnixNano())
			_, _, _ = do(clients[nth%len(clients)], request(ctx, "PATCH", at, target(nth), "application/merge-patch+json", []byte(patch)))
		}()
	}
}

// requests is how many the kube-apiserver has answered, and how many watches are open there.
func requests(stage *stage) (count, open int) {
	_, body, err := get(context.Background(), newClient(), stage.api, "/metrics")
	must(err)
	for _, line := range strings.Split(string(body), "\n") {
		value, _ := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		switch {
		case strings.HasPrefix(line, "apiserver_request_total{") && !strings.Contains(line, `verb="PATCH"`) && !strings.Contains(line, `subresource="metrics"`):
			count += int(value)
		case strings.HasPrefix(line, "apiserver_longrunning_requests{"):
			open += int(value)
		}
	}
	return count, open
}

// create makes many objects at the kube-apiserver.
func create(stage *stage, count int, object func(nth int) (path, body string)) {
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			client := newClient()
			for nth := worker; nth < count; nth += 16 {
				path, body := object(nth)
				status, said, err := do(client, request(context.Background(), "POST", stage.api, path, "application/json", []byte(body)))
				must(err)
				if status != 201 && status != 409 {
					panic(fmt.Sprint(path, ": ", status, " ", string(said)))
				}
			}
		})
	}
	all.Wait()
}

func seedCluster(stage *stage) {
	filler := strings.Repeat("x", 600)
	create(stage, *nodes**podsEach, func(nth int) (string, string) {
		return "/api/v1/namespaces/default/pods", fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-%d","labels":{"app":"a-%d"},"annotations":{"filler":%q}},
"spec":{"nodeName":"node-%d","containers":[{"name":"c","image":"registry.invalid/image:1","env":[{"name":"A","value":"b"}]}]}}`, nth, nth%200, filler, nth%*nodes)
	})
	create(stage, *services, func(nth int) (string, string) {
		return "/api/v1/namespaces/default/services", fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"service-%d"},"spec":{"selector":{"app":"a-%d"},"ports":[{"port":80}]}}`, nth, nth)
	})
	create(stage, *services, func(nth int) (string, string) {
		return "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"service-%d-a","labels":{"kubernetes.io/service-name":"service-%d"}},
"addressType":"IPv4","endpoints":[{"addresses":["10.1.0.1"]},{"addresses":["10.1.0.2"]}],"ports":[{"port":80}]}`, nth, nth)
	})
}

// measureAgents runs the cluster's load once, and prints a row.
func measureAgents(stage *stage, name, at string, between *process) {
	told := &delays{}
	clients := make([]*http.Client, *nodes)
	for nth := range clients {
		clients[nth] = newClient()
	}
	since.Store(time.Now().UnixNano())
	first := startHerd(at, clients, told)
	first.synced.Wait()
	started := time.Since(first.began)
	time.Sleep(5 * time.Second)

	ctx, stop := context.WithCancel(context.Background())
	since.Store(time.Now().UnixNano())
	go write(ctx, stage.api, func(nth int) string {
		// Mostly Pods; now and then a Service, which every agent watches.
		if nth%20 == 0 {
			return fmt.Sprintf("/api/v1/namespaces/default/services/service-%d", nth%*services)
		}
		return fmt.Sprintf("/api/v1/namespaces/default/pods/pod-%d", nth*7919%(*nodes**podsEach))
	})
	asked, _ := requests(stage)
	began, spent := time.Now(), stage.server.cpu()
	spentBetween := 0.0
	if between != nil {
		spentBetween = between.cpu()
	}
	time.Sleep(time.Duration(*seconds) * time.Second)
	took := time.Since(began).Seconds()
	share := (stage.server.cpu() - spent) / took * 100
	asks, open := requests(stage)
	mib, _ := stage.server.mib()
	shareBetween, mibBetween := "–", "–"
	if between != nil {
		now, _ := between.mib()
		shareBetween, mibBetween = fmt.Sprintf("%.0f", (between.cpu()-spentBetween)/took*100), fmt.Sprint(now)
	}
	stop()
	p50, p99 := told.percentiles()

	// All agents end, and start again at once, on connections of their own.
	first.cancel()
	for nth, client := range clients {
		client.CloseIdleConnections()
		clients[nth] = newClient()
	}
	time.Sleep(5 * time.Second)
	stage.server.forgetPeak()
	since.Store(time.Now().Add(time.Hour).UnixNano())
	spent = stage.server.cpu()
	before, _ := requests(stage)
	second := startHerd(at, clients, told)
	second.synced.Wait()
	herd := time.Since(second.began)
	spent = stage.server.cpu() - spent
	_, peak := stage.server.mib()
	after, _ := requests(stage)
	second.cancel()
	for _, client := range clients {
		client.CloseIdleConnections()
	}
	fmt.Printf("%s | %.0f | %d | %.0f | %d | %s | %s | %.1f/%.1f | %.1f | %.1f | %.1f | %d | %d | %d\n", name, share, mib, float64(asks-asked)/took, open, shareBetween, mibBetween, p50, p99,
		started.Seconds(), herd.Seconds(), spent, peak, after-before, told.failed.Load())
	for why, count := range told.why {
		fmt.Fprintf(os.Stderr, "%s: %d times %s\n", name, count, why)
	}
}
