package world

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/discovery/served"
	"curfew.dev/curfew/policy"
)

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

// At is what requests are sent to.
func (k Kind) At() schema.GroupVersionResource { return k.GroupVersion().WithResource(k.Resource) }

// Name is an object of the kind as kubectl takes it: job.batch/build.
func (k Kind) Name(object string) string {
	out := strings.ToLower(k.Kind)
	if k.Group != "" {
		out += "." + k.Group
	}
	return out + "/" + object
}

// verbs are what the controller needs on a kind.
var verbs = []string{"list", "watch", "delete"}

// Kinds are all kinds whose objects can expire, by group and resource. Curfew never deletes its
// own.
func (w *World) Kinds() ([]Kind, error) {
	served, err := w.served()
	if err != nil {
		return nil, err
	}
	kinds := slices.DeleteFunc(slices.Collect(maps.Values(served)), func(kind Kind) bool { return kind.Group == policy.Group })
	slices.SortFunc(kinds, func(a, b Kind) int {
		return strings.Compare(a.Group+"/"+a.Resource, b.Group+"/"+b.Resource)
	})
	return kinds, nil
}

// Kind finds one of them; ok is false where it is not served, or its objects cannot expire.
func (w *World) Kind(at schema.GroupResource) (kind Kind, ok bool, err error) {
	served, err := w.served()
	kind, ok = served[at]
	return kind, ok, err
}

// served are the kinds whose objects can expire, in the version of their profile where that is
// served, else in the preferred one.
func (w *World) served() (map[schema.GroupResource]Kind, error) {
	found, err := w.discover()
	if err != nil {
		return nil, err
	}
	preferred := map[string]bool{}
	for _, group := range found.groups {
		preferred[group.PreferredVersion.GroupVersion] = true
	}
	out := map[schema.GroupResource]Kind{}
	for _, list := range found.lists {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			at := schema.GroupResource{Group: of.Group, Resource: resource.Name}
			if strings.Contains(resource.Name, "/") || served.Duplicates[at] || lacks(resource.Verbs) {
				continue
			}
			kind := of.WithKind(resource.Kind)
			profile := w.profileOf(kind)
			known, have := out[at]
			switch {
			case !have, profile.State != nil && profile.Kind.Version == of.Version:
			case preferred[list.GroupVersion] && (known.Profile.State == nil || known.Profile.Kind.Version != known.Version):
			default:
				continue
			}
			out[at] = Kind{GroupVersionKind: kind, Resource: resource.Name, ClusterScoped: !resource.Namespaced, Profile: profile}
		}
	}
	return out, nil
}

// profileOf is the profile that the controller uses, without a finish where it does not look for
// finished objects of the kind.
func (w *World) profileOf(kind schema.GroupVersionKind) *policy.Profile {
	profile := w.platform.Profiles.For(kind)
	if profile.State == nil || !w.unfed[kind.GroupKind()] {
		return profile
	}
	labelled := *profile
	labelled.State, labelled.Deadline, labelled.AnnotatedDeadline = nil, nil, false
	return &labelled
}

// discovered are the groups, most important first, and what each version serves.
type discovered struct {
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	// silent are groups that do not answer.
	silent []string
}

// SilentGroups are groups that do not answer, whose kinds are left out.
func (w *World) SilentGroups() []string {
	found, _ := w.discover() // The callers that need the kinds report the error.
	return found.silent
}

// askDiscovery leaves out a group that does not answer, with a note.
func (w *World) askDiscovery() (discovered, error) {
	groups, lists, err := w.clients.Discovery.ServerGroupsAndResources()
	out := discovered{groups: groups, lists: lists}
	if silent := (*silentError)(nil); errors.As(err, &silent) {
		for _, group := range silent.groups {
			out.silent = append(out.silent, group.Group)
		}
		w.note("%s: kinds of these groups are left out", silent)
	} else if err != nil {
		return out, fmt.Errorf("asking the API server which kinds it serves: %w", err)
	}
	return out, nil
}

func lacks(have metav1.Verbs) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(have, verb) })
}
