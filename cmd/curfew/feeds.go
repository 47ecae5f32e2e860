package main

import (
	"fmt"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/feedset"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
)

// feedMaker makes the feed of any kind.
type feedMaker struct {
	typed   kubernetes.Interface
	objects dynamic.Interface
	partial metadata.Interface
	shared  feed.Options
}

func newFeedMaker(config *rest.Config, objects dynamic.Interface, shared feed.Options) (*feedMaker, error) {
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
	return &feedMaker{typed: typed, objects: objects, partial: partial, shared: shared}, nil
}

// feeds is the set that runs all feeds, once Curfew has the permissions that they need.
func (m *feedMaker) feeds(config *rest.Config) (*feedset.Set, error) {
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	reviews := permission.Reviews{Access: authorization.SelfSubjectAccessReviews()}
	return feedset.New(feedset.Options{
		Make:    func(spec *feedset.Spec) (feedset.Feed, error) { return m.make(spec) },
		Tracker: m.shared.Engine, Lacks: reviews.Lacks, Clock: m.shared.Clock,
	}), nil
}

func (m *feedMaker) make(spec *feedset.Spec) (*feed.Feed, error) {
	switch {
	case spec.Purpose != feedset.Finish:
		return m.labelled(spec)
	case spec.Profile != nil:
		return feed.New(feed.Objects(m.objects, spec.Profile), m.shared)
	case spec.Kind == policy.JobProfile.Kind:
		return feed.New(feed.Jobs(m.typed), m.shared)
	case spec.Kind == policy.PodProfile.Kind:
		return feed.New(feed.Pods(m.typed), m.shared)
	default:
		return nil, fmt.Errorf("%s has no profile: this is a bug", spec.Kind)
	}
}

func (m *feedMaker) labelled(spec *feedset.Spec) (*feed.Feed, error) {
	options := m.shared
	options.Forbidden = spec.Forbidden
	options.RelistEvery = staggered(options.RelistEvery, spec.Kind.String())
	return feed.New(feed.Labelled(m.partial, m.objects, feed.LabelledKind{
		Kind: spec.Kind, Resource: spec.Resource.Resource, ClusterScoped: spec.ClusterScoped,
		Protobuf: kubernetesscheme.Scheme.Recognizes(spec.Kind), Aggregated: spec.Aggregated,
		Namespace: spec.Namespace, Alias: spec.Purpose == feedset.Alias, Propagation: spec.Propagation,
	}), options)
}

// staggered lengthens an interval by up to a fifth, by the kind's name: a hundred kinds are not
// listed again in the same second.
func staggered(every time.Duration, name string) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // It never fails.
	return every + time.Duration(float64(every)/5*float64(hash.Sum32())/(1<<32))
}
