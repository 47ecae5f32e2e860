package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/test/harness"
)

// runRestart lists the Jobs bare and restarts the controller, by turns.
func runRestart(ctx context.Context, e *environment) ([]result, error) {
	if err := e.backlog(ctx, e.objects); err != nil {
		return nil, err
	}
	// Not counted: it warms what both find warm later.
	if _, err := e.bareList(ctx, e.objects); err != nil {
		return nil, err
	}
	var list, arm []float64
	for n := 1; n <= e.rounds; n++ {
		listed, err := e.bareList(ctx, e.objects)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
		armed, err := e.arm(ctx, e.objects, n)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
		fmt.Fprintf(e.out, "round %d of %d: bare list %.2f s, from the lease to all timers armed %.2f s\n", n, e.rounds, listed, armed)
		list, arm = append(list, listed), append(arm, armed)
	}
	return []result{compare("restart.arm_"+sizeName(e.objects)+".vs_list", "s", arm, "bare paged list of the same Jobs", list)}, nil
}

// bareList is the baseline of a restart: how long client-go's typed client takes to list all Jobs,
// page by page, as Curfew's ServiceAccount. It runs in a process of its own, as Curfew does.
func (e *environment) bareList(ctx context.Context, want int) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	var report listReport
	_, output, err := timed(ctx, self, listCommand, e.curfewConfig)
	if err == nil {
		err = json.Unmarshal([]byte(output), &report)
	}
	if err != nil {
		return 0, fmt.Errorf("list bare: %w", err)
	}
	if report.Objects != want {
		return 0, fmt.Errorf("the bare list found %d Jobs of %d", report.Objects, want)
	}
	return report.Seconds, nil
}

// listCommand is the first argument that turns this program into the bare list.
const listCommand = "list"

// listReport is what the list writes when it is through.
type listReport struct {
	Objects int     `json:"objects"`
	Seconds float64 `json:"seconds"`
}

func init() { commands[listCommand] = runList }

// runList judges nothing and keeps nothing. The connection is there before the clock starts, as
// Curfew's is when it gets the lease.
func runList(ctx context.Context, args []string, out io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(connect(config))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	jobs := client.BatchV1().Jobs(metav1.NamespaceAll)
	if _, err := jobs.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("list Jobs: %w", err)
	}
	report, began := listReport{}, time.Now()
	// As many as client-go's own pager asks for at a time.
	for options := (metav1.ListOptions{Limit: 500}); ; {
		page, err := jobs.List(ctx, options)
		if err != nil {
			return fmt.Errorf("list Jobs: %w", err)
		}
		report.Objects += len(page.Items)
		if options.Continue = page.Continue; page.Continue == "" {
			break
		}
	}
	report.Seconds = time.Since(began).Seconds()
	return json.NewEncoder(out).Encode(report)
}

// restartPatience is how long a controller may take to arm all timers.
const restartPatience = 2 * time.Minute

// arm restarts the controller and reads from its log how long it
// took from the lease until all Jobs were known. That they are all armed is asked of its metrics.
func (e *environment) arm(ctx context.Context, want, round int) (float64, error) {
	log := e.logPath(fmt.Sprintf("restart-%d", round))
	c, err := e.launchCurfew(ctx, log, e.curfewConfig)
	if err != nil {
		return 0, err
	}
	// In a regular end it hands the lease back, so that the next need not wait for it.
	defer c.stop()
	if err := c.awaitTracked(ctx, want, restartPatience); err != nil {
		return 0, fmt.Errorf("%w; its log is %s", err, log)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		return 0, fmt.Errorf("read the controller's log: %w", err)
	}
	took, err := fromLeaseToArmed(data, want)
	if err != nil {
		return 0, fmt.Errorf("%w in %s", err, log)
	}
	return took.Seconds(), nil
}

// fromLeaseToArmed finds the two instants in the controller's log. A kind is listed for labels,
// too, which these Jobs have not.
func fromLeaseToArmed(log []byte, jobs int) (time.Duration, error) {
	var lease, armed time.Time
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			At      time.Time `json:"ts"`
			Msg     string    `json:"msg"`
			Kind    string    `json:"kind"`
			Waiting int       `json:"waiting"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // of the runtime's
		}
		switch {
		case line.Msg == "Successfully acquired lease" && lease.IsZero():
			lease = line.At
		case line.Msg == "all objects are known" && line.Kind == "Job" && line.Waiting == jobs && armed.IsZero():
			armed = line.At
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read the controller's log: %w", err)
	}
	switch {
	case lease.IsZero():
		return 0, errors.New("the controller does not say when it got the lease")
	case armed.IsZero():
		return 0, errors.New("the controller does not say when it knew all Jobs")
	}
	return armed.Sub(lease), nil
}

// curfewProcess is a controller whose metrics and debug pages the bench reads.
type curfewProcess struct {
	*process
	metrics, debug string // addresses
}

// launchCurfew starts the controller as the manifests do, with the kubeconfig and further flags,
// and returns when it leads: no measurement includes the wait for the lease.
func (e *environment) launchCurfew(ctx context.Context, log, kubeconfig string, flags ...string) (*curfewProcess, error) {
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	// Not as in the manifests: it runs beside the control plane, and is profiled.
	args, err := harness.ShippedArgs(e.root, "controller", append([]string{"--kubeconfig", kubeconfig,
		"--health-addr", addresses[0], "--metrics-addr", addresses[1], "--pprof-addr", addresses[2]}, flags...)...)
	if err != nil {
		return nil, err
	}
	p, err := launch(log, e.curfew, args...)
	if err != nil {
		return nil, err
	}
	c := &curfewProcess{process: p, metrics: addresses[1], debug: addresses[2]}
	err = p.awaitHealthy(ctx, http.DefaultClient, "http://"+addresses[0]+"/readyz")
	if err == nil {
		err = c.awaitLease(ctx)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("start Curfew: %w; its log is %s", err, log)
	}
	return c, nil
}

// leasePatience is longer than the lease of a controller that was killed.
const leasePatience = 30 * time.Second

// awaitLease returns when the controller leads.
func (c *curfewProcess) awaitLease(ctx context.Context) error {
	return c.poll(ctx, leasePatience, 50*time.Millisecond, func(ctx context.Context) error {
		samples, err := scrape(ctx, http.DefaultClient, "http://"+c.metrics+"/metrics")
		for series, value := range samples {
			if strings.HasPrefix(series, "leader_election_master_status{") && value == 1 {
				return nil
			}
		}
		return cmp.Or(err, errors.New("it does not lead"))
	})
}

// awaitTracked returns when so many Jobs are tracked.
func (c *curfewProcess) awaitTracked(ctx context.Context, want int, patience time.Duration) error {
	return c.poll(ctx, patience, 250*time.Millisecond, func(ctx context.Context) error {
		samples, err := scrape(ctx, http.DefaultClient, "http://"+c.metrics+"/metrics")
		got := 0.0
		for series, value := range samples {
			if strings.HasPrefix(series, "curfew_tracked_objects{") && strings.Contains(series, `kind="Job"`) {
				got += value
			}
		}
		if err == nil && int(got) != want {
			err = fmt.Errorf("Curfew tracks %.0f Jobs of %d", got, want)
		}
		return err
	})
}
