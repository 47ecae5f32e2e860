package monitoring_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/builders"
)

// alert and rules are as much of monitoring.coreos.com/v1 as rules.yml uses; decoding is strict, so
// a misspelt field fails.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type rules struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file rules
	must(t, yaml.UnmarshalStrict(read(t, "rules.yml"), &file))
	var out []alert
	for _, group := range file.Spec.Groups {
		out = append(out, group.Rules...)
	}
	return out
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	must(t, json.Unmarshal(read(t, "dashboard.json"), &dashboard))
	return dashboard.Panels
}

// target are labels that Prometheus itself puts on what it scrapes from a PodMonitor, and the one
// that many give each cluster's Prometheus as an external label.
var target = []string{"pod", "namespace", "container", "instance", "job", "cluster"}

// labelsOf are the labels of a family with the values that were seen.
func labelsOf(family *dto.MetricFamily) map[string][]string {
	out := map[string][]string{}
	for _, metric := range family.GetMetric() {
		for _, pair := range metric.GetLabel() {
			if !slices.Contains(out[pair.GetName()], pair.GetValue()) {
				out[pair.GetName()] = append(out[pair.GetName()], pair.GetValue())
			}
		}
	}
	return out
}

// ofCluster is what each query of the dashboard selects by. Prometheus adds the label, if anyone.
var ofCluster = matcher{"cluster", "=~", "$cluster"}

// check compares a query with the exposed metrics, and returns the families that it shows.
func check(expr string, exposed map[string]*dto.MetricFamily) (shown, labels []string, errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	parsed, err := scan(expr)
	if err != nil {
		return nil, nil, []error{err}
	}
	labels = slices.Clone(target)
	var grouping []string
	parsed.each(func(s *node) {
		grouping = append(grouping, s.labels...)
		if !s.metric {
			return
		}
		name, suffix := s.name, ""
		family := exposed[name]
		if family == nil {
			name, suffix = histogram(s.name)
			if family = exposed[name]; family == nil || family.GetType() != dto.MetricType_HISTOGRAM {
				bad("metric %s is not exposed", s.name)
				return
			}
		} else if family.GetType() == dto.MetricType_HISTOGRAM {
			bad("%s is a histogram: take its _bucket, _sum or _count", s.name)
		}
		shown = append(shown, name)
		known := labelsOf(family)
		for label := range known {
			labels = append(labels, label)
		}
		if suffix == "_bucket" {
			labels = append(labels, "le")
		}
		overTime := s.function == "rate" || s.function == "increase"
		grows := family.GetType() != dto.MetricType_GAUGE
		switch {
		case s.ranged != (overTime || s.function == "present_over_time"):
			bad("%s: rate, increase and present_over_time, and they alone, take a range", s.name)
		case overTime != grows && (overTime || s.function == "" && !strings.Contains(expr, "absent("+s.name)):
			bad("%s is a %s: counters want rate or increase, gauges neither", s.name, family.GetType())
		}
		for _, m := range s.matchers {
			if m == ofCluster {
				continue
			}
			values, ok := known[m.label]
			if !ok {
				bad("%s has no label %s", s.name, m.label)
				continue
			}
			alternatives := []string{m.value}
			if strings.HasSuffix(m.op, "~") {
				alternatives = strings.Split(m.value, "|")
			}
			for _, alternative := range alternatives {
				pattern := "^(?:" + alternative + ")$"
				if !strings.HasSuffix(m.op, "~") {
					pattern = "^" + regexp.QuoteMeta(alternative) + "$"
				}
				if !slices.ContainsFunc(values, regexp.MustCompile(pattern).MatchString) {
					bad("%s: label %s is never %q, but one of %q", s.name, m.label, alternative, values)
				}
			}
		}
	})
	for _, label := range grouping {
		if !slices.Contains(labels, label) {
			bad("no metric in it has the label %s", label)
		}
	}
	return shown, labels, errs
}

var (
	templated = regexp.MustCompile(`\$labels\.([a-z_]+)`)
	legend    = regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)
)

func TestQueriesAgainstMetrics(t *testing.T) {
	exposed := families(t)
	seen := map[string]bool{}
	try := func(where, expr, text string, names *regexp.Regexp) {
		shown, labels, errs := check(expr, exposed)
		for _, err := range errs {
			t.Errorf("%s: %v\n\t%s", where, err, expr)
		}
		for _, name := range shown {
			seen[name] = true
		}
		for _, match := range names.FindAllStringSubmatch(text, -1) {
			if len(errs) == 0 && !slices.Contains(labels, match[1]) {
				t.Errorf("%s: its text names the label %s, which no metric in it has", where, match[1])
			}
		}
	}
	for _, a := range alerts(t) {
		try("rules.yml: "+a.Alert, a.Expr, a.Annotations["summary"]+a.Annotations["description"], templated)
	}
	for _, p := range panels(t) {
		for _, q := range p.Targets {
			try("dashboard.json: "+p.Title, q.Expr, q.LegendFormat, legend)
		}
	}
	ours := 0
	for name := range exposed {
		if !strings.HasPrefix(name, "curfew_") {
			continue
		}
		ours++
		if !seen[name] {
			t.Errorf("%s is in no alert and in no panel", name)
		}
	}
	if ours < 15 {
		t.Errorf("only %d metrics of Curfew are exposed: something was not exercised", ours)
	}
}

