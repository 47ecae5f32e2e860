package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/lifetime"
)

// thoughtful is a person who takes a minute to say yes.
type thoughtful struct{ takesTime func() }

func (t thoughtful) Read(into []byte) (int, error) {
	t.takesTime()
	return copy(into, "y\n"), nil
}

// The label of expire-now is not expired when it is sent, however long the user takes to confirm:
// admission would deny it.
func TestExpiresWhenItIsSent(t *testing.T) {
	t.Setenv("KUBECONFIG", os.DevNull)
	cluster, instant := newFakeCluster(t, objects(t)), noon
	sent := 0
	cluster.objects.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent++
		patch, _ := action.(clienttesting.PatchAction)
		_, text, _ := strings.Cut(string(patch.GetPatch()), `"curfew.dev/ttl":"`)
		text, _, _ = strings.Cut(text, `"`)
		label, err := lifetime.ParseTTLLabel(text)
		if err != nil || !label.At.After(instant) || label.At.After(instant.Add(5*time.Second)) {
			t.Errorf("patch %s is sent at %s, want a label in the five seconds after it; error %v", patch.GetPatch(), instant.UTC(), err)
		}
		instant = instant.Add(10 * time.Second) // It takes its time to answer, too.
		return false, nil, nil
	})
	command := root(console.Environment{Now: func() time.Time { return instant }, Connect: cluster.connect, Terminal: func(any) bool { return true }})
	var buffer bytes.Buffer
	command.SetArgs(words("expire-now configmaps -l app=demo"))
	command.SetIn(thoughtful{func() { instant = instant.Add(time.Minute) }})
	command.SetOut(&buffer)
	command.SetErr(&buffer)
	if code := console.Run(t.Context(), command); code != console.ExitOK || sent != 3 {
		t.Errorf("exit status %d, %d sent: %s", code, sent, buffer.String())
	}
}

// The label of expire-now follows the API server's clock, however far off the user's is. One that
// expired on its way, since the request was slow, is sent again; any other denial is final.
func TestExpireNowByTheServersClock(t *testing.T) {
	t.Setenv("KUBECONFIG", os.DevNull)
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "demo", errors.New("denied by a webhook"))
	for name, test := range map[string]struct {
		ahead time.Duration // the user's clock
		takes []time.Duration
		code  int
	}{
		"in step":            {takes: []time.Duration{0}},
		"a minute behind":    {ahead: -time.Minute, takes: []time.Duration{0}},
		"an hour ahead":      {ahead: time.Hour, takes: []time.Duration{0}},
		"slow, then faster":  {takes: []time.Duration{10 * time.Second, 0}},
		"slow all the time":  {takes: []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second}, code: console.ExitBadNews},
		"denied for another": {takes: []time.Duration{-1}, code: console.ExitBadNews},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, server := newFakeCluster(t, objects(t)), noon
			sent := 0
			cluster.objects.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
				patch, _ := action.(clienttesting.PatchAction)
				_, text, _ := strings.Cut(string(patch.GetPatch()), `"curfew.dev/ttl":"`)
				text, _, _ = strings.Cut(text, `"`)
				label, err := lifetime.ParseTTLLabel(text)
				if err != nil || !label.At.After(server) || label.At.After(server.Add(5*time.Second)) {
					t.Errorf("patch %s is sent at %s, want a label in the five seconds after it; error %v", patch.GetPatch(), server.UTC(), err)
				}
				took := test.takes[min(sent, len(test.takes)-1)]
				sent++
				if server = server.Add(max(took, 0)); took < 0 || !label.At.After(server) {
					return true, nil, denied
				}
				return false, nil, nil
			})
			command := root(console.Environment{Now: func() time.Time { return server.Add(test.ahead) }, Terminal: func(any) bool { return true },
				Connect: func(config clientcmd.ClientConfig, warnings io.Writer) (world.Clients, error) {
					clients, err := cluster.connect(config, warnings)
					clients.ServerTime = func(context.Context) (time.Time, error) { return server, nil }
					return clients, err
				}})
			var buffer bytes.Buffer
			command.SetArgs(words("expire-now cm/demo"))
			command.SetOut(&buffer)
			command.SetErr(&buffer)
			if code := console.Run(t.Context(), command); code != test.code || sent != len(test.takes) {
				t.Errorf("exit status %d, %d sent: %s", code, sent, buffer.String())
			}
		})
	}
}

// TestInterrupted: after Ctrl-C the command still prints the objects that it changed, for programs
// too.
func TestInterrupted(t *testing.T) {
	t.Setenv("KUBECONFIG", os.DevNull)
	for _, format := range []string{"json", "text"} {
		cluster := newFakeCluster(t, objects(t))
		ctx, interrupt := context.WithCancel(t.Context())
		cluster.objects.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			if len(cluster.patched) == 1 {
				interrupt() // The second one is carried out all the same.
			}
			return false, nil, nil
		})
		command := root(console.Environment{Now: func() time.Time { return noon }, Connect: cluster.connect, Terminal: func(any) bool { return false }})
		var out, buffer bytes.Buffer
		command.SetArgs(words("expire-now configmaps -l app=demo --yes -o " + format))
		command.SetOut(&out)
		command.SetErr(&buffer)
		code := console.Run(ctx, command)
		expectExit(t, format, code, console.ExitUsage, buffer.String())
		expectEnd(t, format+": stderr", buffer.String(), "interrupted before object 3 of 3: those before it are changed\n")
		expectCount(t, format+": patches", cluster.patched, 2)
		for name, want := range map[string]bool{"demo-2": true, "plain": false} {
			ok := strings.Contains(out.String(), "configmap/"+name+" ") || strings.Contains(out.String(), `"name": "`+name+`"`)
			if ok != want {
				t.Errorf("%s: %s is printed as changed: %t, want %t\n%s", format, name, ok, want, out.String())
			}
		}
	}
}

// TestExpireNowIsPaused: expire-now refuses while the deletions by label are paused for the kind. A
// pause of another kind has no effect.
func TestExpireNowIsPaused(t *testing.T) {
	for message, refused := range map[string]bool{
		`deletions are paused: ConfigMap of source "object" in namespace "default" (Refused)`:   true,
		"deletions are paused: everything (Unreachable)":                                        true,
		`deletions are paused: Secret of source "object" in namespace "default" (Refused)`:      false,
		`deletions are paused: ConfigMap of source "policy/x" in namespace "default" (Refused)`: false,
	} {
		cluster := newFakeCluster(t, objects(t))
		cluster.changeContext(t, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", "default", field("status", map[string]any{
			"conditions": []any{map[string]any{"type": "curfew.dev/Paused", "status": "True", "lastTransitionTime": "2026-12-24T11:59:00Z", "message": message}},
		}))
		code, stdout, stderr, sent := executeIn(t, cluster, scene{}, words("expire-now cm/demo")...)
		ok := strings.Contains(stderr, "error: configmap/demo in namespace default: would stay: since 2026-12-24T11:59:00Z "+message)
		if (code == console.ExitBadNews) != refused || ok != refused || (len(sent) == 0) != refused {
			t.Errorf("%s: exit status %d, sent %q\n%s%s", message, code, sent, stdout, stderr)
		}
	}
}
