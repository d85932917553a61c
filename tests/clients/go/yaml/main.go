// yaml makes thousands of YAML documents, reads them as kube-apiserver does (sigs.k8s.io/yaml, then sigs.k8s.io/json), has ours read them too, and compares values,
// errors and duplicate keys. Its argument is the program of tests/differential/yaml.
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// outcome is what came of a document.
type outcome struct {
	Value      any      `json:"value"`
	Duplicates []string `json:"duplicates"`
	Error      string   `json:"error"`
}

func main() {
	count := flag.Int("count", 20000, "documents to make")
	seed := flag.Uint64("seed", 1, "seed of the generator")
	shown := flag.Int("show", 20, "differences to print")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	random := rand.New(rand.NewPCG(*seed, 46))
	var documents [][]byte
	for range *count {
		documents = append(documents, document(random))
	}
	ours := askOurs(flag.Arg(0), documents)
	read, refused, differ, either := 0, 0, 0, 0
	for i, text := range documents {
		theirs := askGo(text)
		if theirs.Error == "" {
			read++
		} else {
			refused++
		}
		if same(theirs, ours[i]) {
			continue
		}
		// Two keys that become one have the value of either: Go reads its maps in a random order.
		if sometimes(text, ours[i]) {
			either++
			continue
		}
		differ++
		if differ <= *shown {
			fmt.Printf("DIFFERS %q\n  theirs %s\n  ours   %s\n", text, theirs, ours[i])
		}
	}
	fmt.Printf("%d documents: %d read, %d refused by Go, %d in several ways; %d differ\n", len(documents), read, refused, either, differ)
	if differ > 0 || read == 0 || refused == 0 {
		os.Exit(1)
	}
}

// tries is how often Go reads a document that ours reads otherwise: of two ways that are as likely, one is missed once in four billion times.
const tries = 32

// sometimes returns whether Go reads the document as ours does at one of many tries.
func sometimes(text []byte, ours outcome) bool {
	for range tries {
		if same(askGo(text), ours) {
			return true
		}
	}
	return false
}

func (o outcome) String() string {
	if o.Error != "" {
		return fmt.Sprintf("refused: %q", o.Error)
	}
	text, _ := json.Marshal(o.Value)
	return fmt.Sprintf("%s, twice: %q", text, o.Duplicates)
}

func same(theirs, ours outcome) bool {
	// What JSON cannot have, under a key that another value takes later.
	if len(theirs.Duplicates) > 0 && strings.Contains(ours.Error, "unsupported ") {
		return true
	}
	if theirs.Error == "" || ours.Error == "" {
		return theirs.Error == ours.Error && reflect.DeepEqual(theirs.Value, ours.Value) && reflect.DeepEqual(theirs.Duplicates, ours.Duplicates)
	}
	// Of several keys or numbers that JSON cannot have, Go names one by lot; the types of members of a key that is no text are not known to ours.
	for _, start := range []string{"unsupported map key of type", "json: unsupported value", "yaml: invalid map key"} {
		if strings.HasPrefix(theirs.Error, start) && strings.HasPrefix(ours.Error, start) {
			return true
		}
	}
	return theirs.Error == ours.Error
}

func askGo(text []byte) (o outcome) {
	defer func() {
		// What is a panic there is no case.
		if problem := recover(); problem != nil {
			o = outcome{Error: fmt.Sprint("panic: ", problem)}
		}
	}()
	made, err := yaml.YAMLToJSON(text)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(made, &o.Value)
	}
	if err != nil {
		return outcome{Error: err.Error()}
	}
	o.Duplicates = []string{}
	if _, err := yaml.YAMLToJSONStrict(text); err != nil {
		lines := strings.Split(err.Error(), "\n")
		for _, line := range lines[1:] {
			o.Duplicates = append(o.Duplicates, strings.TrimPrefix(line, "  "))
		}
	}
	return o
}

func askOurs(program string, documents [][]byte) []outcome {
	var in bytes.Buffer
	for _, text := range documents {
		in.WriteString(hex.EncodeToString(text))
		in.WriteByte('\n')
	}
	command := exec.Command(program)
	command.Stdin, command.Stderr = &in, os.Stderr
	out, err := command.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, program, err)
		os.Exit(1)
	}
	var outcomes []outcome
	for line := range bytes.Lines(out) {
		var o outcome
		if err := kjson.UnmarshalCaseSensitivePreserveInts(line, &o); err != nil {
			fmt.Fprintln(os.Stderr, err, string(line))
			os.Exit(1)
		}
		outcomes = append(outcomes, o)
	}
	if len(outcomes) != len(documents) {
		fmt.Fprintf(os.Stderr, "%d answers to %d documents\n", len(outcomes), len(documents))
		os.Exit(1)
	}
	return outcomes
}
