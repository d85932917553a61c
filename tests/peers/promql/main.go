// promql judges the expressions of the alerts and of the dashboard by scrapes of running servers, with the engine of Prometheus.
//
//	promql -rules FILE -dashboard FILE -scrapes FOLDER [-fires ALERT,…] [-empty PANEL,…]
//
// FOLDER has the texts of /metrics, each as INSTANCE.MILLISECONDS. Each expression must parse, name only metrics and labels that are there, and give samples:
// that of a panel always, unless it is named after -empty; that of an alert exactly when it is named after -fires.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

// job is the one that all scrapes are of.
const job = "watchcache"

// expression is one that a person or an alert looks at.
type expression struct {
	where, name, text string
	isAlert           bool
}

// world is what the scrapes have.
type world struct {
	db *tsdb.DB
	// The labels of each metric.
	labels map[string]map[string]bool
	last   int64
}

func main() {
	rules, dashboard := flag.String("rules", "", "a file of rules"), flag.String("dashboard", "", "a dashboard of Grafana")
	scrapes := flag.String("scrapes", "", "a folder of texts of /metrics, each INSTANCE.MILLISECONDS")
	fires, empty := flag.String("fires", "", "alerts that the scrapes set off"), flag.String("empty", "", "panels for which the scrapes have nothing")
	flag.Parse()
	count, wrong := check(*rules, *dashboard, *scrapes, split(*fires), split(*empty))
	for _, problem := range wrong {
		fmt.Println(problem)
	}
	if len(wrong) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d expressions are well\n", count)
}

func split(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(name string) bool { return name == "" })
}

func check(rules, dashboard, scrapes string, fires, empty []string) (int, []error) {
	expressions, err := ofDashboard(dashboard)
	if err != nil {
		return 0, []error{err}
	}
	alerts, errs := ofRules(rules)
	if len(errs) > 0 {
		return 0, errs
	}
	all, err := read(scrapes)
	if err != nil {
		return 0, []error{err}
	}
	defer all.db.Close()
	var wrong []error
	expressions = append(expressions, alerts...)
	known := map[string]bool{}
	for _, one := range expressions {
		known[one.name] = true
		if err := all.judge(one, fires, empty); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w\n    %s", one.where, err, strings.TrimSpace(one.text)))
		}
	}
	for _, name := range append(fires, empty...) {
		if !known[name] {
			wrong = append(wrong, fmt.Errorf("there is no %q", name))
		}
	}
	return len(expressions), wrong
}

func ofRules(file string) ([]expression, []error) {
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		return nil, errs
	}
	var all []expression
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			all = append(all, expression{"alert " + rule.Alert, rule.Alert, rule.Expr, true})
		}
	}
	return all, nil
}

