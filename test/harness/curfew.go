package harness

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
)

// Curfew is a process of bin/curfew: a webhook or a controller.
type Curfew struct {
	*Process
	// WebhookPort is where a webhook serves; 0 for a controller.
	WebhookPort int
	// Health and Metrics are its addresses, host and port.
	Health, Metrics string
	// API is the address of a webhook's HTTP API, host and port; see [Cluster.Ask].
	API string
	// Kubeconfig is the path of the one that it was given.
	Kubeconfig string
}

// CurfewOptions say how a process of Curfew is to run.
type CurfewOptions struct {
	// Proxy stands between it and the API server; nil means none.
	Proxy *Proxy
	// Wire does so too, one layer below; nil means none.
	Wire *Wire
	// Name tells it apart from others of its command, in the names of its log and its kubeconfig;
	// empty means the command's.
	Name string
	// Kubeconfig that a process of that name was started with before. If it is empty, the process
	// gets a fresh token, and the API server has to answer.
	Kubeconfig string
	// Port of a webhook; 0 takes a free one.
	Port int
	// Installed: the manifests are installed for the port.
	Installed bool
	// Behind is what the API server reaches a webhook through, which has to be installed for its port;
	// nil means nothing.
	Behind *Balancer
	// Args are further arguments.
	Args []string
	// Program is another build of Curfew; empty means bin/curfew.
	Program string
	// Detached lets it outlive this process. A shell starts it again when it has ended.
	Detached bool
	// Env are further variables of its environment, as NAME=value.
	Env []string
}

// StartWebhook installs the manifests, starts `curfew webhook` and returns when it is ready. See
// [Cluster.WaitForWebhook] for when the API server asks it.
func (c *Cluster) StartWebhook(ctx context.Context, options CurfewOptions) (*Curfew, error) {
	port := options.Port
	if port == 0 {
		free, err := FreePort()
		if err != nil {
			return nil, err
		}
		port = free
	}
	if options.Behind == nil && !options.Installed {
		if err := c.Install(ctx, port); err != nil {
			return nil, err
		}
	}
	if err := c.serveWebhook(ctx, port); err != nil {
		return nil, err
	}
	apiPort, err := FreePort()
	if err != nil {
		return nil, err
	}
	api := fmt.Sprintf("127.0.0.1:%d", apiPort)
	// Not as in the manifests: only this machine calls it, tests ask the HTTP API, and without a Service
	// no endpoint has to leave it before a webhook ends.
	args := []string{"--host", "127.0.0.1", "--port", fmt.Sprint(port), "--api-addr", api}
	if !c.older {
		args = append(args, "--drain-delay", "0s")
	}
	options.Args = append(args, options.Args...)
	webhook, err := c.startCurfew(ctx, "webhook", options)
	if err != nil {
		return nil, err
	}
	webhook.WebhookPort, webhook.API = port, api
	if options.Behind != nil {
		options.Behind.Add(webhook)
	}
	return webhook, nil
}

// StartController starts `curfew controller` and returns when it says that it is ready. The
// manifests have to be installed.
func (c *Cluster) StartController(ctx context.Context, options CurfewOptions) (*Curfew, error) {
	if c.FailClosed && c.install == "" {
		options.Args = append([]string{"--fail-closed"}, options.Args...)
	}
	return c.startCurfew(ctx, "controller", options)
}

// LaunchController starts `curfew controller` and does not wait for it.
func (c *Cluster) LaunchController(ctx context.Context, options CurfewOptions) (*Curfew, error) {
	return c.launchCurfew(ctx, "controller", options)
}

func (c *Cluster) startCurfew(ctx context.Context, command string, options CurfewOptions) (*Curfew, error) {
	curfew, err := c.launchCurfew(ctx, command, options)
	if err != nil {
		return nil, err
	}
	if err := curfew.WaitReady(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, Tail(curfew.Log, 20))
	}
	return curfew, nil
}

func (c *Cluster) launchCurfew(ctx context.Context, command string, options CurfewOptions) (*Curfew, error) {
	program, err := options.Program, error(nil)
	if program == "" {
		if program, err = binary(c.root, "curfew"); err != nil {
			return nil, err
		}
	}
	var server string
	var authority []byte
	switch {
	case options.Proxy != nil:
		server, authority = options.Proxy.URL(), options.Proxy.Authority()
	case options.Wire != nil:
		server, authority = options.Wire.URL(), c.Config.CAData
	}
	name := cmp.Or(options.Name, command)
	curfew := &Curfew{Kubeconfig: options.Kubeconfig}
	if curfew.Kubeconfig == "" {
		if curfew.Kubeconfig, err = c.accountKubeconfig(ctx, "curfew-"+name, Namespace, "curfew-"+command, server, authority); err != nil {
			return nil, err
		}
	}
	for _, address := range []*string{&curfew.Health, &curfew.Metrics} {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	// Not as in the manifests: there is no service account to find the API server by, a namespace of a
	// test may be Curfew's, and all processes share the ports of one machine.
	args, err := c.args(ctx, command, append([]string{"--kubeconfig", curfew.Kubeconfig, "--namespace", Namespace,
		"--health-addr", curfew.Health, "--metrics-addr", curfew.Metrics}, options.Args...))
	if err != nil {
		return nil, err
	}
	if options.Detached {
		program, args = "sh", append([]string{"-c", again, "sh", program}, args...)
	}
	curfew.Process, err = startProcess("curfew "+name, c.Log("curfew-"+name), options.Detached, options.Env, program, args...)
	if err != nil {
		return nil, err
	}
	return curfew, nil
}

// again runs a program again and again, as its Deployment would.
const again = `while :; do "$@"; echo "curfew ended with code $?, and is started again in 2s" >&2; sleep 2; done`

// WaitReady returns when /readyz answers 200. A process that ended meanwhile is an error at once.
func (p *Curfew) WaitReady(ctx context.Context) error {
	var last error
	err := Poll(ctx, p.Name+" to be ready", func(ctx context.Context) (bool, error) {
		select {
		case <-p.Ended():
			return false, fmt.Errorf("it ended: %w", p.Err())
		default:
		}
		_, last = Get(ctx, nil, "http://"+p.Health+"/readyz")
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s to be ready: %w (last: %v)", p.Name, err, last)
	}
	return nil
}

// Scrape returns what /metrics says.
func (p *Curfew) Scrape(ctx context.Context) (string, error) {
	return Get(ctx, nil, "http://"+p.Metrics+"/metrics")
}

// Get returns what a URL answers, and an error unless the code is 200. A nil client is the default one.
func Get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := cmp.Or(client, http.DefaultClient).Do(request)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return string(body), fmt.Errorf("%s answered %s: %s", url, response.Status, body)
	}
	return string(body), nil
}
