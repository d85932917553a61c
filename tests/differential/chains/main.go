// chains makes chains of certificates of every kind, and tells for each whether Go trusts it: as a client that crypto/tls connects to a server, and as
// kube-apiserver asks about a client's certificate.
//
//	go -C tests/differential/chains run . > tests/data/certificates/chains.json
//
// The test `chains_are_judged_as_go_judges_them` of src/x509 compares. Keys are made anew each time, so all of the file changes.
package main

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"
)

type verdict struct {
	Name   string `json:"name"`
	Host   string `json:"host"`
	Roots  []int  `json:"roots"`
	Chain  []int  `json:"chain"`
	Server string `json:"server,omitempty"`
	Client string `json:"client,omitempty"`
}

func main() {
	numbers := map[string]int{}
	var file struct {
		At           int64     `json:"at"`
		Certificates []string  `json:"certificates"`
		Cases        []verdict `json:"cases"`
	}
	file.At = now.Unix()
	number := func(all []*cert) []int {
		found := []int{}
		for _, c := range all {
			text := base64.StdEncoding.EncodeToString(c.der)
			at, known := numbers[text]
			if !known {
				at = len(file.Certificates)
				numbers[text] = at
				file.Certificates = append(file.Certificates, text)
			}
			found = append(found, at)
		}
		return found
	}
	for _, shown := range chains() {
		file.Cases = append(file.Cases, verdict{shown.name, shown.host, number(shown.roots), number(shown.chain), text(asServer(shown)), text(asClient(shown))})
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "")
	if err := encoder.Encode(file); err != nil {
		panic(err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	var wrong *tls.CertificateVerificationError
	if errors.As(err, &wrong) {
		return wrong.Err.Error()
	}
	return err.Error()
}

// pool has the roots that can be read, as a pool that is made of PEM has.
func pool(all []*cert) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range all {
		if read, err := x509.ParseCertificate(c.der); err == nil {
			pool.AddCert(read)
		}
	}
	return pool
}

// asServer is what a client says of a server that shows the chain.
func asServer(of shown) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	certificate := tls.Certificate{PrivateKey: of.chain[0].key.(crypto.Signer)}
	for _, c := range of.chain {
		certificate.Certificate = append(certificate.Certificate, c.der)
	}
	go func() {
		if theirs, err := listener.Accept(); err == nil {
			defer theirs.Close()
			_ = theirs.SetDeadline(time.Now().Add(10 * time.Second))
			_ = tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
			_, _ = theirs.Read(make([]byte, 1))
		}
	}()
	ours, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	defer ours.Close()
	_ = ours.SetDeadline(time.Now().Add(10 * time.Second))
	client := tls.Client(ours, &tls.Config{RootCAs: pool(of.roots), ServerName: of.host, Time: func() time.Time { return now }})
	return client.Handshake()
}

// asClient is what kube-apiserver says of a client that shows the chain.
func asClient(of shown) error {
	var all []*x509.Certificate
	for _, c := range of.chain {
		read, err := x509.ParseCertificate(c.der)
		if err != nil {
			return err
		}
		all = append(all, read)
	}
	between := x509.NewCertPool()
	for _, c := range all[1:] {
		between.AddCert(c)
	}
	_, err := all[0].Verify(x509.VerifyOptions{Roots: pool(of.roots), Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err
}
