package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Watches of each kind one after the other, and how many come at once.
const alone, crowd = 60, 50

// runInitial compares how a watch with initial events and without a revision may be answered: from memory that is proven, or by upstream's own stream up to its annotated bookmark.
func runInitial(stage *stage) {
	seedConfigMaps()
	path := "/api/v1/namespaces/default/configmaps?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=300"
	proves := stage.startWatchcache("proves", 8, stage.api, "--resources=configmaps")
	splices := stage.startWatchcache("splices", 9, stage.api, "--exclude-resources=configmaps")
	fmt.Printf("%d ConfigMaps of 1.5 kB; busy: %d writes/s of them; others busy: of the namespace instead\n", *objects, *rate)
	fmt.Println("the resource | watches | answered by | p50 ms | p99 ms | kube-apiserver: CPU ms each | requests each | ours: CPU ms each")
	fmt.Println("---|---|---|---|---|---|---|---")
	for _, what := range []string{"idle", "idle, others busy", "busy"} {
		ctx, stop := context.WithCancel(context.Background())
		switch what {
		case "idle, others busy":
			go write(ctx, stage.api, func(int) string { return "/api/v1/namespaces/default" })
		case "busy":
			go write(ctx, stage.api, func(nth int) string {
				return fmt.Sprintf("/api/v1/namespaces/default/configmaps/map-%06d", nth%*objects)
			})
		}
		time.Sleep(3 * time.Second)
		began, spent := time.Now(), stage.server.cpu()
		time.Sleep(10 * time.Second)
		resting := (stage.server.cpu() - spent) / time.Since(began).Seconds()
		for _, together := range []int{1, crowd} {
			for round := range *rounds {
				ways := []*process{nil, proves, splices}
				for nth := range ways {
					way := ways[(nth+round)%len(ways)]
					measureInitial(stage, what, path, together, way, resting)
				}
			}
		}
		stop()
		time.Sleep(2 * time.Second)
	}
}

func measureInitial(stage *stage, what, path string, together int, way *process, resting float64) {
	name, at := "kube-apiserver itself", stage.api
	if way != nil {
		name, at = way.name, way.address
	}
	clients := make([]*http.Client, together)
	for nth := range clients {
		clients[nth] = newClient()
		_, _, err := get(background, clients[nth], at, "/readyz")
		must(err)
	}
	asked, _ := requests(stage)
	began, spent, own := time.Now(), stage.server.cpu(), 0.0
	if way != nil {
		own = way.cpu()
	}
	var all []time.Duration
	for range max(alone/together, 3) {
		var one sync.WaitGroup
		times := make([]time.Duration, together)
		for nth, client := range clients {
			one.Go(func() { times[nth] = untilBookmark(client, at, path) })
		}
		one.Wait()
		all = append(all, times...)
		time.Sleep(100 * time.Millisecond)
	}
	cpu := stage.server.cpu() - spent - resting*time.Since(began).Seconds()
	after, _ := requests(stage)
	ours := "–"
	count := float64(len(all))
	if way != nil {
		ours = fmt.Sprintf("%.2f", (way.cpu()-own)*1000/count)
	}
	slices.Sort(all)
	ms := func(percent int) string {
		return strconv.FormatFloat(float64(all[(len(all)-1)*percent/100].Microseconds())/1000, 'f', 1, 64)
	}
	shown := "one by one"
	if together > 1 {
		shown = fmt.Sprintf("%d at once", together)
	}
	// Requests for metrics and readiness are not theirs.
	fmt.Println(strings.Join([]string{what, shown, name, ms(50), ms(99), fmt.Sprintf("%.2f", max(cpu, 0)*1000/count), fmt.Sprintf("%.2f", float64(after-asked-1)/count), ours}, " | "))
}

// untilBookmark opens a watch, and returns how long it took until the bookmark after its initial events.
func untilBookmark(client *http.Client, at, path string) time.Duration {
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	began := time.Now()
	answer, err := client.Do(request(ctx, "GET", at, path, "", nil))
	must(err)
	defer answer.Body.Close()
	if answer.StatusCode != 200 {
		panic(answer.Status)
	}
	end, buffer, kept := []byte("k8s.io/initial-events-end"), make([]byte, 64<<10), 0
	for {
		n, err := answer.Body.Read(buffer[kept:])
		if bytes.Contains(buffer[:kept+n], end) {
			return time.Since(began)
		}
		if err != nil {
			panic(fmt.Sprint("the watch ended: ", err, " ", io.EOF))
		}
		// The mark may be cut in two.
		kept = copy(buffer, buffer[max(0, kept+n-len(end)):kept+n])
	}
}
