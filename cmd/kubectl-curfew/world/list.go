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

// Query selects objects.
type Query struct {
	// Namespace is "" for all. It does not limit cluster-scoped kinds.
	Namespace string
	// Selector of labels, as kubectl takes it.
	Selector string
	// Unfinished includes unfinished objects where that takes a wider list: of Pods.
	Unfinished bool
}

// pass is one list of objects of a kind. The passes of a query do not overlap.
type pass struct {
	kind    Kind
	options metav1.ListOptions
	// metadata: nothing else is read.
	metadata  bool
	namespace string
}

// passes read as little as the API allows: all objects of kinds that finish, and of others the metadata of those with the label.
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
		// The bounds of some policies depend on more than metadata.
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
		return append(out, of(false, finished)) // last, so that a Pod that finishes in between is not missed
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

// List passes the objects of a kind that may expire to take, page by page. An object can come twice; its last state applies.
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

// forgotten reports whether a paged list expired on the API server. It is then read again, in one piece.
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

// content is an object as JSON, with the kind that metadata leaves out.
func (w *World) content(kind Kind, object runtime.Object) (map[string]any, error) {
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	out["apiVersion"], out["kind"] = kind.GroupVersion().String(), kind.Kind
	return out, nil
}

// Refused reports whether the user lacks a permission.
func Refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// Gone reports whether the kind is not served any more, or cannot be listed.
func Gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }
