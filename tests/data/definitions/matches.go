// Prints what Go's regexp says of generated patterns and texts, a JSON list a line: `go run matches.go > matches.jsonl`.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"regexp"
	"strings"
	"unicode/utf8"
)

var parts = []string{
	"a", "b", "Z", "é", "ſ", "k", "0", "9", "_", "-", " ", ".", "^", "$", "|", "(", ")", "(?:", "(?i)", "(?i:", "(?m)", "(?s)", "(?-i)", "*", "+", "?", "*?",
	"{2}", "{0,3}", "{1,}", "{0}", `\d`, `\D`, `\w`, `\W`, `\s`, `\S`, `\b`, `\B`, `\A`, `\z`, `\pL`, `\PL`, `\p{Greek}`, `\p{^Lu}`, `\P{Lu}`, `\n`, `\x{3b1}`, `\x41`, `\.`,
	`\Qa.\E`, "[a-c]", "[^a-c]", "[^k]", "[[:alpha:]]", "[[:^digit:]x]", `[\w-]`, `[^\W]`, `[\pLu]`, `[^\PL]`, "[]a]", "[A-Zα-ω]", `[\x{0}-\x{ffff}]`, "[^\\n]", "(?P<n>", ",",
}
var chars = []string{"a", "b", "c", "k", "K", "\u212a", "z", "Z", "é", "É", "ſ", "s", "S", "0", "9", "_", "-", " ", "\n", "\t", "\v", "α", "Ω", "ς", ".", "x", "X", "\u00a0", "𐐀", "𐐨", "語", ""}

func main() {
	r := rand.New(rand.NewSource(7))
	for n := 0; n < 4000; {
		var p, t strings.Builder
		open := 0
		for i := r.Intn(8) + 1; i > 0; i-- {
			part := parts[r.Intn(len(parts))]
			if part == ")" && open == 0 {
				continue
			}
			if part == ")" {
				open--
			} else if strings.HasPrefix(part, "(") && !strings.HasSuffix(part, ")") {
				open++
			}
			p.WriteString(part)
		}
		p.WriteString(strings.Repeat(")", open))
		re, err := regexp.Compile(p.String())
		if err != nil {
			continue
		}
		for i := r.Intn(6); i > 0; i-- {
			t.WriteString(chars[r.Intn(len(chars))])
		}
		if !utf8.ValidString(p.String()) {
			continue
		}
		line, _ := json.Marshal([]any{p.String(), t.String(), re.MatchString(t.String())})
		fmt.Println(string(line))
		n++
	}
}
