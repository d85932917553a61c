package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// breaks are what YAML 1.1 calls one, and pairs of them.
var breaks = []string{"\n", "\r", "\r\n", "\u0085", "\u2028", "\u2029", "\n\n", "\u2028\n", "\n\u0085", "\u0085\u2029"}

var pieces = strings.Split("a|b|key|x y|: |:|- |-|  |    |\t| |,|, |[|]|{|}|\"|'|\"q\"|'s'|\\n|\\x41|\\u00e9|\\U0001F600|\\N|\\L|\\/|\\ |#c| #|&a |*a|*a |!!str |!!int |!!float |"+
	"!!null |!!bool |!!binary |!!timestamp |! |!x |!<tag:yaml.org,2002:int> |!%41b |? |?|<<: |<<|~|null|yes|off|1|-0|0x1F|0o17|017|0b11|1_000|1e3|1.5|.5|.inf|-.inf|.nan|1e400|"+
	"2001-01-01|2001-1-1T1:2:3Z|---|--- |...|%YAML 1.1|%YAML 1.2|%TAG ! tag:x,2:|@|`|%|=|\u00e9|\ufeff|\u65e5|\x7f|\x01|\u0080|\xff|\xc3|\xe2\x80|aGk=", "|")

func init() {
	pieces = append(pieces, "|", "|\n", "|-\n", "|+\n", ">\n", ">-\n", ">2\n", "|1+\n", ">0\n", "|x\n")
}

func pick(random *rand.Rand, from []string) string {
	return from[random.IntN(len(from))]
}

// document makes one of several kinds.
func document(random *rand.Rand) []byte {
	switch random.IntN(10) {
	case 0:
		return []byte(soup(random, 1+random.IntN(12)))
	case 1, 2:
		return []byte(lines(random))
	case 3:
		return []byte(fmt.Sprintf("a: %s%s", number(random), pick(random, []string{"", "\n", " # c\n", "\nb: 1\n"})))
	case 4:
		return []byte(fmt.Sprintf("{%s: x, %s: y}", number(random), number(random)))
	case 5:
		return far(random)
	case 6:
		return units(random)
	case 7:
		return []byte(known(random))
	default:
		return []byte(broken(random, tree(random, 3, 0)))
	}
}

// soup is pieces in any order.
func soup(random *rand.Rand, count int) string {
	var text strings.Builder
	for range count {
		if random.IntN(5) == 0 {
			text.WriteString(pick(random, breaks))
		} else {
			text.WriteString(pick(random, pieces))
		}
	}
	return text.String()
}

// lines are members of a map, with something odd in them.
func lines(random *rand.Rand) string {
	var text strings.Builder
	for range 1 + random.IntN(5) {
		text.WriteString(strings.Repeat(" ", random.IntN(2)*2))
		text.WriteString(pick(random, []string{"a", "b", "- c", "'d'", "\"e\"", "&a f", "? g", "1", "<<", "~", ""}))
		text.WriteString(pick(random, []string{": ", ":", ":  ", " : ", ":\t", " "}))
		text.WriteString(soup(random, random.IntN(4)))
		text.WriteString(pick(random, breaks))
	}
	return text.String()
}

// number is digits in one of YAML's ways, and often in none.
func number(random *rand.Rand) string {
	var text strings.Builder
	text.WriteString(pick(random, []string{"", "", "", "-", "+", "--"}))
	text.WriteString(pick(random, []string{"", "", "", "0x", "0X", "0o", "0", "0b", "."}))
	length := random.IntN(22)
	for range length {
		text.WriteByte("0123456789"[random.IntN(10)])
		if random.IntN(12) == 0 {
			text.WriteString(pick(random, []string{"_", ".", "e", "e+", "E-", "a", "p", ":"}))
		}
	}
	if random.IntN(4) == 0 {
		text.WriteString(pick(random, []string{".0", "e3", "e-7", "e400", ".", "e", "_", ".5e2"}))
	}
	if random.IntN(3) == 0 {
		edge := pick(random, []string{"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
			"1e21", "1e20", "123456789012345680000", "0.1234567891", "1000000.5", "1e-7", "-0", "-0.0", "0e0", "0x8000000000000000", "2001-2-29", "2000-02-29 1:2:3", "2001-01-01t00:00:00.5+01:00"})
		return pick(random, []string{"", "!!float ", "!!int ", "!!str ", "!!timestamp "}) + edge
	}
	return text.String()
}