// ofDashboard returns the expressions of its panels and variables, with Grafana's variables filled in.
func ofDashboard(file string) ([]expression, error) {
	type panel struct {
		Title   string
		Targets []struct{ Expr string }
		Panels  []json.RawMessage
	}
	var board struct {
		Panels     []panel
		Templating struct {
			List []struct {
				Name, Type string
				Query      json.RawMessage
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &board); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	fill := strings.NewReplacer("$__rate_interval", "10m", "$job", ".*", "$instance", ".*", "$resource", ".*")
	var all []expression
	for _, panel := range board.Panels {
		for number, target := range panel.Targets {
			text := fill.Replace(target.Expr)
			if strings.Contains(text, "$") {
				return nil, fmt.Errorf("%s: a variable that is not known here: %s", panel.Title, text)
			}
			all = append(all, expression{fmt.Sprintf("panel %q, %d", panel.Title, number), panel.Title, text, false})
		}
		if len(panel.Panels) > 0 {
			return nil, fmt.Errorf("row %q has panels of its own, which nobody would look at here", panel.Title)
		}
	}
	for _, variable := range board.Templating.List {
		if variable.Type != "query" {
			continue
		}
		var query struct{ Query string }
		if err := json.Unmarshal(variable.Query, &query); err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}
		inner, isValues := strings.CutPrefix(query.Query, "label_values(")
		at := strings.LastIndex(inner, ",")
		if !isValues || at < 0 {
			return nil, fmt.Errorf("variable %s: %q is no label_values(…, label)", variable.Name, query.Query)
		}
		label := strings.TrimSpace(strings.TrimSuffix(inner[at+1:], ")"))
		text := fmt.Sprintf("count by (%s) (%s)", label, fill.Replace(inner[:at]))
		all = append(all, expression{"variable " + variable.Name, "$" + variable.Name, text, false})
	}
	return all, nil
}

// read takes in what was scraped, as Prometheus does: with the labels of the target, and `up`.
func read(folder string) (*world, error) {
	dir, err := os.MkdirTemp("", "promql")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	db, err := tsdb.Open(dir, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		return nil, err
	}
	type scrape struct {
		instance string
		at       int64
		text     []byte
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.*"))
	if err != nil {
		return nil, err
	}
	var scrapes []scrape
	for _, file := range files {
		instance, at, _ := strings.Cut(filepath.Base(file), ".")
		millis, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		scrapes = append(scrapes, scrape{instance, millis, text})
	}
	if len(scrapes) < 2 {
		return nil, fmt.Errorf("%s has %d scrapes", folder, len(scrapes))
	}
	sort.Slice(scrapes, func(a, b int) bool { return scrapes[a].at < scrapes[b].at })
	all := &world{db: db, labels: map[string]map[string]bool{}, last: scrapes[len(scrapes)-1].at}
	for _, scrape := range scrapes {
		if err := all.append(scrape.instance, scrape.at, scrape.text); err != nil {
			return nil, fmt.Errorf("%s at %d: %w", scrape.instance, scrape.at, err)
		}
	}
	return all, nil
}

func (w *world) append(instance string, at int64, text []byte) error {
	into := w.db.Appender(context.Background())
	add := func(series labels.Labels, value float64) error {
		target := labels.NewBuilder(series).Set("instance", instance).Set("job", job).Labels()
		name := series.Get(model.MetricNameLabel)
		if w.labels[name] == nil {
			w.labels[name] = map[string]bool{}
		}
		target.Range(func(label labels.Label) { w.labels[name][label.Name] = true })
		_, err := into.Append(0, target, at, value)
		return err
	}
	if err := add(labels.FromStrings(model.MetricNameLabel, "up"), 1); err != nil {
		return err
	}
	lines, err := textparse.New(text, "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return into.Commit()
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		lines.Labels(&series)
		_, _, value := lines.Series()
		if err := add(series, value); err != nil {
			return err
		}
	}
}

// judge returns what is wrong with an expression.
func (w *world) judge(one expression, fires, empty []string) error {
	language := parser.NewParser(parser.Options{})
	parsed, err := language.ParseExpr(one.text)
	if err != nil {
		return err
	}
	if err := w.names(parsed); err != nil {
		return err
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: language,
	})
	query, err := engine.NewInstantQuery(context.Background(), w.db, nil, one.text, time.UnixMilli(w.last))
	if err != nil {
		return err
	}
	defer query.Close()
	answer := query.Exec(context.Background())
	if answer.Err != nil {
		return answer.Err
	}
	if len(answer.Warnings) > 0 {
		return fmt.Errorf("the engine warns: %v", answer.Warnings.AsErrors())
	}
	samples, err := answer.Vector()
	if err != nil {
		return err
	}
	has := slices.ContainsFunc(samples, func(sample promql.Sample) bool { return !math.IsNaN(sample.F) })
	switch {
	case one.isAlert && has != slices.Contains(fires, one.name):
		return fmt.Errorf("it fires: %v, %v", has, samples)
	case !one.isAlert && has == slices.Contains(empty, one.name):
		return fmt.Errorf("it has samples: %v", has)
	}
	return nil
}

// names says which metric or label of an expression no scrape has.
func (w *world) names(parsed parser.Expr) error {
	var wrong error
	used := map[string]bool{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, isSelector := node.(*parser.VectorSelector)
		if !isSelector {
			return nil
		}
		has := w.labels[selector.Name]
		if has == nil {
			wrong = fmt.Errorf("no scrape has a metric %q", selector.Name)
			return nil
		}
		for _, matcher := range selector.LabelMatchers {
			if !has[matcher.Name] {
				wrong = fmt.Errorf("no scrape has a label %q of %s", matcher.Name, selector.Name)
			}
		}
		for label := range has {
			used[label] = true
		}
		return nil
	})
	if wrong != nil {
		return wrong
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var asked []string
		switch node := node.(type) {
		case *parser.AggregateExpr:
			asked = node.Grouping
		case *parser.BinaryExpr:
			if node.VectorMatching != nil {
				asked = append(asked, node.VectorMatching.MatchingLabels...)
				asked = append(asked, node.VectorMatching.Include...)
			}
		}
		for _, label := range asked {
			if !used[label] {
				wrong = fmt.Errorf("none of its metrics has a label %q", label)
			}
		}
		return nil
	})
	return wrong
}
