package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// labelCreateOptions are the flags of the creation of labelled objects.
var labelCreateOptions struct {
	objects, rounds, parallel int
	ways                      string
}

func init() {
	register(bench{
		name: "label_create", about: "creating ConfigMaps with and without a TTL label, many at a time", position: 40, run: runLabelCreate,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&labelCreateOptions.objects, "label_create-objects", 16_000, "how many ConfigMaps are created in each way a round")
			fs.IntVar(&labelCreateOptions.rounds, "label_create-rounds", 7, "how many rounds")
			fs.StringVar(&labelCreateOptions.ways, "label_create-ways", "", "create in these `ways` only, separated by commas")
			fs.IntVar(&labelCreateOptions.parallel, "label_create-parallel", loaders, "how many requests at a time")
		},
	})
}

// way is one way of creating ConfigMaps.
type way struct {
	name, about string
	namespace   string
	label       string
}

// otherLabel is what the unlabelled ones carry in the label's place, so that no object is smaller
// than another.
const otherLabel = "bench1.dev/ttl"

// object is a ConfigMap as the way makes it.
func (w way) object(name string) *corev1.ConfigMap {
	out := configMap(name, w.label)
	if w.label == "" {
		out.Labels[otherLabel] = "30d"
	}
	return out
}

// Ways of creating. In the namespace with bounds the API server sends every labelled object, since
// only Curfew can tell whether its TTL is within them.
const (
	wayPlain    = "unlabelled"
	wayLabelled = "labelled"
	wayDate     = "date"
	wayBounded  = "bounded"

	boundedNamespace = "bench-bounded"
)

var ways = []way{
	{name: wayPlain, about: "the same with a label that is not Curfew's", namespace: benchNamespace},
	{name: wayLabelled, about: "with label 30d", namespace: benchNamespace, label: "30d"},
	{name: wayDate, about: "with a date as label", namespace: benchNamespace, label: "2099-12-24"},
	{name: wayBounded, about: "with label 30d, in a namespace with bounds", namespace: boundedNamespace, label: "30d"},
}

// labelCreateRun is one way in one round. It is written to .bench/runs-label_create.json.
type labelCreateRun struct {
	Round     int     `json:"round"`
	Way       string  `json:"way"`
	Objects   int     `json:"objects"`
	PerSecond float64 `json:"perSecond"`
	// Calls is how often the API server asked Curfew meanwhile.
	Calls  float64 `json:"calls"`
	Others float64 `json:"others"`
	// CPU is the processor time of each process for one object, in microseconds.
	CPU map[string]float64 `json:"cpu"`
}

// cpu is that of all of them together.
func (r *labelCreateRun) cpu() float64 {
	sum := 0.0
	for _, of := range r.CPU {
		sum += of
	}
	return sum
}

func runLabelCreate(ctx context.Context, e *environment) (results []result, err error) {
	o := labelCreateOptions
	if o.objects < 2 || o.rounds < 1 || o.parallel < 1 {
		return nil, fmt.Errorf("%d objects, %d rounds, %d at a time: give at least 2, 1 and 1", o.objects, o.rounds, o.parallel)
	}
	chosen, err := chooseWays(o.ways)
	if err != nil {
		return nil, err
	}
	s, controller, err := e.openLabelSite(ctx)
	defer func() {
		if controller != nil {
			controller.stop()
		}
		err = errors.Join(err, s.close(ctx))
	}()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(quietly(connect(e.config)))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	l := labelled{client}
	pids := e.processes()
	pids["webhook"], pids["controller"] = s.curfew.cmd.Process.Pid, controller.cmd.Process.Pid
	var all []labelCreateRun
	// A first round that does not count warms what all find warm later.
	for n := range o.rounds + 1 {
		for i := range chosen {
			w := chosen[(i+n)%len(chosen)]
			set := jobSet{prefix: fmt.Sprintf("r%d-%s", n, w.name), count: o.objects}
			run, err := e.createWay(ctx, l, w, set, pids, n)
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", n, w.name, err)
			}
			if n == 0 {
				continue
			}
			fmt.Fprintf(e.out, "  round %d  %-12s%9.1f creates/s   %6.0f calls   others %2.0f%%   %5.0f µs an object: %s\n", n, w.name, run.PerSecond, run.Calls, run.Others*100,
				run.cpu(), showCPU(run.CPU))
			all = append(all, run)
			if err := e.writeRuns("label_create", all); err != nil {
				return nil, err
			}
		}
	}
	return summarizeLabelCreate(all), nil
}

func chooseWays(only string) ([]way, error) {
	if only == "" {
		return ways, nil
	}
	var out []way
	for name := range strings.SplitSeq(only, ",") {
		at := slices.IndexFunc(ways, func(w way) bool { return w.name == name })
		if at < 0 {
			return nil, fmt.Errorf("-label_create-ways %q: there is no %q, take some of %s,%s,%s,%s", only, name, wayPlain, wayLabelled, wayDate, wayBounded)
		}
		out = append(out, ways[at])
	}
	return out, nil
}

