package survey

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/cleanup"
)

// maxNamespaces is the largest number of namespaces that are listed one by one. For more of them
// the survey lists the whole cluster and skips all other objects.
const maxNamespaces = 50

// ErrForbidden: the account of the policy lacks a permission without which nothing can be judged.
var ErrForbidden = errors.New("the service account lacks a permission")

// Place is a resource and where it is listed.
type Place struct {
	cleanup.Target
	namespaces []string // "" for the whole cluster
	// only are the namespaces that count if the whole cluster is listed for them; nil means all.
	only map[string]bool
	// broken is why the resource cannot be listed. It is passed over then.
	broken error
}

// verbs are what a policy needs on the resources that it matches.
var verbs = []string{"list", "get", "delete"}

// Open finds what to list, and returns the permissions that the account lacks for the rest.
func (s *Survey) Open(ctx context.Context) (lacks []string, err error) {
	served, partial := s.options.Served(ctx)
	if partial != nil && !errors.As(partial, &s.silent) {
		return nil, fmt.Errorf("resources that are served: %w", partial)
	}
	snapshot, err := s.snapshot(ctx, s.options.Source)
	if err != nil {
		return nil, err
	}
	s.lookups = s.newLookups(snapshot, served, partial, nil)
	known, err := s.options.Namespaces()
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	names, all := s.policy.Namespaces(known)
	if err := s.mayReadNamespaces(ctx); err != nil {
		return nil, err
	}
	only := s.options.Only
	if only.Namespace != "" && all {
		names, all = []string{only.Namespace}, false
	}
	for _, target := range s.policy.Targets(served) {
		if only.Resource != nil && !only.Resource(target.GroupResource()) {
			continue
		}
		if s.options.MaxLacks > 0 && len(lacks) >= s.options.MaxLacks {
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
	if !wide && len(names) > 1 { // One question, and one list of the cluster for many namespaces.
		missing, err := s.reader.Lacks(ctx, target.GroupVersionResource, metav1.NamespaceAll, verbs...)
		switch {
		case err != nil:
			return out, nil, err
		case missing == "" && len(names) <= maxNamespaces:
			out.namespaces = names
			return out, nil, nil
		case missing == "":
			wide, out.only = true, setOf(names)
		}
	}
	if wide {
		names = []string{metav1.NamespaceAll}
	}
	for _, namespace := range names {
		if s.options.MaxLacks > 0 && len(lacks) >= s.options.MaxLacks {
			break
		}
		if err := s.yield(ctx, false); err != nil {
			return out, nil, err
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
