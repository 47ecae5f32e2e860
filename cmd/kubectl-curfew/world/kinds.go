package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/wellknown"
)

// Clients connect to the API server as the user.
type Clients struct {
	Discovery discovery.DiscoveryInterface
	Objects   dynamic.Interface
	Metadata  metadata.Interface
	// ServerTime is the API server's time, at most a second ahead; nil means that it is not known.
	ServerTime func(context.Context) (time.Time, error)
	// As connects as another user. It is nil where that is impossible: the user already
	// impersonates another user, and the API server checks the rights of the user who does so.
	As func(user string) (Clients, error)
}

// NewClients makes them all from one configuration.
func NewClients(config *rest.Config) (Clients, error) {
	var out Clients
	skew := deletion.NewSkew(clock.RealClock{})
	config = rest.CopyConfig(config)
	if original := rest.CopyConfig(config); config.Impersonate.UserName == "" {
		out.As = func(user string) (Clients, error) {
			as := rest.CopyConfig(original)
			as.Impersonate.UserName = user // The API server adds the groups of a service account.
			return NewClients(as)
		}
	}
	config.Wrap(skew.Wrap)
	out.ServerTime = deletion.NewServerTime(skew, func(context.Context) error {
		_, err := out.Discovery.ServerVersion()
		return err
	}).Now
	var errs [3]error
	out.Discovery, errs[0] = discovery.NewDiscoveryClientForConfig(config)
	out.Objects, errs[1] = dynamic.NewForConfig(config)
	out.Metadata, errs[2] = metadata.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return out, fmt.Errorf("client of the API server: %w", err)
	}
	return out, nil
}

// Kind is a kind whose objects Curfew can delete: it can be listed, watched and deleted.
type Kind struct {
	schema.GroupVersionKind
	Resource      string
	ClusterScoped bool
	// Profile as it applies in this cluster; a bare one for kinds that have TTL labels only.
	Profile *policy.Profile
}

// GroupResource names the kind as people do: jobs.batch.
func (k Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// At is the resource that requests are sent to.
func (k Kind) At() schema.GroupVersionResource { return k.GroupVersion().WithResource(k.Resource) }

// Name is an object of the kind as kubectl takes it: job.batch/build.
func (k Kind) Name(object string) string {
	out := strings.ToLower(k.Kind)
	if k.Group != "" {
		out += "." + k.Group
	}
	return out + "/" + object
}

// IsNamespace reports whether the kind is Namespace.
func (k Kind) IsNamespace() bool { return k.GroupResource() == namespaceResource.GroupResource() }

// verbs are the permissions that the controller needs on a kind.
var verbs = []string{"list", "watch", "delete"}

// ErrNotServed says that objects of a kind cannot expire: it is not served, or lacks list, watch or
// delete.
var ErrNotServed = errors.New("objects of this kind cannot expire: the API server does not list, watch and delete them")

// Kinds are all kinds whose objects can expire, by group and resource. Curfew never deletes its
// own.
func (c *cluster) Kinds() ([]Kind, error) {
	served, err := c.served()
	if err != nil {
		return nil, err
	}
	kinds := slices.DeleteFunc(slices.Collect(maps.Values(served)), func(kind Kind) bool { return kind.Group == wellknown.Group })
	slices.SortFunc(kinds, func(a, b Kind) int { return strings.Compare(a.Group+"/"+a.Resource, b.Group+"/"+b.Resource) })
	return kinds, nil
}

// Kind finds one of these kinds; ok is false where it is not served, or its objects cannot expire.
func (c *cluster) Kind(resource schema.GroupResource) (kind Kind, ok bool, err error) {
	served, err := c.served()
	kind, ok = served[resource]
	return kind, ok, err
}

// served are the kinds whose objects can expire, in the version of their profile where that is
// served, else in the preferred one.
func (c *cluster) served() (map[schema.GroupResource]Kind, error) {
	found, err := c.discover()
	if err != nil {
		return nil, err
	}
	out := map[schema.GroupResource]Kind{}
	cleanup.Each(found.groups, found.lists, func(groupVersion schema.GroupVersion, resource *metav1.APIResource) {
		if lacks(resource.Verbs) {
			return
		}
		groupResource, kind := schema.GroupResource{Group: groupVersion.Group, Resource: resource.Name}, groupVersion.WithKind(resource.Kind)
		profile := c.profileOf(kind)
		if _, have := out[groupResource]; !have || profile.State != nil && profile.Kind.Version == groupVersion.Version {
			out[groupResource] = Kind{GroupVersionKind: kind, Resource: resource.Name, ClusterScoped: !resource.Namespaced, Profile: profile}
		}
	})
	return out, nil
}

// profileOf is the profile that the controller uses, without a finish where it does not look for
// finished objects of the kind.
func (c *cluster) profileOf(kind schema.GroupVersionKind) *policy.Profile {
	profile := c.platform.Profiles.For(kind)
	if profile.State == nil || !c.unfed[kind.GroupKind()] {
		return profile
	}
	labelled := *profile
	labelled.State, labelled.Deadline, labelled.AnnotatedDeadline = nil, nil, false
	return &labelled
}

// SilentGroups are groups that do not answer, whose kinds are left out.
func (c *cluster) SilentGroups() []string {
	found, _ := c.discover() // The callers that need the kinds report the error.
	return found.silent
}

// askDiscovery leaves out a group that does not answer, with a note.
func (c *cluster) askDiscovery() (discovered, error) {
	groups, lists, err := c.clients.Discovery.ServerGroupsAndResources()
	out := discovered{groups: groups, lists: lists}
	if silent, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		for version := range silent {
			out.silent = append(out.silent, version.Group)
		}
		slices.Sort(out.silent)
		out.silent = slices.Compact(out.silent)
		c.note("no answer from %s: kinds of these groups are left out", strings.Join(out.silent, ", "))
	} else if err != nil {
		return out, fmt.Errorf("asking the API server which kinds it serves: %w", err)
	}
	return out, nil
}

