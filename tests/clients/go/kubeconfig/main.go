// Command kubeconfig has client-go and ours read the same kubeconfig files, and compares what comes of them.
//
// Each case is a file, with the files that it names beside it. Both load it and send one GET: to a server that answers with what it was sent (URL, server name,
// certificate, credentials, impersonation), or through a proxy that says so. Equal is the same answer, or none from either. A case that differs must be in the
// list of differences, with the reason; one in the list must differ.
//
//	kubeconfig [--every N] [--only TEXT] [--verbose] ASK
//
// ASK is the program that reads paths of kubeconfig files, one a line, and answers a line for each: {"answer": …} or {"error": "…"}.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// outcome is what came of a file: what the server was sent, or why nothing was.
type outcome struct {
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
}

func (o outcome) String() string {
	if o.Error != "" {
		return "refused: " + o.Error
	}
	return string(o.Answer)
}

func main() {
	every := flag.Int("every", 1, "try every Nth case")
	only := flag.String("only", "", "try the cases whose name has this text")
	verbose := flag.Bool("verbose", false, "print what came of each case")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	quiet := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(quiet)
	check(quiet.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"}))
	klog.SetOutput(io.Discard)
	dir, err := os.MkdirTemp("", "kubeconfig")
	check(err)
	defer os.RemoveAll(dir)
	place := newPlace(dir)
	all := cases(place)
	var chosen []one
	for i, c := range all {
		if (i%*every == 0 || known[c.name] != "") && strings.Contains(c.name, *only) {
			chosen = append(chosen, c)
		}
	}
	var paths []string
	for i, c := range chosen {
		paths = append(paths, c.write(filepath.Join(dir, fmt.Sprintf("case-%d", i))))
	}
	theirs := make([]outcome, len(chosen))
	for i, path := range paths {
		theirs[i] = askClientGo(path)
	}
	ours := askOurs(flag.Arg(0), paths)
	if !compare(chosen, theirs, ours, *verbose) {
		os.RemoveAll(dir)
		os.Exit(1)
	}
}

// compare prints what differs, and the figures.
func compare(chosen []one, theirs, ours []outcome, verbose bool) bool {
	equal, listed, wrong := 0, 0, 0
	answered, inWords := 0, 0
	for i, c := range chosen {
		same := bytes.Equal(theirs[i].Answer, ours[i].Answer)
		if verbose {
			fmt.Printf("%s\n  client-go: %s\n  ours:      %s\n", c.name, theirs[i], ours[i])
		}
		why, isKnown := known[c.name]
		switch {
		case same && !isKnown:
			equal++
			if theirs[i].Answer != nil {
				answered++
			} else if strings.Contains(ours[i].Error, theirs[i].Error) {
				inWords++
			}
		case !same && isKnown:
			listed++
			fmt.Printf("listed: %s: %s\n", c.name, why)
		case same:
			wrong++
			fmt.Printf("WRONG %s is listed as different, and is the same: %s\n", c.name, ours[i])
		default:
			wrong++
			fmt.Printf("WRONG %s\n  client-go: %s\n  ours:      %s\n%s\n", c.name, theirs[i], ours[i], c.text)
		}
	}
	fmt.Printf("kubeconfig files: %d asked, %d equal (%d answered alike, %d refused by both, %d of these in the same words), %d listed differences, %d wrong\n",
		len(chosen), equal, answered, equal-answered, inWords, listed, wrong)
	return wrong == 0
}

// askClientGo does what kube-apiserver does with the file of a flag.
func askClientGo(path string) outcome {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return outcome{Error: err.Error()}
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := client.Get().AbsPath("/echo").MaxRetries(0).DoRaw(ctx)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	return outcome{Answer: answer}
}

func askOurs(program string, paths []string) []outcome {
	command := exec.Command(program)
	command.Stdin = strings.NewReader(strings.Join(paths, "\n") + "\n")
	command.Stderr = os.Stderr
	out, err := command.Output()
	check(err)
	var all []outcome
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var one outcome
		check(json.Unmarshal(lines.Bytes(), &one))
		all = append(all, one)
	}
	if len(all) != len(paths) {
		panic(fmt.Sprintf("%d files, %d answers", len(paths), len(all)))
	}
	return all
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
