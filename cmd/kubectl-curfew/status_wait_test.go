package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// TestStatusWaits until no check fails, or until its timeout.
func TestStatusWaits(t *testing.T) {
	for name, test := range map[string]struct {
		line    string
		bad     int // how many results are bad before the first good one
		away    int // how many rounds get no answer
		tenant  bool
		misled  bool // The configuration cannot be used.
		said    string
		asked   int
		code    int
		lasting time.Duration
	}{
		"good at once":       {line: "status --wait", asked: 1},
		"after three checks": {line: "status --wait", bad: 3, asked: 4, lasting: 6 * time.Second},
		"too late":           {line: "status --wait --timeout 5s", bad: 100, asked: 3, code: console.ExitBadNews, lasting: 5 * time.Second},
		"without --wait":     {line: "status", bad: 1, asked: 1, code: console.ExitBadNews},
		"away for a moment":  {line: "status --wait", bad: 1, away: 2, asked: 4, lasting: 6 * time.Second},
		"away at the end": {line: "status --wait --timeout 5s", away: 100, asked: 3, code: console.ExitBadNews, lasting: 5 * time.Second,
			said: "error: not good within 5s: reading the settings of Curfew's controller in namespace \"curfew-system\": connection refused\n"},
		"bad, then away": {line: "status --wait --timeout 5s", bad: 2, away: 100, asked: 3, code: console.ExitBadNews, lasting: 5 * time.Second, said: "connection refused\n"},
		"bad to the end": {line: "status --wait --timeout 5s", bad: 100, asked: 3, code: console.ExitBadNews, lasting: 5 * time.Second, said: "error: not good within 5s: webhook failed\n"},
		"not known at the end": {line: "status --wait --timeout 3s", tenant: true, asked: 2, code: console.ExitBadNews, lasting: 3 * time.Second,
			said: "error: not good within 3s: controller unknown, webhook unknown\n"},
		"away without --wait": {line: "status", away: 1, asked: 1, code: console.ExitUsage, said: "connection refused\n"},
		"no such context":     {line: "status --wait", misled: true, asked: 1, code: console.ExitUsage, said: "error: no such context\n"},
	} {
		t.Run(name, func(t *testing.T) {
			good, down := healthy(t), healthy(t)
			down.reached, down.webhook, down.endpoints = false, 0, []bool{false}
			t.Setenv("KUBECONFIG", os.DevNull)
			synctest.Test(t, func(t *testing.T) {
				began, asked := time.Now(), 0
				up, broken, away := good.cluster(t), down.cluster(t), good.cluster(t)
				away.objects.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("connection refused")
				})
				for _, key := range []string{"get configmaps", "get leases", "get deployments", "create namespaces", "list endpointslices"} {
					up.notMine[key] = test.tenant
				}
				command := root(console.Environment{Now: func() time.Time { return noon }, Terminal: func(any) bool { return false },
					Connect: func(config clientcmd.ClientConfig, warnings io.Writer) (world.Clients, error) {
						asked++
						switch {
						case test.misled:
							return world.Clients{}, errors.New("no such context")
						case asked <= test.bad:
							return broken.connect(config, warnings)
						case asked <= test.bad+test.away:
							return away.connect(config, warnings)
						}
						return up.connect(config, warnings)
					}})
				var out bytes.Buffer
				command.SetArgs(words(test.line))
				command.SetOut(&out)
				command.SetErr(&out)
				code := console.Run(t.Context(), command)
				if code != test.code || asked != test.asked || time.Since(began) != test.lasting {
					t.Errorf("exit status %d after %d checks in %s\n%s", code, asked, time.Since(began), out.String())
				}
				if !strings.HasSuffix(out.String(), test.said) {
					t.Errorf("no %q in\n%s", test.said, out.String())
				}
				if strings.Count(out.String(), "CHECK ") != 1 && !test.misled && (test.bad > 0 || test.away == 0) {
					t.Errorf("not printed once:\n%s", out.String())
				}
			})
		})
	}
}
