package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	definitionGroups = 250
	// Rounds of definitions that come and go, and definitions of each.
	churnRounds, churnEach = 4, 50
	// Definitions that are made one after the other, each of which is waited for.
	newOnes = 10
	// Resources that are asked for, so that they are followed.
	followedOnes = 100
)

// runDefinitions has a watchcache follow a kube-apiserver with thousands of definitions.
func runDefinitions(stage *stage) {
	client := newClient()
	fmt.Printf("%d definitions of %d bytes in %d groups\n", *definitions, len(definition("things-0", "g-0.example.com", true)), definitionGroups)
	began := time.Now()
	must(until(20*time.Minute, func() bool { return discovered(client, stage.api) >= *definitions }))
	settle(stage.server)
	now, peak := stage.server.mib()
	fmt.Printf("kube-apiserver: discovery whole after %.1f s, CPU %.1f s until it rests, %d MiB, peak %d\n", time.Since(began).Seconds(), stage.server.cpu(), now, peak)

	spent, began := stage.server.cpu(), time.Now()
	ours := stage.startWatchcache("fed", 8, stage.api)
	ready := time.Since(began)
	must(until(5*time.Minute, func() bool { return discovered(client, ours.address) >= *definitions }))
	whole := time.Since(began)
	settle(ours)
	last := *definitions - 1
	must(until(time.Minute, func() bool { return listed200(client, ours.address, group(last), plural(last)) }))
	now, peak = ours.mib()
	fmt.Printf("watchcache: ready after %.2f s, discovery whole after %.2f s, CPU %.2f s until it rests, %d MiB, peak %d; kube-apiserver's CPU meanwhile %.1f s\n",
		ready.Seconds(), whole.Seconds(), ours.cpu(), now, peak, stage.server.cpu()-spent)

	asked, _ := requests(stage)
	spent, own, began := stage.server.cpu(), ours.cpu(), time.Now()
	time.Sleep(time.Duration(*seconds) * time.Second)
	took := time.Since(began).Seconds()
	ourShare, theirs := (ours.cpu()-own)/took*100, (stage.server.cpu()-spent)/took*100
	after, open := requests(stage)
	now, _ = ours.mib()
	fmt.Printf("at rest for %.0f s: watchcache %.2f %% of a core, %d MiB; kube-apiserver %.1f %%, %.1f requests/s, %d watches\n", took, ourShare, now, theirs, float64(after-asked)/took, open)

	var here, there []time.Duration
	for nth := range newOnes {
		name, at := fmt.Sprintf("new-%d", nth), "g-new.example.com"
		began := time.Now()
		mustCreate(client, stage.api, name, at)
		shown := make(chan time.Duration, 1)
		go func() {
			other := newClient()
			if until(2*time.Minute, func() bool { return listed200(other, stage.api, at, name) }) == nil {
				shown <- time.Since(began)
			}
			close(shown)
		}()
		must(until(2*time.Minute, func() bool { return listed200(client, ours.address, at, name) }))
		here = append(here, time.Since(began))
		there = append(there, <-shown)
	}
	fmt.Printf("a new definition is served after: watchcache %s, kube-apiserver %s (median, longest of %d)\n", medianAndLongest(here), medianAndLongest(there), newOnes)

	for nth := range followedOnes {
		at := nth * (*definitions / followedOnes)
		must(until(time.Minute, func() bool { return listed200(client, ours.address, group(at), plural(at)) }))
	}
	time.Sleep(5 * time.Second)
	now, _ = ours.mib()
	_, open = requests(stage)
	fmt.Printf("%d of the resources asked for: watchcache %d MiB, kube-apiserver has %d watches open\n", followedOnes, now, open)

	for round := range churnRounds {
		own, spent := ours.cpu(), stage.server.cpu()
		for nth := range churnEach {
			mustCreate(client, stage.api, fmt.Sprintf("come-%d", nth), "g-come.example.com")
		}
		must(until(5*time.Minute, func() bool {
			return listed200(client, ours.address, "g-come.example.com", fmt.Sprintf("come-%d", churnEach-1))
		}))
		for nth := range churnEach {
			path := fmt.Sprintf("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/come-%d.g-come.example.com", nth)
			_, _, err := do(client, request(background, "DELETE", stage.api, path, "", nil))
			must(err)
		}
		must(until(5*time.Minute, func() bool {
			return !listed200(client, ours.address, "g-come.example.com", fmt.Sprintf("come-%d", churnEach-1))
		}))
		settle(ours)
		now, peak := ours.mib()
		mib, _ := stage.server.mib()
		fmt.Printf("round %d of %d definitions that come and go: watchcache %d MiB, peak %d, CPU %.2f s; kube-apiserver %d MiB, CPU %.1f s\n",
			round+1, churnEach, now, peak, ours.cpu()-own, mib, stage.server.cpu()-spent)
	}
}

