// Writes what Go's regexp says of patterns: go run patterns.go <patterns.txt >new. A line: the pattern, a tab, the error or nothing.
package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strings"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		pattern, _, _ := strings.Cut(lines.Text(), "\t")
		text := ""
		if _, err := regexp.Compile(pattern); err != nil {
			text = err.Error()
		}
		fmt.Printf("%s\t%s\n", pattern, text)
	}
}
