// Reads lines of a format, a tab and a text as JSON, perhaps with a third column; writes them with whether kube-openapi says that the text is of that format.
// In a folder with a go.mod that requires k8s.io/kube-openapi: go run formats.go < formats.txt
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		columns := strings.Split(lines.Text(), "\t")
		var text string
		if err := json.Unmarshal([]byte(columns[1]), &text); err != nil {
			panic(err)
		}
		fmt.Printf("%s\t%s\t%t\n", columns[0], columns[1], strfmt.Default.Validates(columns[0], text))
	}
}