func group(nth int) string  { return fmt.Sprintf("g-%d.example.com", nth%definitionGroups) }
func plural(nth int) string { return fmt.Sprintf("things-%d", nth) }

// definition is one as it is sent, or as it is stored once it is established.
func definition(plural, group string, stored bool) string {
	kind := strings.ToUpper(plural[:1]) + strings.ReplaceAll(plural[1:], "-", "")
	property := func(nth int) string {
		return fmt.Sprintf(`"property%02d":{"type":"string","description":%q,"maxLength":253}`, nth, strings.Repeat("what it is for ", 8))
	}
	properties := make([]string, 22)
	for nth := range properties {
		properties[nth] = property(nth)
	}
	names := fmt.Sprintf(`{"plural":%q,"singular":%q,"kind":%q,"listKind":%q}`, plural, strings.ToLower(kind), kind, kind+"List")
	schema := fmt.Sprintf(`{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%s}}}}}`, strings.Join(properties, ","))
	metadata, status, conversion := fmt.Sprintf(`"name":"%s.%s"`, plural, group), "", ""
	if stored {
		metadata += fmt.Sprintf(`,"uid":"00000000-0000-4000-8000-%012s","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z"`, strings.TrimPrefix(plural, "things-"))
		condition := func(kind, reason string) string {
			return fmt.Sprintf(`{"type":%q,"status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":%q,"message":"as it should"}`, kind, reason)
		}
		status = fmt.Sprintf(`,"status":{"conditions":[%s,%s],"acceptedNames":%s,"storedVersions":["v1"]}`, condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted"), names)
		conversion = `,"conversion":{"strategy":"None"}`
	}
	return fmt.Sprintf(`{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{%s},"spec":{"group":%q,"names":%s,"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":%s}]%s}%s}`,
		metadata, group, names, schema, conversion, status)
}

// seedDefinitions puts them into etcd itself, established, before there is a kube-apiserver: that one takes long for so many one by one.
func seedDefinitions() {
	seed(*definitions, func(nth int) (string, string) {
		name := plural(nth) + "." + group(nth)
		return "/registry/apiextensions.k8s.io/customresourcedefinitions/" + name, definition(plural(nth), group(nth), true)
	})
}

func mustCreate(client *http.Client, at, plural, group string) {
	status, said, err := do(client, request(background, "POST", at, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", []byte(definition(plural, group, false))))
	must(err)
	if status != 201 {
		panic(fmt.Sprint(status, " ", string(said)))
	}
}

// discovered is how many resources of ours a server's discovery has.
func discovered(client *http.Client, at string) int {
	asking := request(background, "GET", at, "/apis", "", nil)
	asking.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	status, body, err := do(client, asking)
	var found struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct{ Resources []struct{ Resource string } }
		}
	}
	if err != nil || status != 200 || json.Unmarshal(body, &found) != nil {
		return 0
	}
	count := 0
	for _, group := range found.Items {
		for _, version := range group.Versions {
			if strings.HasPrefix(group.Metadata.Name, "g-") {
				count += len(version.Resources)
			}
		}
	}
	return count
}

func listed200(client *http.Client, at, group, plural string) bool {
	status, _, err := get(background, client, at, fmt.Sprintf("/apis/%s/v1/%s?resourceVersion=0", group, plural))
	return err == nil && status == 200
}

func until(most time.Duration, condition func() bool) error {
	for end := time.Now().Add(most); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %w", most, context.DeadlineExceeded)
		}
	}
	return nil
}

// settle waits until a process takes less than a tenth of a core, for two minutes at most.
func settle(process *process) {
	_ = until(2*time.Minute, func() bool {
		before := process.cpu()
		time.Sleep(3 * time.Second)
		return process.cpu()-before < 0.3
	})
}

func medianAndLongest(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%.2f, %.2f s", all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
}
