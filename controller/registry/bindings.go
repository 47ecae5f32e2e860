package registry

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Identity is who Curfew's controller is to the API server.
type Identity struct {
	User   string
	Groups []string
}

// bindings follow the roles that are bound to Curfew, so that a permission that comes or goes is noticed when it does. They say
// when to ask, and in which namespaces; what is granted, the API server answers.
type bindings struct {
	identity Identity
	changed  func()

	mu sync.Mutex
	// roles are those bound to Curfew, by binding: "name" of a ClusterRole, "namespace/name" of a Role.
	roles map[string]string
}

func newBindings(identity Identity, changed func()) *bindings {
	return &bindings{identity: identity, changed: changed, roles: map[string]string{}}
}

// readBinding answers with the role that is bound to Curfew, or "".
func (b *bindings) readBinding(object *unstructured.Unstructured) string {
	subjects, _, _ := unstructured.NestedSlice(object.Object, "subjects")
	if !slices.ContainsFunc(subjects, b.isUs) {
		return ""
	}
	kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
	if kind == "Role" {
		return object.GetNamespace() + "/" + name
	}
	return name
}

func (b *bindings) isUs(item any) bool {
	subject, _ := item.(map[string]any)
	name, _ := subject["name"].(string)
	switch subject["kind"] {
	case "User":
		return name == b.identity.User
	case "Group":
		return slices.Contains(b.identity.Groups, name)
	case "ServiceAccount":
		namespace, _ := subject["namespace"].(string)
		return "system:serviceaccount:"+namespace+":"+name == b.identity.User
	default:
		return false
	}
}

// bindingChanged is told of every binding.
func (b *bindings) bindingChanged(key string, old, new *string) {
	was, is := "", ""
	if old != nil {
		was = *old
	}
	if new != nil {
		is = *new
	}
	b.mu.Lock()
	if is == "" {
		delete(b.roles, key)
	} else {
		b.roles[key] = is
	}
	b.mu.Unlock()
	if was != is {
		b.changed()
	}
}

// roleChanged is told of every role, of which its resourceVersion is kept.
func (b *bindings) roleChanged(key string, old, new *string) {
	if old != nil && new != nil && *old == *new {
		return // It was listed again.
	}
	b.mu.Lock()
	ours := false
	for _, role := range b.roles {
		ours = ours || role == key
	}
	b.mu.Unlock()
	if ours {
		b.changed()
	}
}

// namespaces are those in which something is bound to Curfew.
func (b *bindings) namespaces() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for key := range b.roles {
		if namespace, _, namespaced := strings.Cut(key, "/"); namespaced && !slices.Contains(out, namespace) {
			out = append(out, namespace)
		}
	}
	slices.Sort(out)
	return out
}
