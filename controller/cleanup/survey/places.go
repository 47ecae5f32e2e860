package survey

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/policy/cleanup"
)

const (
	// pageSize bounds the objects of one answer, and wholePageSize those of the first answer if it has
	// whole objects, which may have a megabyte each.
	pageSize, wholePageSize = 500, 50
	// maxNamespaces is up to how many namespaces are listed one by one. Above it the whole cluster
	// is listed and what is elsewhere is passed over.
	maxNamespaces = 50
)

// ErrForbidden: the account of the policy lacks a permission without which nothing can be judged.
var ErrForbidden = errors.New("the service account lacks a permission")

// Place is a resource and where it is listed.
type Place struct {
	cleanup.Target
	namespaces []string // "" for the whole cluster
	// only are the namespaces that count if the whole cluster is listed for them; nil means all.
	only map[string]bool
}

// verbs are what a policy needs on the resources that it matches.
var verbs = []string{"list", "get", "delete"}

// Open finds what to list, and returns the permissions that the account lacks for the rest.
func (s *Survey) Open(ctx context.Context) (lacks []string, err error) {
	served, err := s.options.Served(ctx)
	if err != nil {
		return nil, fmt.Errorf("resources that are served: %w", err)
	}
	snapshot, err := s.options.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	s.workloads = workloadsOf(snapshot.Profiles, served)
	s.lookups = newLookups(s.reader, s.workloads)
	known, err := s.options.Namespaces()
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	names, all := s.policy.Namespaces(known)
	if err := s.mayReadNamespaces(ctx); err != nil {
		return nil, err
	}
	for _, target := range s.policy.Targets(served) {
		if s.options.MostLacks > 0 && len(lacks) >= s.options.MostLacks {
			break
		}
		if !target.Namespaced && !all {
			continue // A namespaceSelector with a requirement matches none of them.
		}
		one, missing, err := s.place(ctx, target, names, all)
		if err != nil {
			return nil, err
		}
		lacks = append(lacks, missing...)
		if len(one.namespaces) > 0 {
			s.at = append(s.at, one)
		}
	}
	return lacks, nil
}

// Nowhere reports whether the account may not act anywhere that the policy matches.
func (s *Survey) Nowhere() bool { return len(s.at) == 0 }

// place finds where a resource is listed, and what the account lacks elsewhere.
func (s *Survey) place(ctx context.Context, target cleanup.Target, names []string, all bool) (out Place, lacks []string, err error) {
	out.Target = target
	wide := all || !target.Namespaced
	if !wide && len(names) > maxNamespaces { // One list of the cluster, if the account may.
		missing, err := s.reader.Lacks(ctx, target.GroupVersionResource, metav1.NamespaceAll, verbs...)
		if err != nil {
			return out, nil, err
		}
		if wide = missing == ""; wide {
			out.only = setOf(names)
		}
	}
	if wide {
		names = []string{metav1.NamespaceAll}
	}
	for _, namespace := range names {
		if s.options.MostLacks > 0 && len(lacks) >= s.options.MostLacks {
			break
		}
		missing, err := s.reader.Lacks(ctx, target.GroupVersionResource, namespace, verbs...)
		if err != nil {
			return out, nil, err
		}
		if missing != "" {
			lacks = append(lacks, need(missing, target.GroupResource(), namespace))
			continue
		}
		out.namespaces = append(out.namespaces, namespace)
	}
	return out, lacks, nil
}

func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

// mayReadNamespaces returns an error if an expression reads namespaces and the account may not:
// what it returns, and why it fails, would reveal them (S10).
func (s *Survey) mayReadNamespaces(ctx context.Context) error {
	if !s.policy.Expressions.ReadsNamespace {
		return nil
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	missing, err := s.reader.Lacks(ctx, resource, s.policy.Namespace, "get")
	if err == nil && missing != "" {
		err = fmt.Errorf("the policy reads namespaceObject, and service account %s may not %s: %w", s.options.Account, need(missing, resource.GroupResource(), s.policy.Namespace), ErrForbidden)
	}
	return err
}

// need is a permission as messages write it.
func need(verb string, resource schema.GroupResource, namespace string) string {
	if namespace == "" {
		return verb + " " + resource.String()
	}
	return fmt.Sprintf("%s %s in namespace %q", verb, resource, namespace)
}

// each calls f for every object that the policy may match. It holds one page at a time.
func (s *Survey) each(ctx context.Context, f func(at *Place, object *unstructured.Unstructured) error) error {
	pages := s.pages(s.policy.NeedsObject())
	for i := range s.at {
		at := &s.at[i]
		options := metav1.ListOptions{LabelSelector: s.policy.ServerSelector().String()}
		if at.Name != "" {
			options.FieldSelector = "metadata.name=" + at.Name
		}
		for _, namespace := range at.namespaces {
			err := pages.each(ctx, at.GroupVersionResource, namespace, options, func(object *unstructured.Unstructured) error {
				object.SetGroupVersionKind(at.GroupVersionKind())
				return f(at, object)
			})
			if err != nil {
				return fmt.Errorf("listing %s: %w", at.GroupResource(), err)
			}
		}
	}
	return nil
}

// total counts all objects of the matched kinds and namespaces, for maxPercentage.
func (s *Survey) total(ctx context.Context) (sum int64, err error) {
	pages := s.pages(false)
	for i := range s.at {
		at := &s.at[i]
		for _, namespace := range at.namespaces {
			err := pages.each(ctx, at.GroupVersionResource, namespace, metav1.ListOptions{}, func(object *unstructured.Unstructured) error {
				if at.only == nil || at.only[object.GetNamespace()] {
					sum++
				}
				return nil
			})
			if err != nil {
				return 0, fmt.Errorf("counting %s: %w", at.GroupResource(), err)
			}
		}
	}
	return sum, nil
}

// pages lists page by page.
type pages struct {
	reader  lister
	whole   bool
	sizes   *paging.Sizes
	spent   *time.Duration // on the objects of the page
	between func(context.Context) error
}

// pages lists what the policy may match, and lets other surveys work between two pages.
func (s *Survey) pages(whole bool) *pages {
	out := newPages(s.reader, whole)
	out.spent, out.between = &s.spent, s.options.Between
	return out
}

func newPages(reader lister, whole bool) *pages {
	first := int64(pageSize)
	if whole {
		first = wholePageSize
	}
	return &pages{reader: reader, whole: whole, sizes: paging.NewSizes(first, pageSize), spent: new(time.Duration)}
}

// each calls f for each object. A list that the API server ends early goes on.
func (p *pages) each(ctx context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions, f func(*unstructured.Unstructured) error) error {
	for {
		options.Limit = p.sizes.Next()
		measured, size := paging.Measure(ctx)
		page, next, err := p.reader.List(measured, resource, namespace, p.whole, options)
		if resumed, ok := paging.Resume(err); ok {
			options.Continue = resumed
			continue
		}
		if p.sizes.TooLarge(err) {
			continue
		}
		if err != nil {
			return err
		}
		*p.spent = 0
		for i := range page {
			if err := f(&page[i]); err != nil {
				return err
			}
		}
		p.sizes.Took(len(page), *size, *p.spent)
		if options.Continue = next; next == "" {
			return nil
		}
		if page = nil; p.between != nil {
			if err := p.between(ctx); err != nil {
				return err
			}
		}
	}
}
