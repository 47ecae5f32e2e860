package permission

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Identity is Curfew's controller as the API server knows it.
type Identity struct {
	User   string
	Groups []string
}

// Bindings follows the roles that are bound to Curfew, so that changed permissions are noticed at
// once. It knows when to ask and in which namespaces; only the API server knows the permissions.
type Bindings struct {
	identity Identity
	changed  func()

	mu sync.Mutex
	// roles are those bound to Curfew, by binding: "name" of a ClusterRole, "namespace/name" of a
	// Role.
	roles map[string]string
}

// NewBindings calls changed whenever a permission of that identity may have changed.
func NewBindings(identity Identity, changed func()) *Bindings {
	return &Bindings{identity: identity, changed: changed, roles: map[string]string{}}
}

// Read returns the role that a binding binds to Curfew, or "".
func (b *Bindings) Read(object *unstructured.Unstructured) string {
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

func (b *Bindings) isUs(item any) bool {
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

// BindingChanged takes the value that was read of a binding before and after a change.
func (b *Bindings) BindingChanged(key string, old, new *string) {
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

// RoleChanged takes the resourceVersion of a role before and after a change.
func (b *Bindings) RoleChanged(key string, old, new *string) {
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

// Namespaces returns the namespaces in which a role is bound to Curfew.
func (b *Bindings) Namespaces() []string {
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
