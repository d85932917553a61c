// Writes what Go's encoding/json makes of the first columns: go run go.go strings <go.strings >new; so for numbers and indents.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		first, _, _ := strings.Cut(lines.Text(), "\t")
		fmt.Printf("%s\t%s\n", first, second(os.Args[1], first))
	}
}

func second(what, first string) []byte {
	switch what {
	case "strings":
		var text string
		must(json.Unmarshal([]byte(first), &text))
		return marshal(text)
	case "numbers":
		bits, err := strconv.ParseUint(first, 16, 64)
		must(err)
		return marshal(math.Float64frombits(bits))
	case "indents":
		var text string
		must(json.Unmarshal([]byte(first), &text))
		var out bytes.Buffer
		must(json.Indent(&out, []byte(text), "", "  "))
		return marshal(out.String())
	}
	panic("strings, numbers or indents?")
}

func marshal(value any) []byte {
	out, err := json.Marshal(value)
	must(err)
	return out
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
