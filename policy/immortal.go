package policy

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// immortal are the Namespaces that the API server never deletes (admission plugin
// NamespaceLifecycle).
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// NeverDeleted reports whether the API server refuses every DELETE of the object.
func (f *Facts) NeverDeleted() bool { return f.IsNamespace() && slices.Contains(immortal, f.Name) }

// keptImmortal is the verdict on such a Namespace that has a TTL label.
func keptImmortal(key string, source Source) Verdict {
	return Verdict{Action: Keep, Reason: "the API server never deletes this Namespace", Source: source, Err: fmt.Errorf("%s: remove the label", LabelPath(key))}
}
