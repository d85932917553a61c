package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net"
	"time"
)

// cert says what a certificate is to be; zero values are those of a usual one.
type cert struct {
	name       string // CN
	key        crypto.Signer
	by         *cert // itself when there is none
	signedWith crypto.Signer
	issuer     []byte // encoded, in place of that of by
	version    int    // 3 when 0
	serial     *big.Int
	from, to   time.Time
	algorithm  string
	ca         int // 1 TRUE, -1 FALSE, 2 TRUE and not critical
	pathLen    int // -1 none
	usage      byte
	usages     [][]int
	names      []asn1.RawValue
	extra      []pkix.Extension
	noKeyIDs   bool
	keyID      []byte // in place of the key's
	authority  []byte // in place of that of by
	subject    []byte // encoded
	broken     bool   // the signature is
	der        []byte
}

var now = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func ext(critical bool, value []byte, numbers ...int) pkix.Extension {
	return pkix.Extension{Id: numbers, Critical: critical, Value: value}
}

func seq(tag int, class int, parts ...[]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return must(asn1.Marshal(asn1.RawValue{Class: class, Tag: tag, IsCompound: true, Bytes: all}))
}

func named(kind int, value []byte) asn1.RawValue {
	return asn1.RawValue{Class: 2, Tag: kind, Bytes: value}
}
func dns(name string) asn1.RawValue  { return named(2, []byte(name)) }
func mail(name string) asn1.RawValue { return named(1, []byte(name)) }
func uri(name string) asn1.RawValue  { return named(6, []byte(name)) }
func ip(text string) asn1.RawValue {
	address := net.ParseIP(text)
	if short := address.To4(); short != nil {
		address = short
	}
	return named(7, address)
}
func network(text string) asn1.RawValue {
	_, of, err := net.ParseCIDR(text)
	if err != nil {
		panic(err)
	}
	return named(7, append(append([]byte{}, of.IP...), of.Mask...))
}

// subtrees is the extension of name constraints.
func subtrees(critical bool, permitted, excluded []asn1.RawValue) pkix.Extension {
	list := func(tag int, names []asn1.RawValue) []byte {
		if names == nil {
			return nil
		}
		var all []byte
		for _, name := range names {
			all = append(all, seq(16, 0, must(asn1.Marshal(name)))...)
		}
		return seq(tag, 2, all)
	}
	return ext(critical, seq(16, 0, list(0, permitted), list(1, excluded)), 2, 5, 29, 30)
}

func cn(text string) []byte {
	return must(asn1.Marshal(pkix.Name{CommonName: text}.ToRDNSequence()))
}

func (c *cert) subjectName() []byte {
	if c.subject != nil {
		return c.subject
	}
	return cn(c.name)
}

func keyID(key crypto.Signer) []byte {
	sum := sha1.Sum(must(x509.MarshalPKIXPublicKey(key.Public())))
	return sum[:]
}

func (c *cert) id() []byte {
	if c.keyID != nil {
		return c.keyID
	}
	return keyID(c.key)
}

func (c *cert) extensions(by *cert) []pkix.Extension {
	var all []pkix.Extension
	if c.version != 0 && c.version != 3 {
		return nil
	}
	if c.ca != 0 {
		var parts []byte
		if c.ca > 0 {
			parts = []byte{1, 1, 0xff}
		}
		if c.pathLen >= 0 {
			parts = append(parts, 2, 1, byte(c.pathLen))
		}
		all = append(all, ext(c.ca == 1, seq(16, 0, parts), 2, 5, 29, 19))
	}
	if c.usage != 0 {
		all = append(all, ext(true, []byte{3, 2, 0, c.usage}, 2, 5, 29, 15))
	}
	if c.usages != nil {
		var parts []byte
		for _, usage := range c.usages {
			parts = append(parts, must(asn1.Marshal(asn1.ObjectIdentifier(usage)))...)
		}
		all = append(all, ext(false, seq(16, 0, parts), 2, 5, 29, 37))
	}
	if c.names != nil {
		var parts []byte
		for _, name := range c.names {
			parts = append(parts, must(asn1.Marshal(name))...)
		}
		all = append(all, ext(false, seq(16, 0, parts), 2, 5, 29, 17))
	}
	if !c.noKeyIDs {
		all = append(all, ext(false, must(asn1.Marshal(c.id())), 2, 5, 29, 14))
		authority := c.authority
		if authority == nil && !by.noKeyIDs {
			authority = by.id()
		}
		if authority != nil {
			all = append(all, ext(false, seq(16, 0, must(asn1.Marshal(named(0, authority)))), 2, 5, 29, 35))
		}
	}
	return append(all, c.extra...)
}

