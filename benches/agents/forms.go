package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// runForms compares what a watchcache takes to load many Pods and to follow their writes as protobuf, and as JSON, in turns. Both ways lead through a reverse proxy, which asks for JSON in the second.
func runForms(stage *stage) {
	// As long as a Pod that a Deployment has made, with the fields of its manager and the status that a kubelet writes.
	seed(*objects, func(nth int) (string, string) {
		return fmt.Sprintf("/registry/pods/default/pod-%06d", nth), pod(nth)
	})
	fmt.Printf("%d Pods of %d bytes of JSON; then %d writes/s for %d s\n", *objects, len(pod(0)), *rate, *seconds)
	fmt.Println("form | ready after s | loading: CPU s | kube-apiserver's CPU s | MiB, peak | following: CPU ms a write | kube-apiserver's CPU ms a write | MiB")
	fmt.Println("---|---|---|---|---|---|---|---")
	client := newClient()
	_, _, err := do(client, request(background, "GET", stage.api, "/api/v1/pods?limit=1&resourceVersion=0", "", nil))
	must(err)
	settle(stage.server)
	for range *rounds {
		for nth, form := range []string{"protobuf", "JSON"} {
			proxy := stage.startProxy("proxy-"+form, 5+nth, form == "JSON")
			spent, began := stage.server.cpu(), time.Now()
			ours := stage.startWatchcache("fed", 8, proxy.address, "--resources=pods")
			took, loading, theirs := time.Since(began).Seconds(), ours.cpu(), stage.server.cpu()-spent
			_, peak := ours.mib()
			settle(ours)
			own, spent := ours.cpu(), stage.server.cpu()
			ctx, stop := context.WithCancel(context.Background())
			go write(ctx, stage.api, func(nth int) string { return fmt.Sprintf("/api/v1/namespaces/default/pods/pod-%06d", nth%*objects) })
			time.Sleep(time.Duration(*seconds) * time.Second)
			stop()
			writes := float64(*rate * *seconds)
			own, spent = ours.cpu()-own, stage.server.cpu()-spent
			mib, _ := ours.mib()
			fmt.Printf("%s | %.1f | %.2f | %.1f | %d | %.2f | %.2f | %d\n", form, took, loading, theirs, peak, own*1000/writes, spent*1000/writes, mib)
			ours.stop()
			proxy.stop()
			time.Sleep(2 * time.Second)
		}
	}
}

func pod(nth int) string {
	env := make([]string, 12)
	for at := range env {
		env[at] = fmt.Sprintf(`{"name":"VARIABLE_%d","value":"value-%d-of-%d"}`, at, at, nth)
	}
	fields := `{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:env":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{},"f:resources":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`
	condition := func(kind string) string {
		return fmt.Sprintf(`{"type":%q,"status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}`, kind)
	}
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"pod-%06d","namespace":"default","uid":"00000000-0000-4000-8000-%012d","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"a-%d","pod-template-hash":"5d4f8c7b9"},"annotations":{"checksum/config":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"a-%d-5d4f8c7b9","uid":"11111111-0000-4000-8000-%012d","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":%s}]},"spec":{"volumes":[{"name":"token","emptyDir":{}}],"containers":[{"name":"c","image":"registry.invalid/team/image:1.2.3","args":["--verbose","--port=8080"],"ports":[{"containerPort":8080,"protocol":"TCP"}],"env":[%s],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"token","readOnly":true,"mountPath":"/var/run/secrets/token"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-%d","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running","conditions":[%s],"hostIP":"10.0.0.1","podIP":"10.1.0.1","podIPs":[{"ip":"10.1.0.1"}],"startTime":"2026-01-01T00:00:00Z","containerStatuses":[{"name":"c","state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"registry.invalid/team/image:1.2.3","imageID":"registry.invalid/team/image@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","containerID":"containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","started":true}],"qosClass":"Burstable"}}`,
		nth, nth, nth%500, nth%500, nth%500, fields, strings.Join(env, ","), nth%1000, strings.Join([]string{condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")}, ","))
}
