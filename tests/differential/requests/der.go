package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	mathrand "math/rand"
	"unicode/utf16"
)

// tlv encodes an element; now and then with a length that is not the shortest, indefinite or wrong.
func (g *generator) tlv(tag byte, contents ...[]byte) []byte {
	var all []byte
	for _, part := range contents {
		all = append(all, part...)
	}
	length := len(all)
	if g.odd(400) {
		length += g.Intn(5) - 2
	}
	var head []byte
	switch {
	case g.odd(500):
		head = []byte{tag, 0x80}
	case g.odd(400) && length >= 0:
		head = []byte{tag, 0x82, byte(length >> 8), byte(length)}
	case g.odd(500) && length >= 0:
		head = []byte{tag, 0x85, 0, 0, 0, byte(length >> 8), byte(length)}
	case length < 0x80 && length >= 0:
		head = []byte{tag, byte(length)}
	case length < 0x100:
		head = []byte{tag, 0x81, byte(length)}
	default:
		head = []byte{tag, 0x82, byte(length >> 8), byte(length)}
	}
	return append(head, all...)
}

func oid(numbers ...int) []byte {
	der, err := asn1.Marshal(asn1.ObjectIdentifier(numbers))
	if err != nil {
		panic(err)
	}
	return der
}

type signer struct {
	key  crypto.Signer
	spki []byte
}

func signers() []signer {
	var all []signer
	add := func(key crypto.Signer, err error) {
		if err != nil {
			panic(err)
		}
		spki, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			panic(err)
		}
		all = append(all, signer{key, spki})
	}
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		add(key, err)
	}
	for _, bits := range []int{2048, 1024} {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		add(key, err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	add(key, err)
	return all
}

// sign returns an algorithm identifier and the signature of these bytes.
func (g *generator) sign(with signer, signed []byte) ([]byte, []byte) {
	hash := []crypto.Hash{crypto.SHA256, crypto.SHA256, crypto.SHA256, crypto.SHA384, crypto.SHA512, crypto.SHA1}[g.Intn(6)]
	digest := func() []byte {
		switch hash {
		case crypto.SHA1:
			sum := sha1.Sum(signed)
			return sum[:]
		case crypto.SHA384:
			sum := sha512.Sum384(signed)
			return sum[:]
		case crypto.SHA512:
			sum := sha512.Sum512(signed)
			return sum[:]
		}
		sum := sha256.Sum256(signed)
		return sum[:]
	}
	null := []byte{5, 0}
	switch key := with.key.(type) {
	case ed25519.PrivateKey:
		parameters := []byte{}
		if g.odd(10) {
			parameters = null
		}
		return g.tlv(0x30, oid(1, 3, 101, 112), parameters), ed25519.Sign(key, signed)
	case *ecdsa.PrivateKey:
		if hash == crypto.SHA1 && key.Curve == elliptic.P384() {
			hash = crypto.SHA256 // listed: not checked here
		}
		of := map[crypto.Hash][]byte{crypto.SHA256: oid(1, 2, 840, 10045, 4, 3, 2), crypto.SHA384: oid(1, 2, 840, 10045, 4, 3, 3), crypto.SHA512: oid(1, 2, 840, 10045, 4, 3, 4), crypto.SHA1: oid(1, 2, 840, 10045, 4, 1)}[hash]
		signature, err := ecdsa.SignASN1(rand.Reader, key, digest())
		if err != nil {
			panic(err)
		}
		return g.tlv(0x30, of), signature
	case *rsa.PrivateKey:
		short := key.N.BitLen() < 2048
		if short && hash == crypto.SHA384 {
			hash = crypto.SHA256 // listed: not checked here
		}
		if hash != crypto.SHA1 && !short && g.odd(4) {
			return g.pss(key, hash, digest())
		}
		number := map[crypto.Hash]int{crypto.SHA1: 5, crypto.SHA256: 11, crypto.SHA384: 12, crypto.SHA512: 13}[hash]
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, hash, digest())
		if err != nil {
			panic(err)
		}
		of := oid(1, 2, 840, 113549, 1, 1, number)
		if hash == crypto.SHA1 && g.odd(3) {
			of = oid(1, 3, 14, 3, 2, 29)
		}
		if g.odd(10) {
			null = nil
		}
		return g.tlv(0x30, of, null), signature
	}
	panic("no such key")
}

