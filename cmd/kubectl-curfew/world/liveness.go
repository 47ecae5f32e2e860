package world

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/wellknown"
)

// Lease is the Lease of the controller.
type Lease struct {
	Presence
	// Name is the value of --lease-name. Unused is --leader-elect=false: no process renews it.
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

// Workload is the state of a Deployment of Curfew.
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
		served = served || group.Name == wellknown.Group
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

// Probe is the result of two dry runs that create a Namespace, which each webhook answers in its
// own way.
type Probe struct {
	// Tried is false where the user may not create Namespaces.
	Tried bool
	// Defaults and Validates report whether the API server called the webhook.
	Defaults, Validates bool
}

// Probe finds out whether the API server calls the webhooks. Nothing is stored.
func (w *World) Probe(ctx context.Context) (Probe, error) {
	kind := Kind{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Resource: "namespaces"}
	if may, err := w.MayI(ctx, kind, "", "", "create"); err != nil || !may {
		return Probe{}, err
	}
	filled, err := w.dryRunNamespace(ctx, "1h")
	if err != nil {
		return Probe{}, fmt.Errorf("creating a namespace in a dry run: %w", err)
	}
	_, defaults := filled.GetLabels()[wellknown.LabelInUse]
	_, err = w.dryRunNamespace(ctx, "soon")
	refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	if err != nil && !(refused && strings.Contains(err.Error(), wellknown.AnnotationDefaultTTL)) {
		return Probe{}, fmt.Errorf("creating a namespace with a bad default in a dry run: %w", err)
	}
	return Probe{Tried: true, Defaults: defaults, Validates: err != nil}, nil
}

func (w *World) dryRunNamespace(ctx context.Context, ttl string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	object.SetGenerateName("curfew-status-")
	object.SetAnnotations(map[string]string{wellknown.AnnotationDefaultTTL: ttl})
	return w.clients.Objects.Resource(namespaceResource).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
}
