package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// addPlatform follows, on every replica, the objects by which admission and the controller judge:
// profiles, policies, kinds, runtimes, namespaces.
func (p *process) addPlatform(ctx context.Context) error {
	builtin, err := profiles.All()
	if err != nil {
		return err
	}
	if !p.options.builtinProfiles {
		builtin = profiles.Typed(builtin)
	}
	p.platform.Platform, err = follow.NewPlatform(follow.Options{
		Builtin: builtin, Source: func(resource schema.GroupVersionResource) follow.Source { return p.dynamic.Resource(resource) }, Client: p.dynamic, Clock: p.clock, Log: p.log,
	})
	if err != nil {
		return err
	}
	p.platform.Namespaces, err = follow.NewNamespaces(ctx, p.mgr.GetCache(), p.mgr.GetAPIReader(), p.clock, p.log)
	if err != nil {
		return err
	}
	return p.mgr.Add(p.platform.Platform)
}

// feedMaker makes the feed of any kind.
type feedMaker struct {
	options *options
	typed   kubernetes.Interface
	objects dynamic.Interface
	partial metadata.Interface
	jobs    *follow.Jobs
	shared  feed.Options
}

func newFeedMaker(options *options, config *rest.Config, objects dynamic.Interface, jobs *follow.Jobs, shared feed.Options) (*feedMaker,
	error) {
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType, protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	typed, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return &feedMaker{options: options, typed: typed, objects: objects, partial: partial, jobs: jobs, shared: shared}, nil
}

// feeds is the set that runs all feeds, once Curfew has the permissions that they need.
func (m *feedMaker) feeds(reviews permission.Reviews) *discovery.Set {
	return discovery.NewSet(discovery.SetOptions{
		Tracker: m.shared.Engine, Lacks: reviews.LacksIn, Clock: m.shared.Clock,
	})
}

// withProfile makes the feed of a kind with a profile.
func (m *feedMaker) withProfile(spec *discovery.Spec) (discovery.Feed, error) {
	var kind feed.Kind
	switch {
	case spec.Profile != nil:
		kind = feed.Objects(m.objects, spec.Profile)
	case spec.Kind == policy.JobProfile.Kind:
		kind = feed.Jobs(m.typed)
		kind.Observer = m.jobs
	case spec.Kind == policy.PodProfile.Kind:
		kind = feed.Pods(m.typed)
	default:
		return nil, fmt.Errorf("%s has no profile: this is a bug", spec.Kind)
	}
	kind.Triggers = m.options.judges(profileOf(spec))
	return feed.New(kind, m.shared)
}

// profileOf returns the profile of the kind. Typed kinds only have facts.
func profileOf(spec *discovery.Spec) *expression.Profile {
	if spec.Profile != nil {
		return spec.Profile
	}
	return &expression.Profile{Profile: policy.NewProfiles(policy.BuiltinProfiles()...).For(spec.Kind)}
}

// labelled makes the feed of the objects of a kind with a TTL label.
func (m *feedMaker) labelled(spec *discovery.Spec) (discovery.Feed, error) {
	options := m.shared
	options.Forbidden = spec.Forbidden
	options.RelistEvery = staggered(options.RelistEvery, spec.Kind.String())
	return feed.New(feed.Labelled(m.partial, m.objects, feed.LabelledKind{
		Kind: spec.Kind, Resource: spec.Resource.Resource, ClusterScoped: spec.ClusterScoped,
		Protobuf: kubernetesscheme.Scheme.Recognizes(spec.Kind), Aggregated: spec.Aggregated,
		Namespace: spec.Namespace, Alias: spec.Purpose == discovery.Alias, Propagation: spec.Propagation,
	}), options)
}

// staggered lengthens an interval by up to a fifth, by the kind's name: a hundred kinds are not
// listed again in the same second.
func staggered(every time.Duration, name string) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // It never fails.
	return every + time.Duration(float64(every)/5*float64(hash.Sum32())/(1<<32))
}

// addCoverage wires profiles, policies and permissions → which requests the API server sends.
func (c *controller) addCoverage(context.Context) (err error) {
	configurations := func(resource string) webhookconfig.Client {
		return c.objects.Resource(admissionv1.SchemeGroupVersion.WithResource(resource))
	}
	var places func() ([]discovery.Place, bool)
	if c.labels != nil {
		places = c.labels.Places
	}
	c.coverage = webhookconfig.New(webhookconfig.Options{
		Input: webhookconfig.Input{
			Namespace: c.options.namespace, Controller: controllerAccount, FailClosed: c.options.failClosed, Alias: c.options.kyvernoLabel,
			Protect: c.options.protected(), DryRun: c.options.dryRun, Off: c.options.triggers(false),
		},
		Kinds: c.platform.Platform.Served, RuntimesKnown: c.platform.Platform.RuntimesKnown, Policies: c.policies.Objects, Places: places,
		Mutating: configurations("mutatingwebhookconfigurations"), Validating: configurations("validatingwebhookconfigurations"),
		Static: certs.DefaultConfiguration, Changed: c.reported.Set,
		Clock: c.clock, Log: c.log, Registerer: metrics.Registry,
	})
	return nil
}