// quietly has warnings of the API server not written into what the bench prints.
func quietly(config *rest.Config) *rest.Config {
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// createWay creates a set in one way, clears it away and tells how fast it was.
func (e *environment) createWay(ctx context.Context, l labelled, w way, set jobSet, pids map[string]int, n int) (labelCreateRun, error) {
	run := labelCreateRun{Round: n, Way: w.name, Objects: set.count}
	before, err := calls(ctx, l.client)
	if err != nil {
		return run, err
	}
	from, err := clock(slices.Collect(maps.Values(pids)))
	if err != nil {
		return run, err
	}
	spent := used(pids)
	began := time.Now()
	err = set.each(ctx, labelCreateOptions.parallel, func(ctx context.Context, name string) error {
		_, err := l.client.CoreV1().ConfigMaps(w.namespace).Create(ctx, w.object(name), metav1.CreateOptions{})
		return err
	})
	took := time.Since(began)
	if err != nil {
		return run, fmt.Errorf("create ConfigMaps: %w", err)
	}
	to, err := clock(slices.Collect(maps.Values(pids)))
	if err != nil {
		return run, err
	}
	run.CPU = perObject(spent, used(pids), set.count)
	after, err := calls(ctx, l.client)
	if err != nil {
		return run, err
	}
	run.PerSecond, run.Calls, run.Others = round(float64(set.count)/took.Seconds()), after-before, round(others(from, to))
	err = set.each(ctx, loaders, func(ctx context.Context, name string) error {
		return l.client.CoreV1().ConfigMaps(w.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
	if err != nil {
		return run, fmt.Errorf("delete the ConfigMaps again: %w", err)
	}
	return run, w.check(run)
}

// check demands that a way does what its name says: a measurement of the cost of a call must have
// made it.
func (w way) check(run labelCreateRun) error {
	want := 0.0
	if w.name == wayDate || w.name == wayBounded {
		want = float64(run.Objects)
	}
	if run.Calls < want || want == 0 && run.Calls > 0.01*float64(run.Objects) {
		return fmt.Errorf("the API server called Curfew %.0f times for %d ConfigMaps, want %.0f", run.Calls, run.Objects, want)
	}
	return nil
}

// calls is how often the API server has called a webhook of Curfew's for a label.
func calls(ctx context.Context, client kubernetes.Interface) (float64, error) {
	data, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the API server's metrics: %w", err)
	}
	var count float64
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "apiserver_admission_webhook_admission_duration_seconds_count{") && strings.Contains(line, `name="validate-labels`) {
			var value float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &value); err != nil {
				return 0, fmt.Errorf("read the API server's metrics: %w", err)
			}
			count += value
		}
	}
	return count, nil
}

// openLabelSite installs Curfew's admission with its controller, which keeps the webhook
// configuration that has labels sent, and returns when the API server heeds it. What it returned is
// to be closed whatever the error says.
func (e *environment) openLabelSite(ctx context.Context) (*site, *curfewProcess, error) {
	s := &site{env: e}
	var err error
	if s.client, err = kubernetes.NewForConfig(quietly(connect(e.config))); err != nil {
		return s, nil, fmt.Errorf("make a client: %w", err)
	}
	if err := e.grantLabels(ctx, s.client); err != nil {
		return s, nil, err
	}
	if s.curfew, err = s.startCurfew(ctx); err != nil {
		return s, nil, err
	}
	for name, annotations := range map[string]map[string]string{benchNamespace: nil, boundedNamespace: {"curfew.dev/max-ttl": "60d"}} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
		if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return s, nil, fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	controller, err := e.launchCurfew(ctx, e.logPath("label_create-controller"), e.curfewConfig)
	if err != nil {
		return s, nil, err
	}
	if err := controller.awaitLabels(ctx); err != nil {
		return s, controller, err
	}
	return s, controller, s.awaitBounded(ctx)
}

// awaitBounded returns when the API server has labels reviewed: one outside of the bounds is
// refused.
func (s *site) awaitBounded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := s.client.CoreV1().ConfigMaps(boundedNamespace).Create(ctx, configMap("probe", "90d"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "curfew.dev/max-ttl") {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("a label outside of the bounds is not refused (%v)", err)
		}
	}
}

// processes are the control plane's, and the client.
func (e *environment) processes() map[string]int {
	pids := map[string]int{"client": os.Getpid()}
	for name, component := range e.state.Components {
		pids[name] = component.PID
	}
	return pids
}

func showCPU(of map[string]float64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s %.0f", name, of[name]))
	}
	return strings.Join(out, ", ")
}

func summarizeLabelCreate(all []labelCreateRun) []result {
	rates, cpu := map[string][]float64{}, map[string][]float64{}
	for _, run := range all {
		rates[run.Way] = append(rates[run.Way], run.PerSecond)
		cpu[run.Way] = append(cpu[run.Way], run.cpu())
	}
	about := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == wayPlain })].about
	var results []result
	for _, of := range []struct{ name, way string }{
		{"vs_unlabelled", wayLabelled}, {"date.vs_unlabelled", wayDate}, {"bounded.vs_unlabelled", wayBounded},
	} {
		if len(rates[of.way]) > 0 && len(rates[wayPlain]) > 0 {
			results = append(results, compare(labelName("create", of.name), "creates/s", rates[of.way], about, rates[wayPlain]),
				compare(labelName("create", "cpu", of.name), "µs", cpu[of.way], about, cpu[wayPlain]))
		}
	}
	return results
}
