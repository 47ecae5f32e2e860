package references

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Selecting are the kinds that select Pods of their namespace, by resource.
var Selecting = map[schema.GroupResource]string{
	{Resource: "services"}: "Service",
	{Group: "networking.k8s.io", Resource: "networkpolicies"}: "NetworkPolicy",
	{Group: "policy", Resource: "poddisruptionbudgets"}:       "PodDisruptionBudget",
}

// selectors are the selectors of a namespace that may select no Pod, by their text.
type selectors struct {
	all map[string]*selector
	// by are the selectors that need labels, by each of these, any are the others, and named those
	// that need a label of some value, by the value.
	by, named map[string][]*selector
	any       []*selector
	// endpoints are the Services that have endpoints.
	endpoints map[string]bool
}

type selector struct {
	labels.Selector
	selects bool
}

func newSelectors() *selectors {
	return &selectors{all: map[string]*selector{}, by: map[string][]*selector{}, named: map[string][]*selector{}, endpoints: map[string]bool{}}
}

// AddSelector adds an object of [Selecting], for [Candidates.Selects].
func (c *Candidates) AddSelector(kind schema.GroupKind, object map[string]any) error {
	namespace, name := identity(object)
	if err := c.add(kind, namespace, name); err != nil {
		return err
	}
	parsed, err := selectorOf(kind, object)
	if err != nil {
		return nil // Selects returns it.
	}
	selectors := c.selectors[namespace]
	if selectors == nil {
		selectors = newSelectors()
		c.selectors[namespace] = selectors
	}
	if selectors.all[parsed.String()] != nil {
		return nil
	}
	added := &selector{Selector: parsed}
	selectors.all[parsed.String()] = added
	selectors.index(added)
	c.everywhere.index(added)
	return nil
}

// ordinal is the end of the name of a StatefulSet's Pod.
var ordinal = regexp.MustCompile("-[0-9]+$")

// index finds a selector by what it needs. A value may be the name of a StatefulSet's Pod, so that
// the StatefulSet finds it, too.
func (s *selectors) index(sel *selector) {
	needs := false
	requirements, _ := sel.Requirements()
	for i := range requirements {
		values := requirements[i].Values().UnsortedList()
		if operator := requirements[i].Operator(); len(values) == 1 && (operator == selection.In || operator == selection.Equals) {
			label := requirements[i].Key() + "=" + values[0]
			s.by[label], needs = append(s.by[label], sel), true
		}
		for _, value := range values {
			for _, name := range slices.Compact([]string{value, ordinal.ReplaceAllString(value, "")}) {
				s.named[name] = append(s.named[name], sel)
			}
		}
	}
	if !needs {
		s.any = append(s.any, sel)
	}
}

// selectorOf is the selector of an object. It is an error if Pods do not decide whether the object
// is used: a Service without a selector has endpoints that someone wrote, or is an alias.
func selectorOf(kind schema.GroupKind, object map[string]any) (labels.Selector, error) {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("its spec is not known")
	}
	if kind == (schema.GroupKind{Kind: "Service"}) {
		selector, _, err := unstructured.NestedStringMap(spec, "selector")
		switch {
		case err != nil:
			return nil, err
		case len(selector) == 0 || spec["type"] == "ExternalName":
			return nil, errors.New("it selects no Pods: it leads to endpoints that someone else wrote, or to another name")
		}
		return labels.ValidatedSelectorFromSet(selector)
	}
	field := "selector"
	if kind.Kind == "NetworkPolicy" {
		field = "podSelector"
	}
	content, ok, err := unstructured.NestedMap(spec, field)
	if err != nil || !ok {
		return nil, fmt.Errorf("its spec.%s cannot be read", field)
	}
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, selector); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(selector)
}

