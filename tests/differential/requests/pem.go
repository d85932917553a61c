package main

import (
	"encoding/base64"
	"strings"
)

const label = "CERTIFICATE REQUEST"

func (g *generator) block(der []byte) string {
	text := base64.StdEncoding.EncodeToString(der)
	var lines []string
	width := []int{64, 64, 64, 76, 4, 1000}[g.Intn(6)]
	for len(text) > width {
		lines, text = append(lines, text[:width]), text[width:]
	}
	lines = append(lines, text)
	return "-----BEGIN " + label + "-----\n" + strings.Join(lines, "\n") + "\n-----END " + label + "-----\n"
}

var breaks = []func(g *generator, block string) string{
	func(g *generator, block string) string { return strings.Replace(block, "END "+label, "END XXX", 1) },
	func(g *generator, block string) string {
		return strings.Replace(block, "END "+label, "END certificate request", 1)
	},
	func(g *generator, block string) string {
		return strings.Replace(block, "END "+label+"-----", "END "+label, 1)
	},
	func(g *generator, block string) string {
		return strings.Replace(block, label+"-----\n", label+"----- x\n", 1)
	},
	func(g *generator, block string) string {
		return strings.Replace(block, label+"-----\n", label+"----\n", 1)
	},
	func(g *generator, block string) string {
		return strings.Replace(block, label+"-----\n", label+"----- \t\n", 1)
	},
	func(g *generator, block string) string { return " " + block },
	func(g *generator, block string) string { return "x" + block },
	func(g *generator, block string) string { return "x\n" + block },
	func(g *generator, block string) string { return "\n\n" + block + "\n" },
	func(g *generator, block string) string {
		return strings.Replace(block, "-----\n", "-----\nA: b\n\n", 1)
	},
	func(g *generator, block string) string {
		return strings.Replace(block, "-----\n", "-----\nA: b\nC:\n", 1)
	},
	func(g *generator, block string) string { return strings.ReplaceAll(block, "\n", "\r\n") },
	func(g *generator, block string) string { return strings.ReplaceAll(block, "\n", "\r") },
	func(g *generator, block string) string { return strings.ReplaceAll(block, "\n", " \n") },
	func(g *generator, block string) string { return strings.ReplaceAll(block, "\n", "\t\n") },
	func(g *generator, block string) string { return strings.Replace(block, "\n-----END", "=\n-----END", 1) },
	func(g *generator, block string) string {
		return strings.Replace(block, "\n-----END", "\n=\n-----END", 1)
	},
	func(g *generator, block string) string { return strings.Replace(block, "=\n-----END", "\n-----END", 1) },
	func(g *generator, block string) string { return strings.ReplaceAll(block, label, "NEW "+label) },
	func(g *generator, block string) string { return strings.ReplaceAll(block, label, "CERTIFICATE") },
	func(g *generator, block string) string { return strings.ReplaceAll(block, "-----BEGIN", "-----BEGIN ") },
	func(g *generator, block string) string { return strings.TrimSuffix(block, "\n") },
	func(g *generator, block string) string { return strings.TrimSuffix(block, "\n") + "x\n" },
	func(g *generator, block string) string { return strings.TrimSuffix(block, "\n") + " \t\r\n" },
	func(g *generator, block string) string { return strings.Replace(block, "\n-----END", "-----END", 1) },
	func(g *generator, block string) string { return "-----BEGIN " + label + "-----\n" + block },
	func(g *generator, block string) string { return "-----BEGIN X-----\n" + block },
	func(g *generator, block string) string { return "-----END " + label + "-----\n" + block },
	func(g *generator, block string) string { return "\n-----END " + label + "-----\n" + block },
	func(g *generator, block string) string {
		return "-----BEGIN " + label + "-----\n-----END " + label + "-----\n" + block
	},
	func(g *generator, block string) string { return strings.Replace(block, "M", "-", 1) },
	func(g *generator, block string) string { return strings.Replace(block, "M", "\v", 1) },
	func(g *generator, block string) string { return strings.Replace(block, "M", "\x00", 1) },
	func(g *generator, block string) string { at := g.Intn(len(block)); return block[:at] + block[at+1:] },
	func(g *generator, block string) string { return block[:g.Intn(len(block))] },
	func(g *generator, block string) string {
		at := g.Intn(len(block))
		return block[:at] + "\n" + block[at:]
	},
}

// pem makes a text with one block or several.
func (g *generator) pem() string {
	var text strings.Builder
	for range []int{1, 1, 1, 2, 2, 3}[g.Intn(6)] {
		block := g.block(g.der())
		if g.odd(2) {
			block = breaks[g.Intn(len(breaks))](g, block)
		}
		text.WriteString(block)
	}
	return text.String()
}