func lacks(have metav1.Verbs) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(have, verb) })
}

// Resources returns the resources that cleanup policies can match. The error may be
// [cleanup.SilentGroups].
func (c *cluster) Resources(context.Context) ([]cleanup.Resource, error) {
	found, err := c.discover()
	if err == nil && len(found.silent) > 0 {
		err = cleanup.SilentGroups(found.silent)
	}
	return cleanup.Resources(found.groups, found.lists), err
}

// KindOf finds a kind by any of its names: jobs, job, Job, jobs.batch, deploy.
func (c *cluster) KindOf(text string) (Kind, error) {
	resource, ok, err := c.find(func(g schema.GroupVersion, resource *metav1.APIResource) int { return rank(text, g, resource) })
	if err != nil {
		return Kind{}, err
	}
	if !ok {
		return Kind{}, fmt.Errorf("the server has no kind %q: kubectl api-resources lists those that it has", text)
	}
	return c.servedAt(resource, text)
}

// kindOf finds the kind of a reference.
func (c *cluster) kindOf(kind schema.GroupKind) (Kind, error) {
	resource, ok, err := c.find(func(version schema.GroupVersion, resource *metav1.APIResource) int {
		if version.Group == kind.Group && resource.Kind == kind.Kind {
			return 1
		}
		return 0
	})
	switch {
	case err != nil:
		return Kind{}, err
	case !ok:
		return Kind{}, fmt.Errorf("the server has no kind %s", kind)
	}
	return c.servedAt(resource, kind.String())
}

// find returns the resource with the lowest rank above 0, the first one of several.
func (c *cluster) find(rank func(groupVersion schema.GroupVersion, resource *metav1.APIResource) int) (groupResource schema.GroupResource, ok bool, err error) {
	found, err := c.discover()
	if err != nil {
		return groupResource, false, err
	}
	best := 0
	cleanup.Each(found.groups, found.lists, func(groupVersion schema.GroupVersion, resource *metav1.APIResource) {
		if rank := rank(groupVersion, resource); rank > 0 && (best == 0 || rank < best) {
			groupResource, best = groupVersion.WithResource(resource.Name).GroupResource(), rank
		}
	})
	return groupResource, best > 0, nil
}

func (c *cluster) servedAt(resource schema.GroupResource, text string) (Kind, error) {
	kind, ok, err := c.Kind(resource)
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", text, ErrNotServed)
	}
	return kind, err
}

// How well a text names a resource. A short name of one never hides the full name of another.
const (
	byPlural = iota + 1
	bySingular
	byShortName
)

// rank tells how well a text such as jobs, job.batch, Job.v1.batch or deploy names a resource; 0
// for not at all.
func rank(text string, groupVersion schema.GroupVersion, resource *metav1.APIResource) int {
	name, rest, dotted := strings.Cut(strings.ToLower(text), ".")
	if dotted && rest != groupVersion.Version+"."+groupVersion.Group && (rest == "" || !strings.HasPrefix(groupVersion.Group, rest)) {
		return 0
	}
	switch {
	case name == resource.Name:
		return byPlural
	case name == resource.SingularName, name == strings.ToLower(resource.Kind):
		return bySingular
	case slices.Contains(resource.ShortNames, name):
		return byShortName
	}
	return 0
}