func (g *generator) pss(key *rsa.PrivateKey, hash crypto.Hash, digest []byte) ([]byte, []byte) {
	number := map[crypto.Hash]int{crypto.SHA256: 1, crypto.SHA384: 2, crypto.SHA512: 3}[hash]
	salt := hash.Size()
	if g.odd(6) {
		salt = 20
	}
	signature, err := rsa.SignPSS(rand.Reader, key, hash, digest, &rsa.PSSOptions{SaltLength: salt, Hash: hash})
	if err != nil {
		panic(err)
	}
	null := []byte{5, 0}
	if g.odd(3) {
		null = nil
	}
	of := g.tlv(0x30, oid(2, 16, 840, 1, 101, 3, 4, 2, number), null)
	mask := g.tlv(0x30, oid(1, 2, 840, 113549, 1, 1, 8), of)
	parts := [][]byte{g.tlv(0xa0, of), g.tlv(0xa1, mask), g.tlv(0xa2, []byte{2, 1, byte(salt)})}
	if g.odd(3) {
		parts = append(parts, g.tlv(0xa3, []byte{2, 1, 1}))
	}
	return g.tlv(0x30, oid(1, 2, 840, 113549, 1, 1, 10), g.tlv(0x30, parts...)), signature
}

// Tags of texts, of other types, and of other classes.
var tags = []byte{12, 12, 12, 19, 19, 20, 20, 20, 22, 30, 30, 30, 18, 21, 25, 26, 27, 28, 4, 2, 1, 6, 5, 23, 24, 3, 0x30, 0x31, 0x80, 0xac, 0x2c, 0x33, 0x4c, 0x0a, 0x09}

var texts = []string{"system:masters", "system:masters", "system:masters", "system:nodes", "system:node:n1", "system:node:n1", "system:node:n2", "joe", "joe", "", "a@b_c", "jané", "x*y&", "日本", "system:masters\x00",
	" system:masters", "SYSTEM:MASTERS", "1 2", "system:masters,system:nodes", "\u017fystem:masters", "20260101000000.5Z", "260101000000Z", "20260101000000Z", "\xff", "\xef\xbf\xbe", "a\x0bb"}

func (g *generator) value() []byte {
	text, tag := texts[g.Intn(len(texts))], tags[g.Intn(len(tags))]
	contents := []byte(text)
	switch tag {
	case 30:
		contents = nil
		for _, unit := range utf16.Encode([]rune(text)) {
			contents = binary.BigEndian.AppendUint16(contents, unit)
		}
		if g.odd(6) {
			contents = append(contents, 0, 0)
		}
		if g.odd(12) {
			contents = append(contents, 0)
		}
		if g.odd(20) {
			contents = append(contents, 0xd8, 0x00)
		}
	case 20:
		if g.odd(2) {
			contents = nil
			for _, r := range text {
				contents = append(contents, byte(r))
			}
		}
	case 28:
		contents = nil
		for _, r := range text {
			contents = binary.BigEndian.AppendUint32(contents, uint32(r))
		}
	case 1:
		contents = []byte{[]byte{0, 0xff, 1}[g.Intn(3)]}
	case 2, 0x0a:
		contents = [][]byte{{7}, {0, 7}, {0xff, 0x80}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {}}[g.Intn(5)]
	case 6:
		contents = [][]byte{{0x55, 4, 3}, {0x80, 1}, {0x55}, {}, {0x8f, 0xff, 0xff, 0xff, 0x7f}}[g.Intn(5)]
	case 3:
		contents = [][]byte{{0, 1}, {7, 0x80}, {1, 1}, {}, {8, 0}}[g.Intn(5)]
	case 23, 24:
		if g.odd(2) {
			contents = []byte([]string{"260101000000Z", "2601010000Z", "20260101000000Z", "20260101000000.5Z", "20260101000000.50Z", "260230000000Z", "20260101000000+0100", "20260101000000+0000", "x"}[g.Intn(9)])
		}
	case 0x30, 0x31, 0x2c, 0x33, 0xac:
		contents = g.tlv(12, contents)
	}
	if g.odd(40) {
		// Tags of several bytes.
		return append(append([]byte{0x1f | tag&0xe0}, [][]byte{{0x1e}, {0x81, 0x00}, {0x80, 0x1f}, {0x1f}, {0x8f, 0xff, 0xff, 0xff, 0x7f}}[g.Intn(5)]...), g.tlv(0, contents)[1:]...)
	}
	return g.tlv(tag, contents)
}

func (g *generator) name() []byte {
	var sets [][]byte
	for range g.Intn(4) {
		var attributes [][]byte
		for range []int{1, 1, 1, 2, 3, 0}[g.Intn(6)] {
			kind := [][]byte{oid(2, 5, 4, 10), oid(2, 5, 4, 10), oid(2, 5, 4, 3), oid(2, 5, 4, 3), oid(2, 5, 4, 11), oid(2, 5, 4, 6), oid(2, 5, 4, 10, 1), oid(2, 5, 4), oid(0, 9, 2342, 19200300, 100, 1, 25), oid(2, 5, 29, 10)}[g.Intn(10)]
			parts := [][]byte{kind, g.value()}
			if g.odd(30) {
				parts = append(parts, g.value())
			}
			if g.odd(60) {
				parts = parts[:1]
			}
			attributes = append(attributes, g.tlv(g.rarely(0x30, 0x31, 60), parts...))
		}
		if g.odd(10) && len(attributes) > 0 {
			attributes = append(attributes, attributes[0])
		}
		sets = append(sets, g.tlv(g.rarely(0x31, 0x30, 60), attributes...))
	}
	if g.odd(10) && len(sets) > 0 {
		sets = append(sets, sets[0])
	}
	return g.tlv(g.rarely(0x30, 0x31, 60), sets...)
}

func (g *generator) extension() []byte {
	critical := [][]byte{nil, nil, {1, 1, 0xff}, {1, 1, 0}, {1, 1, 1}}[g.Intn(5)]
	names := [][]byte{g.tlv(0x82, []byte("a.example")), g.tlv(0x82, []byte("jané")), g.tlv(0x81, []byte("a@b")), g.tlv(0x87, []byte{10, 0, 0, 1}), g.tlv(0x87, []byte{10, 0, 0}),
		g.tlv(0x86, []byte("spiffe://a/b")), g.tlv(0x86, []byte("https://a..b/")), g.tlv(0x86, []byte("http://a b/")), g.tlv(0x86, []byte("%zz")), g.tlv(0xa4, g.tlv(0x30)), g.tlv(0x88, []byte{1})}
	var chosen [][]byte
	for range g.Intn(3) {
		chosen = append(chosen, names[g.Intn(len(names))])
	}
	of := [][]byte{oid(2, 5, 29, 17), oid(2, 5, 29, 17), oid(2, 5, 29, 15), oid(1, 2, 3)}[g.Intn(4)]
	return g.tlv(g.rarely(0x30, 0x31, 60), of, critical, g.tlv(g.rarely(4, 12, 40), g.tlv(g.rarely(0x30, 0x31, 40), chosen...)))
}

func (g *generator) attributes() []byte {
	var all [][]byte
	for range g.Intn(3) {
		switch g.Intn(3) {
		case 0:
			all = append(all, g.tlv(0x30, oid(1, 2, 840, 113549, 1, 9, 7), g.tlv(0x31, g.tlv(12, []byte("secret")))))
		default:
			var extensions [][]byte
			for range g.Intn(3) {
				extensions = append(extensions, g.extension())
			}
			values := [][]byte{g.tlv(g.rarely(0x30, 0x31, 40), extensions...)}
			if g.odd(20) {
				values = append(values, g.value())
			}
			if g.odd(30) {
				values = nil
			}
			attribute := g.tlv(g.rarely(0x30, 0x31, 60), oid(1, 2, 840, 113549, 1, 9, 14), g.tlv(g.rarely(0x31, 0x30, 30), values...))
			all = append(all, attribute)
		}
	}
	return g.tlv(0xa0, all...)
}

// der makes a request.
func (g *generator) der() []byte {
	with := g.signers[g.Intn(len(g.signers))]
	if g.odd(2) {
		with = g.signers[0]
	}
	version := []byte{2, 1, 0}
	if g.odd(30) {
		version = [][]byte{{2, 1, 1}, {2, 1, 0xff}, {2, 2, 0, 0}, {2, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 0}, {0x0a, 1, 0}}[g.Intn(6)]
	}
	spki := with.spki
	if g.odd(40) {
		spki = append([]byte{}, spki...)
		spki[g.Intn(len(spki))] ^= byte(1 << g.Intn(8))
	}
	parts := [][]byte{version, g.name(), spki, g.attributes()}
	if g.odd(60) {
		parts = parts[:3]
	}
	if g.odd(60) {
		parts = append(parts, g.value())
	}
	information := g.tlv(0x30, parts...)
	algorithm, signature := g.sign(with, information)
	if g.odd(25) {
		signature[g.Intn(len(signature))] ^= 1
	}
	unused := byte(0)
	if g.odd(60) {
		unused = byte(g.Intn(9))
	}
	outer := [][]byte{information, algorithm, g.tlv(3, []byte{unused}, signature)}
	if g.odd(40) {
		outer = append(outer, g.value())
	}
	der := g.tlv(0x30, outer...)
	if g.odd(40) {
		der = append(der, g.value()...)
	}
	if g.odd(25) && len(der) > 0 {
		der[g.Intn(len(der))] ^= byte(1 << g.Intn(8))
	}
	if g.odd(80) {
		der = der[:g.Intn(len(der))]
	}
	return der
}

type generator struct {
	*mathrand.Rand
	signers []signer
	calm    bool
}

// odd says yes once in so many times.
func (g *generator) odd(times int) bool { return !g.calm && g.Intn(times) == 0 }

func (g *generator) rarely(usual, other byte, times int) byte {
	if g.odd(times) {
		return other
	}
	return usual
}
