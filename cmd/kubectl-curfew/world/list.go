package world

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
)

// Query says which objects are asked about.
type Query struct {
	// Namespace is "" for all. Kinds that lie in none have all of their objects asked about.
	Namespace string
	// Selector of labels, as kubectl takes it.
	Selector string
	// Unfinished objects are asked about as well, where that costs a wider list: Pods.
	Unfinished bool
}

// pass is one list that brings objects of a kind. No two passes of a query bring the same object.
type pass struct {
	kind    Kind
	options metav1.ListOptions
	// metadata alone is read.
	metadata  bool
	namespace string
}

// passes read objects as narrowly as the API allows: kinds that finish whole, others by their label, and of those metadata alone.
func (w *World) passes(kind Kind, query Query) []pass {
	if kind.ClusterScoped {
		query.Namespace = ""
	}
	of := func(metadata bool, fields string, selectors ...string) pass {
		if query.Selector != "" {
			selectors = append(selectors, query.Selector)
		}
		return pass{kind: kind, metadata: metadata, namespace: query.Namespace,
			options: metav1.ListOptions{LabelSelector: strings.Join(selectors, ","), FieldSelector: fields}}
	}
	const alias = policy.LabelKyvernoTTL + ",!" + policy.LabelTTL
	switch {
	case kind.Profile.State == nil:
		// Where a policy has to see more than metadata to tell its bounds, so has whoever asks.
		slim := !w.needsObjects(kind)
		out := []pass{of(slim, "", policy.LabelTTL)}
		if w.Controller.Alias {
			out = append(out, of(slim, "", alias))
		}
		return out
	case kind.Group == "" && kind.Resource == "pods" && !query.Unfinished:
		const running, finished = "status.phase!=Succeeded,status.phase!=Failed", "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
		out := []pass{of(false, running, policy.LabelTTL)}
		if w.Controller.Alias {
			out = append(out, of(false, running, alias))
		}
		return append(out, of(false, finished)) // last: what finishes in between is not missed
	default:
		return []pass{of(false, "")}
	}
}

func (w *World) needsObjects(kind Kind) bool {
	for _, said := range w.platform.Policies {
		if said.Concerns(kind.GroupKind()) && said.BoundsLabels() && said.NeedsObject() {
			return true
		}
	}
	return false
}

// List hands out the objects of a kind in which the answer can lie, page by page. An object can come twice; what it was at last holds.
func (w *World) List(ctx context.Context, kind Kind, query Query, take func(object map[string]any) error) error {
	for _, pass := range w.passes(kind, query) {
		options := pass.options
		options.Limit = pageSize
		for {
			page, err := w.page(ctx, pass, options)
			if forgotten(err, options) {
				options.Continue, options.Limit = "", 0
				continue
			}
			if err != nil {
				return fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
			}
			for _, object := range page.objects {
				if err := take(object); err != nil {
					return err
				}
			}
			if options.Continue = page.next; options.Continue == "" {
				break
			}
		}
	}
	return nil
}

// forgotten reports whether a list took longer than the API server remembers. It is asked for once more then, in one piece; what was
// handed out comes again.
func forgotten(err error, options metav1.ListOptions) bool {
	return apierrors.IsResourceExpired(err) && options.Continue != ""
}

// page is a part of a list.
type page struct {
	objects []map[string]any
	next    string
}

func (w *World) page(ctx context.Context, p pass, options metav1.ListOptions) (page, error) {
	if !p.metadata {
		list, err := w.clients.Objects.Resource(p.kind.At()).Namespace(p.namespace).List(ctx, options)
		if err != nil {
			return page{}, err
		}
		out := page{next: list.GetContinue()}
		for i := range list.Items {
			out.objects = append(out.objects, list.Items[i].Object)
		}
		return out, nil
	}
	list, err := w.clients.Metadata.Resource(p.kind.At()).Namespace(p.namespace).List(ctx, options)
	if err != nil {
		return page{}, err
	}
	out := page{next: list.GetContinue()}
	for i := range list.Items {
		object, err := w.content(p.kind, &list.Items[i])
		if err != nil {
			return page{}, err
		}
		out.objects = append(out.objects, object)
	}
	return out, nil
}

// content is an object in its JSON form, with the kind that metadata leaves out.
func (w *World) content(kind Kind, object runtime.Object) (map[string]any, error) {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = kind.GroupVersion().String(), kind.Kind
	return out, nil
}

// Refused reports whether an error says that the user may not do what was tried, or that there is no such kind any more.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// Gone reports whether an error says that the kind is not served, or cannot be listed, after all.
func Gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }
