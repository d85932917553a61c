// agents measures what a kube-apiserver is spared by a server that it feeds: a cluster's node agents, a dashboard and a collector of metrics, at the kube-apiserver itself, through a plain
// reverse proxy, and through watchcache; a tree of watchcaches with many watches; how a watchcache starts with many objects that etcd or the kube-apiserver feeds; what it takes to follow
// thousands of definitions; two ways to answer a watch with initial events; and what it takes to load and follow many Pods as protobuf and as JSON.
//
//	go build -o agents . && ./agents --etcd PATH --kube-apiserver PATH --watchcache PATH [--mode agents|tree|start|definitions|initial|forms] [--through direct,proxy,haproxy,watchcache]
//
// It starts everything itself, on loopback, and prints a table. Event times are from when a write was sent until a watch had it.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

var (
	mode        = flag.String("mode", "agents", "agents, tree, start, definitions, initial, forms, or proxy (what this program starts itself as)")
	etcd        = flag.String("etcd", "etcd", "program of etcd")
	apiserver   = flag.String("kube-apiserver", "kube-apiserver", "program of the kube-apiserver")
	watchcache  = flag.String("watchcache", "watchcache", "program of watchcache")
	haproxy     = flag.String("haproxy", "haproxy", "program of HAProxy")
	through     = flag.String("through", "direct,proxy,watchcache", "what the agents are pointed at, one after the other: direct, proxy (Go's ReverseProxy), haproxy, watchcache")
	base        = flag.Int("base-port", 24000, "first of 20 ports")
	keep        = flag.String("keep", "", "folder for data and logs; a temporary one otherwise")
	nodes       = flag.Int("nodes", 1000, "agents: nodes, each with an agent")
	podsEach    = flag.Int("pods", 10, "agents: Pods of a node")
	services    = flag.Int("services", 200, "agents: Services, and as many EndpointSlices")
	seconds     = flag.Int("seconds", 60, "of writes")
	rate        = flag.Int("rate", 20, "writes a second")
	every       = flag.Int("list-every", 60, "agents: seconds between two LISTs of an agent")
	watches     = flag.Int("watches", 30000, "tree: watches of all leaves")
	leaves      = flag.Int("leaves", 4, "tree: watchcaches that follow the one that follows the kube-apiserver")
	groups      = flag.Int("namespaces", 300, "tree: namespaces, among which objects and watches are divided")
	objects     = flag.Int("objects", 100000, "start, initial: ConfigMaps; forms: Pods")
	rounds      = flag.Int("rounds", 2, "start, initial, forms: rounds")
	definitions = flag.Int("definitions", 5000, "definitions: how many")
	onlyJSON    = flag.Bool("json", false, "proxy: ask for JSON where protobuf is asked for")
	backend     = flag.String("backend", "", "proxy: where it passes requests to")
)

func main() {
	flag.Parse()
	if *mode == "proxy" {
		must(serveProxy(*base, *backend))
		return
	}
	stage := newStage()
	defer stage.end()
	stage.startEtcd()
	if *mode == "definitions" {
		seedDefinitions()
	}
	stage.startAPIServer()
	switch *mode {
	case "agents":
		runAgents(stage)
	case "tree":
		runTree(stage)
	case "start":
		runStart(stage)
	case "definitions":
		runDefinitions(stage)
	case "initial":
		runInitial(stage)
	case "forms":
		runForms(stage)
	default:
		fmt.Fprintln(os.Stderr, "no such mode:", *mode)
	}
}

func runAgents(stage *stage) {
	seedCluster(stage)
	fmt.Printf("%d agents, %d Pods, %d Services and EndpointSlices; %d writes/s for %d s; a LIST of each agent every %d s\n", *nodes, *nodes**podsEach, *services, *rate, *seconds, *every)
	fmt.Println("through | kube-apiserver: CPU % | MiB | requests/s | watches | the server between: CPU % | MiB | event p50/p99 ms | start: synced s | herd: synced s | kube-apiserver's CPU s | its peak MiB | requests | failed")
	fmt.Println("---|---|---|---|---|---|---|---|---|---|---|---|---|---")
	for nth, name := range strings.Split(*through, ",") {
		if nth > 0 {
			// What the one before has left in its memory is nobody else's.
			stage.server.stop()
			stage.server = stage.server.again()
			stage.ready(stage.api, stage.server)
			time.Sleep(5 * time.Second)
		}
		between := stage.startBetween(name)
		address := stage.api
		if between != nil {
			address = between.address
		}
		measureAgents(stage, name, address, between)
		if between != nil {
			between.stop()
		}
		time.Sleep(3 * time.Second)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func address(nth int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(*base+nth)) }