// TestDashboard: each query is of the chosen clusters.
func TestDashboard(t *testing.T) {
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			parsed, err := scan(target.Expr)
			if err != nil {
				t.Fatalf("%s: %v", p.Title, err)
			}
			parsed.each(func(s *node) {
				if s.metric && !slices.Contains(s.matchers, ofCluster) {
					t.Errorf("%s: %s is of all clusters", p.Title, s.name)
				}
			})
		}
	}
	if text := string(read(t, "dashboard.json")); !strings.Contains(text, `"label_values(curfew_build_info, cluster)"`) {
		t.Error("no variable for the cluster")
	}
}

// TestClusters: with metrics of several clusters, an alert is about one of them. A cluster that is
// silent is found although others are not.
func TestClusters(t *testing.T) {
	for _, a := range alerts(t) {
		parsed, err := scan(a.Expr)
		must(t, err)
		absent := false
		parsed.each(func(n *node) {
			if slices.Contains(aggregations, n.name) && (n.matching != "by" || !slices.Contains(n.labels, "cluster")) {
				t.Errorf("%s: %s drops the label cluster", a.Alert, n.name)
			}
			absent = absent || n.name == "absent"
		})
		if absent && (parsed.name != "or" || parsed.operands[0].name != "unless" || !slices.Equal(parsed.operands[0].labels, []string{"cluster"})) {
			t.Errorf("%s fires only if all clusters are silent", a.Alert)
		}
	}
}

// TestRunbooks: each alert has a section of docs/alerts.md under its name, with its severity and an
// answer to each question, and links to it. No section is of an alert that is gone.
func TestRunbooks(t *testing.T) {
	sections := map[string]string{}
	for _, section := range strings.Split(string(read(t, "../../docs/alerts.md")), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	for _, a := range alerts(t) {
		severity, text := a.Labels["severity"], sections[a.Alert]
		delete(sections, a.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s: severity %q", a.Alert, severity)
		}
		for _, part := range []string{"**Means:** ", "**Severity:** " + severity + "\n", "**Look at:**\n\n```sh\nkubectl ", "**Do:** ", "**Harmless when:** "} {
			if !strings.Contains(text, part) {
				t.Errorf("docs/alerts.md: the section of %s has no %q", a.Alert, part)
			}
		}
		if a.Annotations["summary"] == "" || len(a.Annotations["description"]) < 80 {
			t.Errorf("%s says too little", a.Alert)
		}
		_, runbook, _ := strings.Cut(a.Annotations["description"], " Runbook: ")
		if want := "docs/alerts.md#" + strings.ToLower(a.Alert); runbook != want {
			t.Errorf("%s: its runbook is %q, want %q", a.Alert, runbook, want)
		}
		if link := a.Annotations["runbook_url"]; link != "" {
			t.Errorf("%s: links to %s, which is no address", a.Alert, link)
		}
	}
	for name := range sections {
		t.Errorf("docs/alerts.md has a section %s, and there is no such alert", name)
	}
}

// leaseName is that of the Lease which the controller's Role names.
func leaseName(t *testing.T) string {
	t.Helper()
	for _, doc := range strings.Split(string(read(t, "../rbac/controller.yaml")), "\n---\n") {
		var role rbacv1.Role
		must(t, yaml.Unmarshal([]byte(doc), &role))
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "leases") && len(rule.ResourceNames) == 1 {
				return rule.ResourceNames[0]
			}
		}
	}
	t.Fatal("no Role names a Lease")
	return ""
}

// TestPodMonitorsFindThePods: their selectors are labels of the Pods, and the port is one that the
// containers have.
func TestPodMonitorsFindThePods(t *testing.T) {
	type monitor struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			PodMetricsEndpoints []struct {
				Port string `json:"port"`
			} `json:"podMetricsEndpoints"`
		} `json:"spec"`
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), ".")
	must(t, err)
	found := 0
	for _, resource := range built.Resources() {
		if resource.GetNamespace() != "curfew-system" {
			t.Errorf("%s %s is in namespace %q", resource.GetKind(), resource.GetName(), resource.GetNamespace())
		}
		if resource.GetKind() != "PodMonitor" {
			continue
		}
		found++
		var m monitor
		must(t, yaml.Unmarshal([]byte(resource.MustYaml()), &m))
		name := strings.TrimPrefix(m.Metadata.Name, "curfew-")
		var deployment appsv1.Deployment
		must(t, yaml.UnmarshalStrict(read(t, "../deploy/"+name+".yaml"), &deployment))
		for label, value := range m.Spec.Selector.MatchLabels {
			if deployment.Spec.Template.Labels[label] != value {
				t.Errorf("%s: the Pods are not labelled %s=%s", m.Metadata.Name, label, value)
			}
		}
		ports := map[string]bool{}
		for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
			ports[port.Name] = true
		}
		if len(m.Spec.Selector.MatchLabels) == 0 || len(m.Spec.PodMetricsEndpoints) != 1 || !ports[m.Spec.PodMetricsEndpoints[0].Port] {
			t.Errorf("%s: selects %v, scrapes %v; the ports are %v", m.Metadata.Name, m.Spec.Selector, m.Spec.PodMetricsEndpoints, ports)
		}
	}
	if found != 2 || built.Size() != 4 {
		t.Errorf("%d PodMonitors in %d objects, want 2 in 4", found, built.Size())
	}
}

var must = builders.Must
