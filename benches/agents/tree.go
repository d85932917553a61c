package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Watches on one connection: as many streams as a server lets a client have, about.
const perConnection = 100

// runTree has one watchcache follow the kube-apiserver, leaves follow it, and watches at the leaves; the second leaf is killed in the middle, and then the one that all follow.
func runTree(stage *stage) {
	fmt.Printf("%d watches of %d namespaces at %d leaves, %d writes/s for %d s\n", *watches, *groups, *leaves, *rate, *seconds)
	create(stage, *groups, func(nth int) (string, string) {
		return "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"tree-%d"}}`, nth)
	})
	create(stage, *groups*10, func(nth int) (string, string) {
		return fmt.Sprintf("/api/v1/namespaces/tree-%d/configmaps", nth%*groups), fmt.Sprintf(`{"metadata":{"name":"map-%d"},"data":{"a":"b"}}`, nth / *groups)
	})
	root := stage.startWatchcache("root", 4, stage.api, "--resources=configmaps")
	all := make([]*process, *leaves)
	for nth := range all {
		all[nth] = stage.startWatchcache(fmt.Sprintf("leaf-%d", nth), 5+nth, root.address, "--resources=configmaps")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	told, began := &delays{}, time.Now()
	var synced sync.WaitGroup
	var connections []*http.Client
	opening := make(chan struct{}, 64)
	seen := &lastSeen{told: told}
	for nth := range *watches {
		leaf := nth % *leaves
		if nth / *leaves % perConnection == 0 && nth%*leaves == 0 {
			for leaf := range *leaves {
				client := newClient()
				_, _, err := get(ctx, client, all[leaf].address, "/readyz")
				must(err)
				connections = append(connections, client)
			}
		}
		client := connections[len(connections)-*leaves+leaf]
		opening <- struct{}{}
		synced.Add(1)
		path := fmt.Sprintf("/api/v1/namespaces/tree-%d/configmaps", nth%*groups)
		go follow(ctx, client, all[leaf].address, path, "", told, func() { synced.Done(); <-opening })
	}
	synced.Wait()
	opened := time.Since(began)
	time.Sleep(5 * time.Second)
	failedBefore := told.failed.Load()

	writing, stop := context.WithCancel(context.Background())
	since.Store(time.Now().UnixNano())
	go write(writing, stage.api, func(nth int) string {
		seen.writes.Add(1)
		return fmt.Sprintf("/api/v1/namespaces/tree-%d/configmaps/map-%d", nth%*groups, nth / *groups % 10)
	})
	costs := func() []float64 {
		spent := []float64{stage.server.cpu(), root.cpu()}
		for _, leaf := range all {
			spent = append(spent, leaf.cpu())
		}
		return spent
	}
	start, before := time.Now(), costs()
	time.Sleep(time.Duration(*seconds) * time.Second)
	took, after := time.Since(start).Seconds(), costs()
	stop()
	time.Sleep(2 * time.Second)
	p50, p99 := told.percentiles()
	wanted := seen.writes.Load() * int64(*watches / *groups)
	fmt.Printf("opened in %.1f s; %d events of %d wanted (%.0f/s), p50 %.1f ms, p99 %.1f ms, %d failed requests\n", opened.Seconds(), told.events.Load(), wanted,
		float64(told.events.Load())/took, p50, p99, told.failed.Load()-failedBefore)
	fmt.Println("tier | CPU % | MiB")
	fmt.Println("---|---|---")
	for nth, process := range append([]*process{stage.server, root}, all...) {
		mib, _ := process.mib()
		fmt.Printf("%s | %.1f | %d\n", process.name, (after[nth]-before[nth])/took*100, mib)
	}

	for _, victim := range []*process{all[1], root} {
		breakOne(stage, victim, told, seen)
	}
}

// lastSeen counts writes.
type lastSeen struct {
	told   *delays
	writes atomic.Int64
}

// breakOne kills a server under writes, starts it again after two seconds, and tells whether a write after that reaches every watch.
func breakOne(stage *stage, victim *process, told *delays, seen *lastSeen) {
	writing, stop := context.WithCancel(context.Background())
	target := func(nth int) string {
		return fmt.Sprintf("/api/v1/namespaces/tree-%d/configmaps/map-%d", nth%*groups, nth / *groups % 10)
	}
	go write(writing, stage.api, target)
	time.Sleep(2 * time.Second)
	failed := told.failed.Load()
	victim.stop()
	killed := time.Now()
	time.Sleep(2 * time.Second)
	*victim = *victim.again()
	time.Sleep(3 * time.Second)
	stop()
	// One write in each namespace must reach every watch, as soon as its client has come back.
	client := newClient()
	for ; ; time.Sleep(time.Second) {
		since.Store(time.Now().UnixNano())
		told.events.Store(0)
		for nth := range *groups {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"sent":"%d"}}}`, time.Now().UnixNano())
			_, _, _ = do(client, request(context.Background(), "PATCH", stage.api, target(nth), "application/merge-patch+json", []byte(patch)))
		}
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && told.events.Load() < int64(*watches); time.Sleep(10 * time.Millisecond) {
		}
		if told.events.Load() >= int64(*watches) || time.Since(killed) > 3*time.Minute {
			break
		}
	}
	fmt.Printf("%s killed, away for 2 s: %d of %d watches tell of a write %.0f s after; %d failed requests of clients\n", victim.name, told.events.Load(), *watches, time.Since(killed).Seconds(),
		told.failed.Load()-failed)
}
