// requests compares how two API servers read certificate requests.
//
//	tests/differential/requests.sh PEERS target/debug/watchcache --count 5000 --seed 1
//	go -C tests/differential/requests run . --count 240 --seed 7 --write $PWD/tests/data/certificates/requests.jsonl
//
// It makes random requests: texts of every type, several PEM blocks, headers, trailing bytes, attributes twice, odd lengths, sets of several attributes, and
// requests that are nearly right. Each is sent as a dry run to both servers: for the signer of clients (nobody may ask for system:masters), for the signer of
// kubelets as system:node:n1 (which may only ask in its own name), and for a signer of somebody else. Codes must be equal, and messages but for positions
// in memory. With --write each request is written with what Go reads in it, for the test of src/x509.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"regexp"
	"sync"
)

// What Go reads in a request.
type reading struct {
	Request       string   `json:"request"`
	Error         string   `json:"error,omitempty"`
	Signature     string   `json:"signature,omitempty"`
	CommonName    string   `json:"commonName,omitempty"`
	Organizations []string `json:"organizations,omitempty"`
}

func read(text string) reading {
	found := reading{Request: base64.StdEncoding.EncodeToString([]byte(text))}
	request, err := parse(text)
	if err != nil {
		found.Error = err.Error()
		return found
	}
	if err := request.CheckSignature(); err != nil {
		found.Signature = err.Error()
	}
	found.CommonName, found.Organizations = request.Subject.CommonName, request.Subject.Organization
	return found
}

func parse(text string) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != label {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// An answer without the object.
type answer struct {
	Code    int
	Message string
}

var client = http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 8}}

// Go prints where a parameter is in memory; ours prints its value. The text about a time that cannot be read is not compared.
var inMemory = []*regexp.Regexp{regexp.MustCompile(`tag:(0x[0-9a-f]+|0)`), regexp.MustCompile(`(parsing time|asn1: time did not serialize) .*`)}

func ask(url, token, signer, node string, found reading) (answer, error) {
	spec := map[string]any{"request": found.Request, "signerName": signer, "usages": []string{"client auth"}}
	object := map[string]any{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"name": "x"}, "spec": spec}
	body, _ := json.Marshal(object)
	request, err := http.NewRequest("POST", url+"/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
	if node != "" {
		request.Header.Set("Impersonate-User", "system:node:"+node)
		request.Header.Set("Impersonate-Group", "system:nodes")
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	var status struct{ Message string }
	if err := json.Unmarshal(text, &status); err != nil {
		return answer{}, fmt.Errorf("%s: %w", text, err)
	}
	for _, odd := range inMemory {
		status.Message = odd.ReplaceAllString(status.Message, "…")
	}
	return answer{response.StatusCode, status.Message}, nil
}

var asked = []struct{ signer, node string }{
	{"kubernetes.io/kube-apiserver-client", ""},
	{"kubernetes.io/kube-apiserver-client-kubelet", "n1"},
	{"example.com/signer", ""},
}

func main() {
	count, seed := flag.Int("count", 5000, "requests"), flag.Int64("seed", 1, "what is made")
	ours, theirs := flag.String("ours", "", "URL of watchcache"), flag.String("theirs", "", "URL of kube-apiserver")
	token, write := flag.String("token", "admintoken", "bearer token of an administrator"), flag.String("write", "", "file that gets what Go reads")
	// What run.sh gives to every program.
	flag.String("ca", "", "authority of both servers; not looked at")
	flag.String("known", "", "differences that are known; not looked at")
	flag.Parse()
	g := &generator{Rand: rand.New(rand.NewSource(*seed)), signers: signers()}
	var all []reading
	for len(all) < *count {
		g.calm = len(all)%3 == 0
		all = append(all, read(g.pem()))
	}
	if *write != "" {
		var lines bytes.Buffer
		for _, found := range all {
			line, _ := json.Marshal(found)
			lines.Write(append(line, '\n'))
		}
		if err := os.WriteFile(*write, lines.Bytes(), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	if compare(all, *ours, *theirs, *token) > 0 {
		os.Exit(1)
	}
}

// compare returns in how many answers the two servers differ.
func compare(all []reading, ours, theirs, token string) int {
	var lock sync.Mutex
	codes, texts, differ := map[int]int{}, map[string]bool{}, 0
	work, done := make(chan reading), sync.WaitGroup{}
	for range 8 {
		done.Go(func() {
			for found := range work {
				for _, as := range asked {
					a, err := ask(ours, token, as.signer, as.node, found)
					b, other := ask(theirs, token, as.signer, as.node, found)
					lock.Lock()
					codes[b.Code]++
					texts[b.Message] = true
					if err = errors.Join(err, other); err != nil || a != b {
						differ++
						if differ <= 20 {
							fmt.Printf("%s as %q: %v\n  %s\n  ours   %d %.600s\n  theirs %d %.600s\n", as.signer, as.node, err, found.Request, a.Code, a.Message, b.Code, b.Message)
						}
					}
					lock.Unlock()
				}
			}
		})
	}
	for _, found := range all {
		work <- found
	}
	close(work)
	done.Wait()
	fmt.Printf("%d requests, %d answers by their codes %v, %d texts; %d differ\n", len(all), len(all)*len(asked), codes, len(texts), differ)
	return differ
}