type tbs struct {
	Version    int `asn1:"optional,explicit,default:0,tag:0"`
	Serial     *big.Int
	Algorithm  asn1.RawValue
	Issuer     asn1.RawValue
	Validity   struct{ From, To time.Time }
	Subject    asn1.RawValue
	Key        asn1.RawValue
	Extensions []pkix.Extension `asn1:"omitempty,optional,explicit,tag:3"`
}

func raw(der []byte) asn1.RawValue { return asn1.RawValue{FullBytes: der} }

// make encodes and signs it.
func (c *cert) make() *cert {
	by := c.by
	if by == nil {
		by = c
	}
	if c.serial == nil {
		c.serial = big.NewInt(int64(len(c.name)) + 17)
	}
	if c.from.IsZero() {
		c.from = now.AddDate(-1, 0, 0)
	}
	if c.to.IsZero() {
		c.to = now.AddDate(1, 0, 0)
	}
	with := c.signedWith
	if with == nil {
		with = by.key
	}
	algorithm, sign := signing(with, c.algorithm)
	version := c.version
	if version == 0 {
		version = 3
	}
	issuer := c.issuer
	if issuer == nil {
		issuer = by.subjectName()
	}
	body := tbs{Version: version - 1, Serial: c.serial, Algorithm: raw(algorithm), Issuer: raw(issuer), Subject: raw(c.subjectName()),
		Key: raw(must(x509.MarshalPKIXPublicKey(c.key.Public()))), Extensions: c.extensions(by)}
	body.Validity.From, body.Validity.To = c.from, c.to
	signed := must(asn1.Marshal(body))
	signature := sign(signed)
	if c.broken {
		signature[len(signature)-1] ^= 1
	}
	c.der = seq(16, 0, signed, algorithm, must(asn1.Marshal(asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)})))
	return c
}

// signing is an algorithm identifier, and what signs with it: the name of the hash, maybe with `pss-` before it.
func signing(key crypto.Signer, name string) ([]byte, func([]byte) []byte) {
	hashes := map[string]crypto.Hash{"": crypto.SHA256, "sha1": crypto.SHA1, "sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512,
		"pss-sha256": crypto.SHA256, "pss-sha384": crypto.SHA384, "pss-sha512": crypto.SHA512}
	hash := hashes[name]
	sum := func(signed []byte) []byte {
		h := hash.New()
		h.Write(signed)
		return h.Sum(nil)
	}
	of := func(null bool, numbers ...int) []byte {
		id := must(asn1.Marshal(asn1.ObjectIdentifier(numbers)))
		if null {
			return seq(16, 0, id, []byte{5, 0})
		}
		return seq(16, 0, id)
	}
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return of(false, 1, 3, 101, 112), func(signed []byte) []byte { return ed25519.Sign(key, signed) }
	case *ecdsa.PrivateKey:
		id := map[crypto.Hash][]byte{crypto.SHA1: of(false, 1, 2, 840, 10045, 4, 1), crypto.SHA256: of(false, 1, 2, 840, 10045, 4, 3, 2), crypto.SHA384: of(false, 1, 2, 840, 10045, 4, 3, 3), crypto.SHA512: of(false, 1, 2, 840, 10045, 4, 3, 4)}[hash]
		return id, func(signed []byte) []byte { return must(ecdsa.SignASN1(rand.Reader, key, sum(signed))) }
	case *rsa.PrivateKey:
		if len(name) > 4 && name[:4] == "pss-" {
			number := map[crypto.Hash]int{crypto.SHA256: 1, crypto.SHA384: 2, crypto.SHA512: 3}[hash]
			digest := of(true, 2, 16, 840, 1, 101, 3, 4, 2, number)
			mask := seq(16, 0, must(asn1.Marshal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 8})), digest)
			parameters := seq(16, 0, seq(0, 2, digest), seq(1, 2, mask), seq(2, 2, []byte{2, 1, byte(hash.Size())}))
			id := seq(16, 0, must(asn1.Marshal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10})), parameters)
			return id, func(signed []byte) []byte {
				return must(rsa.SignPSS(rand.Reader, key, hash, sum(signed), &rsa.PSSOptions{SaltLength: hash.Size(), Hash: hash}))
			}
		}
		id := of(true, 1, 2, 840, 113549, 1, 1, map[crypto.Hash]int{crypto.SHA1: 5, crypto.SHA256: 11, crypto.SHA384: 12, crypto.SHA512: 13}[hash])
		return id, func(signed []byte) []byte { return must(rsa.SignPKCS1v15(rand.Reader, key, hash, sum(signed))) }
	}
	panic("no such key")
}

func p256() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }
func p224() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader)) }
func p384() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)) }
func p521() crypto.Signer { return must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader)) }
func rsaOf(bits int) func() crypto.Signer {
	return func() crypto.Signer { return must(rsa.GenerateKey(rand.Reader, bits)) }
}
func edwards() crypto.Signer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return must(key, err)
}
