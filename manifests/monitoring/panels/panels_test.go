package panels

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	scrape = 15 * time.Second
	last   = 10 * time.Minute
)

// point is a value at a time.
type point struct {
	at    int64
	value float64
}

func (p point) T() int64                      { return p.at }
func (p point) F() float64                    { return p.value }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// exposed are the series of Curfew, scraped for a while. Counters grow by one each time.
func exposed(t *testing.T) (out []series) {
	t.Helper()
	for line := range strings.Lines(read(t, "../testdata/series.txt")) {
		kind, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		metric, err := parser.ParseMetric(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		one := series{labels: metric}
		for at, value := time.Duration(0), 1.0; at <= last; at += scrape {
			one.samples = append(one.samples, point{at.Milliseconds(), value})
			if kind == "counter" {
				value++
			}
		}
		out = append(out, one)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// seriesSet is a [storage.SeriesSet] of all that was found.
type seriesSet struct {
	rest []storage.Series
	at   storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.at, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

func database(all []series) storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			var found []storage.Series
			for _, one := range all {
				matches := true
				for _, m := range matchers {
					matches = matches && m.Matches(one.labels.Get(m.Name))
				}
				if matches {
					found = append(found, storage.NewListSeries(one.labels, one.samples))
				}
			}
			return &seriesSet{rest: found}
		}}}
}

// evaluate is the result of a query at the last scrape. NaN is no value: a panel shows nothing.
func evaluate(t *testing.T, engine *promql.Engine, data storage.Queryable, expr string) (values int) {
	t.Helper()
	expr = strings.NewReplacer("$cluster", ".*", "$__rate_interval", "1m").Replace(expr)
	query, err := engine.NewInstantQuery(t.Context(), data, nil, expr, time.UnixMilli(last.Milliseconds()))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	for _, sample := range vector {
		if !math.IsNaN(sample.F) {
			values++
		}
	}
	return values
}

func engine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
}

// TestNoPanelIsEmpty: each query of the dashboard shows a value once all that it is about has
// happened. A query for something that does not exist shows none.
func TestNoPanelIsEmpty(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal([]byte(read(t, "../dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	prometheus, data, shown := engine(), database(exposed(t)), 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			shown++
			if evaluate(t, prometheus, data, target.Expr) == 0 {
				t.Errorf("panel %s is empty: %s", panel.Title, target.Expr)
			}
		}
	}
	if shown < 40 {
		t.Errorf("the dashboard has only %d queries", shown)
	}
	for _, absent := range []string{
		`sum(curfew_overdue_things)`,
		`sum by (result) (rate(curfew_deletion_attempts_total{result="vanished"}[$__rate_interval]))`,
	} {
		if evaluate(t, prometheus, data, absent) > 0 {
			t.Errorf("%s has a value", absent)
		}
	}
}

var alertExpr = regexp.MustCompile(`(?m)^ +expr: (?:>-?|\|)?\n?((?:.+\n)+?) +(?:for|labels):`)

// TestAlertsAreQueries: Prometheus evaluates each alert.
func TestAlertsAreQueries(t *testing.T) {
	rules := read(t, "../rules.yml")
	prometheus, data := engine(), database(exposed(t))
	found := alertExpr.FindAllStringSubmatch(rules, -1)
	if want := strings.Count(rules, "- alert: "); len(found) != want || want < 20 {
		t.Fatalf("found %d expressions of %d alerts", len(found), want)
	}
	for _, match := range found {
		evaluate(t, prometheus, data, strings.TrimSpace(match[1]))
	}
}