// Selects reports whether an object of [Selecting], as it is now, selects a Pod or a pod template
// that was scanned, or is a Service that has endpoints or that another object names. It is an error
// if that is not known.
func (c *Candidates) Selects(kind schema.GroupKind, object map[string]any) (bool, error) {
	namespace, name := identity(object)
	selector, err := selectorOf(kind, object)
	if err != nil {
		return false, fmt.Errorf("%s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	selectors := c.selectors[namespace]
	if selectors == nil || selectors.all[selector.String()] == nil {
		return false, fmt.Errorf("%s %s/%s is not a candidate: its selector was written after Curfew listed its kind", kind.Kind, namespace, name)
	}
	// A policy that denies traffic to all Pods also protects Pods that are created later.
	denies := kind.Kind == "NetworkPolicy" && selector.Empty()
	if kind.Kind != "Service" || selectors.all[selector.String()].selects || selectors.endpoints[name] {
		return denies || selectors.all[selector.String()].selects || kind.Kind == "Service", nil
	}
	return c.Referenced(kind, namespace, name, nil)
}

// scanSelectors notes the selectors that match labels in an object: a Pod, or templates at any
// depth. An operator may label its Pods with labels that are in no object. The name of its object
// is often one of them, so that an object of a custom kind uses the selectors with that value. A
// StatefulSet names its Pods. A cluster-scoped object may have Pods in any namespace.
func (c *Candidates) scanSelectors(kind schema.GroupKind, namespace, name string, object map[string]any) {
	s, builtIn := c.selectors[namespace], BuiltIn(kind.Group)
	if namespace == "" && !builtIn {
		s = c.everywhere
	}
	if s == nil {
		return
	}
	if !builtIn || kind.Kind == "StatefulSet" {
		for _, selector := range s.named[name] {
			selector.selects = true
		}
	}
	switch {
	case kind.Kind == "EndpointSlice" || kind == schema.GroupKind{Kind: "Endpoints"}:
		s.scanEndpoints(kind, name, object)
		return
	case kind == schema.GroupKind{Kind: "Pod"}:
		podLabels, _, _ := unstructured.NestedMap(object, "metadata", "labels")
		s.match(podLabels, true) // A Pod without labels, too.
		return
	case builtIn: // Its own labels are no labels of Pods.
		object = maps.Clone(object)
		delete(object, "metadata")
	}
	s.walk(object)
}

func (s *selectors) walk(value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			s.walk(item)
		}
	case map[string]any:
		for key, child := range value {
			if set, ok := child.(map[string]any); ok && strings.HasSuffix(strings.ToLower(key), "labels") && key != "matchLabels" {
				s.match(set, false)
			}
			s.walk(child)
		}
	}
}

// match notes the selectors that match the labels of a Pod. A template has to have one of the
// labels, and no other value of the rest: Vault and Patroni label their Pods when they have chosen
// a leader, and StatefulSets with the Pod's name.
func (s *selectors) match(podLabels map[string]any, pod bool) {
	set := labels.Set{}
	for key, value := range podLabels {
		set[key], _ = value.(string)
	}
	for _, selector := range s.any {
		selector.selects = selector.selects || selector.Matches(set)
	}
	for key, value := range set {
		for _, selector := range s.by[key+"="+value] {
			selector.selects = selector.selects || selector.matches(set, pod)
		}
	}
}

func (s *selector) matches(set labels.Set, pod bool) bool {
	requirements, _ := s.Requirements()
	for i := range requirements {
		if (pod || set.Has(requirements[i].Key())) && !requirements[i].Matches(set) {
			return false
		}
	}
	return true
}

// endpointsController labels the EndpointSlices that Kubernetes makes from selectors.
const endpointsController = "endpointslice-controller.k8s.io"

// scanEndpoints notes a Service that has endpoints. EndpointSlices of another controller count
// without endpoints, too.
func (s *selectors) scanEndpoints(kind schema.GroupKind, name string, object map[string]any) {
	if kind.Kind == "Endpoints" {
		subsets, _ := object["subsets"].([]any)
		s.endpoints[name] = s.endpoints[name] || len(subsets) > 0
		return
	}
	podLabels, _, _ := unstructured.NestedStringMap(object, "metadata", "labels")
	endpoints, _ := object["endpoints"].([]any)
	service := podLabels["kubernetes.io/service-name"]
	s.endpoints[service] = s.endpoints[service] || len(endpoints) > 0 || podLabels["endpointslice.kubernetes.io/managed-by"] != endpointsController
}
