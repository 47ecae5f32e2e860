package monitoring_test

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "write the series that Curfew exposes into testdata/series.txt")

// seriesFile lists all series with their type. Module manifests/monitoring/panels has Prometheus's
// own engine evaluate the dashboard and the alerts against them.
const seriesFile = "testdata/series.txt"

// TestSeries: the file has the series of the real collectors, and no other.
func TestSeries(t *testing.T) {
	exposed := families(t)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(exposed)) {
		family := exposed[name]
		for _, metric := range family.GetMetric() {
			labels := ""
			for _, pair := range metric.GetLabel() {
				labels += pair.GetName() + `="` + pair.GetValue() + `",`
			}
			kind := strings.ToLower(family.GetType().String())
			if family.GetType() != dto.MetricType_HISTOGRAM {
				lines = append(lines, kind+" "+name+"{"+labels+"}")
				continue
			}
			for _, le := range []string{"0.1", "1", "60", "+Inf"} {
				lines = append(lines, "counter "+name+"_bucket{"+labels+`le="`+le+`"}`)
			}
			lines = append(lines, "counter "+name+"_count{"+labels+"}", "counter "+name+"_sum{"+labels+"}")
		}
	}
	text := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(seriesFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(read(t, seriesFile)); got != text {
		t.Errorf("%s differs from the exposed series: run this test with -update", seriesFile)
	}
}