// far has its mistake, or none, far from its beginning: bytes are decoded in pieces.
func far(random *rand.Rand) []byte {
	var text strings.Builder
	text.WriteString(pick(random, []string{"", "", "\ufeff", "\ufeff\ufeff"}))
	for i := range 20 + random.IntN(40) {
		fmt.Fprintf(&text, "key%d: %s%s", i, strings.Repeat(pick(random, []string{"v", "\u00e9", "\u65e5"}), random.IntN(40)), pick(random, []string{"\n", "\n", "\n", "\u0085", "\u2028"}))
		if random.IntN(30) == 0 {
			text.WriteString(pick(random, []string{"...\n", "---\n", "\x01", "\xff", "a", "[", "\"\n", "\ufeff", ": \n"}))
		}
	}
	if random.IntN(3) == 0 {
		fmt.Fprintf(&text, "%s: long\n", strings.Repeat("k", 1000+random.IntN(40)))
	}
	return []byte(text.String())
}

// units is UTF-16.
func units(random *rand.Rand) []byte {
	text := lines(random)
	little := random.IntN(2) == 0
	out := []byte{0xfe, 0xff}
	if little {
		out = []byte{0xff, 0xfe}
	}
	for _, character := range text {
		if character > 0xffff {
			character = 'x'
		}
		if little {
			out = append(out, byte(character), byte(character>>8))
		} else {
			out = append(out, byte(character>>8), byte(character))
		}
	}
	return out
}

// known is a form in which a break matters, with one of them in it.
func known(random *rand.Rand) string {
	forms := []string{"a: x%sy\n", "a: \"x%sy\"\n", "a: 'x%sy'\n", "a: |\n  x%sy\n", "a: |\n  x%s  y\n", "a: >\n  x%s  y\n  z\n", "a: >-\n  x\n%s  y\n", "# c%sa: b\n", "a: b%sc: d\n",
		"a: b #c%sd: e\n", "\"k%sl\": v\n", "k%sl: v\n", "{a: b,%sc: d}", "[a%sb]", "a: b\n---%sc: d\n", "---%sa: b\n", "a: b\n...%sc", "%%YAML 1.1%s--- a", "- a%s- b\n", "a:%s  b\n",
		"a: |+%s  x\n\n", "a: |%s  x\n%[1]s  y%[1]s", "? a%s: b\n", "a: \"x\\%s  y\"\n", "a: \"x%[1]s%[1]s  y\"\n", "a: 'x%[1]s%[1]sy'\n", "a: x%[1]s%[1]s  y\n", "a: &x%sb\n", "a: !!str%sb\n", "%sa: b\n",
		"a: b%s", "a: \"b\"%s", "a: x%s  y\nb: c", "a: x%s\ty\n", "a:%s- b%[1]s- c\n", "a: {b: c}%s", "a: *x%s", "a: |2-%s  x"}
	return fmt.Sprintf(pick(random, forms), pick(random, breaks))
}

// tree writes a value in random styles.
func tree(random *rand.Rand, depth, indent int) string {
	kind := random.IntN(6)
	if depth == 0 {
		kind = 5
	}
	pad := strings.Repeat(" ", indent)
	var text strings.Builder
	switch kind {
	case 0, 1, 2:
		for range 1 + random.IntN(3) {
			fmt.Fprintf(&text, "\n%s%s: %s", pad, pick(random, []string{"a", "b", "c d", "'e'", "\"f\\n\"", "1", "yes"}), tree(random, depth-1, indent+2))
		}
	case 3:
		for range 1 + random.IntN(3) {
			fmt.Fprintf(&text, "\n%s- %s", pad, tree(random, depth-1, indent+2))
		}
	case 4:
		fmt.Fprintf(&text, "{a: %s, \"b\":%s, c: [%s , 2]}", scalar(random), strconv.Quote(scalar(random)), scalar(random))
	default:
		return block(random, pad)
	}
	return text.String()
}

func scalar(random *rand.Rand) string {
	return pick(random, []string{"x", "x y", "1", "true", "~", "'q q'", "\"d\\td\"", "0x10", "1.5", "-", "x#y", "x: y", "\u00e9"})
}

func block(random *rand.Rand, pad string) string {
	line := func() string { return pad + strings.Repeat(" ", random.IntN(3)) + scalar(random) }
	switch random.IntN(4) {
	case 0:
		return fmt.Sprintf("%s\n%s\n%s\n", pick(random, []string{"|", ">", "|-", ">-", "|+", ">+", "|2", ">1-"}), line(), line())
	case 1:
		return fmt.Sprintf("\"x\n%s\n\n%sz\"", line(), pad)
	default:
		return scalar(random)
	}
}

// broken puts other breaks in the places of some, and now and then a piece somewhere.
func broken(random *rand.Rand, text string) string {
	var out strings.Builder
	for _, character := range text {
		switch {
		case character == '\n' && random.IntN(4) == 0:
			out.WriteString(pick(random, breaks))
		case random.IntN(60) == 0:
			out.WriteString(pick(random, pieces))
			out.WriteRune(character)
		default:
			out.WriteRune(character)
		}
	}
	return out.String()
}
