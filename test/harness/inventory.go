package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// passing are kinds whose objects come and go by themselves.
var passing = map[string]bool{"events": true, "leases": true, "endpointslices": true, "endpoints": true, "controllerrevisions": true}

// Inventory lists all objects of all kinds, by resource, namespace and name. Left out are kinds
// whose objects come and go by themselves, such as Events.
func (c *Cluster) Inventory(ctx context.Context) (map[string]bool, error) {
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	_, lists, err := c.Client.Discovery().ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "get") || passing[kind.Name] {
				continue
			}
			all, err := client.Resource(version.WithResource(kind.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for i := range all.Items {
				object := &all.Items[i]
				out[strings.TrimSuffix(kind.Name+"."+version.Group, ".")+" "+strings.TrimPrefix(object.Namespace+"/", "/")+object.Name] = true
			}
		}
	}
	return out, nil
}

// Added are the objects of one inventory that an earlier one lacks.
func Added(before, after map[string]bool) []string {
	after = maps.Clone(after)
	maps.DeleteFunc(after, func(name string, _ bool) bool { return before[name] })
	return slices.Sorted(maps.Keys(after))
}
