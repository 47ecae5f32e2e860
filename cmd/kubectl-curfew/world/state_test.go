package world

import (
	"testing"
	"time"
)

// A stopped controller is never reported as running. If its state cannot be read, it is unknown.
func TestStateOfTheController(t *testing.T) {
	fresh := Lease{Presence: Found, Holder: "a", Age: 15 * time.Second, Duration: 15 * time.Second}
	change := func(by func(*Lease)) Lease {
		out := fresh
		by(&out)
		return out
	}
	stale := change(func(l *Lease) { l.Age = 35 * time.Second })
	missing, unread := Lease{Presence: Missing}, Lease{Presence: Unread}
	deployed := func(ready, wanted int32) Workload { return Workload{Presence: Found, Ready: ready, Wanted: wanted} }
	const leads = "no replica of Curfew's controller leads: "
	for name, test := range map[string]struct {
		lease    Lease
		workload Workload
		settings Presence
		unserved bool
		state    State
		why      string
	}{
		"it leads":                    {lease: fresh, settings: Found, state: Running, why: "a leads, and renewed its Lease 15s ago"},
		"killed":                      {lease: stale, settings: Found, state: Stopped, why: leads + "a last renewed its Lease 35s ago"},
		"killed, replicas are ready":  {lease: stale, workload: deployed(2, 2), settings: Found, state: Stopped, why: leads + "a last renewed its Lease 35s ago; ready replicas: 2 of 2"},
		"ended":                       {lease: change(func(l *Lease) { l.Holder, l.Age = "", time.Second }), settings: Found, state: Stopped, why: leads + "the last one ended 1s ago"},
		"scaled to zero":              {lease: change(func(l *Lease) { l.Holder, l.Age = "", time.Minute }), workload: deployed(0, 0), settings: Found, state: Stopped, why: leads + "the last one ended 1m0s ago; ready replicas: 0 of 0"},
		"a clock that is ahead":       {lease: change(func(l *Lease) { l.Age = -time.Hour }), settings: Found, state: Stopped, why: "the clock of Curfew's controller is wrong: it renewed its Lease 1h0m0s after the API server's time"},
		"a moment ahead":              {lease: change(func(l *Lease) { l.Age = -time.Second }), state: Running, why: "a leads, and renewed its Lease 0s ago"},
		"never led":                   {lease: missing, workload: deployed(0, 2), settings: Missing, state: Stopped, why: leads + `there is no Lease l in namespace "c"; ready replicas: 0 of 2`},
		"settings are left":           {lease: missing, workload: Workload{Presence: Missing}, settings: Found, state: Stopped, why: leads + `there is no Lease l in namespace "c"`},
		"another namespace":           {lease: missing, workload: Workload{Presence: Missing}, settings: Missing, state: NotInstalled, why: `Curfew does not run in namespace "c", which has no Lease l and no ConfigMap curfew-settings; --curfew-namespace names another`},
		"not installed":               {lease: missing, workload: Workload{Presence: Missing}, settings: Missing, unserved: true, state: NotInstalled, why: "Curfew is not installed in this cluster: the API server serves no kind of group curfew.dev"},
		"not installed, for a tenant": {lease: unread, unserved: true, state: NotInstalled, why: "Curfew is not installed in this cluster: the API server serves no kind of group curfew.dev"},
		"without its kinds":           {lease: fresh, settings: Found, unserved: true, state: Running, why: "a leads, and renewed its Lease 15s ago"},
		"for a tenant":                {lease: unread, state: Unknown, why: `you may not get leases/l in namespace "c"`},
		"by its replicas":             {lease: unread, workload: deployed(1, 2), state: Running, why: "ready replicas: 1 of 2"},
		"by its replicas, none":       {lease: unread, workload: deployed(0, 2), state: Stopped, why: `no replica of Curfew's controller runs: Deployment curfew-controller in namespace "c" has 0 of 2 ready`},
		"without election":            {lease: change(func(l *Lease) { l.Unused = true }), settings: Found, state: Unknown, why: "it has no Lease (--leader-elect=false), which would show it"},
		"without election, replicas":  {lease: Lease{Presence: Missing, Unused: true}, workload: deployed(1, 1), settings: Found, state: Running, why: "ready replicas: 1 of 1"},
		"without election, none":      {lease: change(func(l *Lease) { l.Unused = true }), workload: deployed(0, 1), settings: Found, state: Stopped, why: `no replica of Curfew's controller runs: Deployment curfew-controller in namespace "c" has 0 of 1 ready`},
	} {
		c := Controller{Namespace: "c", Lease: test.lease, Workload: test.workload, Settings: test.settings}
		c.Lease.Name = "l"
		c.judge(!test.unserved)
		if c.State != test.state || c.Why != test.why {
			t.Errorf("%s: %s, %q; want %s, %q", name, c.State, c.Why, test.state, test.why)
		}
		if have, want := len(c.down()) > 0, test.state == Stopped || test.state == NotInstalled; have != want {
			t.Errorf("%s: the state blocks deletions: %t, want %t", name, have, want)
		}
	}
}
