package world

import (
	"cmp"
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"

	"curfew.dev/curfew/policy"
)

// Lease is what the Lease of the controller says.
type Lease struct {
	Presence
	// Name is that of --lease-name. Unused is --leader-elect=false: no process renews it.
	Name   string
	Unused bool
	// Holder is the replica that leads; "" where the last one released the Lease.
	Holder string
	// Age is the time since it was renewed, by the API server's clock. Duration is how long it
	// holds.
	Age, Duration time.Duration
}

// fresh reports whether a replica leads. A renewal in the future proves as little as an old one.
func (l *Lease) fresh() bool {
	return l.Presence == Found && l.Holder != "" && l.Age.Abs() <= l.Duration
}

// Workload is what a Deployment of Curfew says.
type Workload struct {
	Presence
	Wanted, Ready int32
	Image         string
	Args          []string
}

// defaultLease is the flag's default, and defaultLeaseDuration how long the Lease holds where it
// does not say so.
const (
	defaultLease         = "curfew-controller"
	defaultLeaseDuration = 15 * time.Second
)

var (
	leaseResource      = coordinationv1.SchemeGroupVersion.WithResource("leases")
	deploymentResource = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// readLiveness reads whether the controller runs, once its settings are read. The Lease decides:
// a replica that is ready but does not lead deletes nothing.
func (w *World) readLiveness(ctx context.Context) error {
	c := &w.Controller
	c.Lease.Name = cmp.Or(c.Lease.Name, defaultLease)
	lease, presence, err := Read[coordinationv1.Lease](ctx, w, leaseResource, c.Namespace, c.Lease.Name)
	if err != nil {
		return err
	}
	c.Lease.Presence = presence
	if presence == Found {
		c.Lease.set(&lease.Spec, w.ServerTime(ctx, w.options.Now))
	}
	if c.Workload, err = w.Workload(ctx, "curfew-controller"); err != nil {
		return err
	}
	found, err := w.discover()
	if err != nil {
		return err
	}
	served := false
	for _, group := range found.groups {
		served = served || group.Name == policy.Group
	}
	c.judge(served)
	w.noteController()
	return nil
}

func (l *Lease) set(spec *coordinationv1.LeaseSpec, now time.Time) {
	l.Duration = defaultLeaseDuration
	if spec.HolderIdentity != nil && spec.RenewTime != nil {
		l.Holder = *spec.HolderIdentity
	}
	if spec.LeaseDurationSeconds != nil {
		l.Duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	if spec.RenewTime != nil {
		l.Age = now.Sub(spec.RenewTime.Time).Truncate(time.Second)
	}
}

// Workload reads one of Curfew's Deployments.
func (w *World) Workload(ctx context.Context, name string) (Workload, error) {
	read, presence, err := Read[appsv1.Deployment](ctx, w, deploymentResource, w.Controller.Namespace, name)
	out := Workload{Presence: presence}
	if err != nil || presence != Found {
		return out, err
	}
	out.Wanted, out.Ready = 1, read.Status.ReadyReplicas
	if read.Spec.Replicas != nil {
		out.Wanted = *read.Spec.Replicas
	}
	for i := range read.Spec.Template.Spec.Containers {
		if container := &read.Spec.Template.Spec.Containers[i]; container.Name == "curfew" {
			out.Image, out.Args = container.Image, container.Args
		}
	}
	return out, nil
}
