package references

import (
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
)

var update = flag.Bool("update", false, "write testdata/fields.txt")

const head = `# The fields of k8s.io/api that the lists in fields.go cover: no reference, or of one kind. A release of
# Kubernetes that adds a line adds a field that no longer counts, or counts for one kind alone. Look at it, and
# then run: go test ./policy/references -update
`

// Fields of built-in kinds count unless the lists name them. testdata/fields.txt has each Go field
// that they name, and no entry of the lists is without one.
func TestFieldsOfBuiltInKinds(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, admissionregistrationv1alpha1.AddToScheme, admissionregistrationv1beta1.AddToScheme,
		apiserverinternalv1alpha1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
		certificatesv1.AddToScheme, certificatesv1alpha1.AddToScheme, certificatesv1beta1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
		flowcontrolv1.AddToScheme, networkingv1.AddToScheme, networkingv1beta1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		resourcev1.AddToScheme, resourcev1alpha3.AddToScheme, resourcev1beta1.AddToScheme, resourcev1beta2.AddToScheme,
		schedulingv1.AddToScheme, schedulingv1alpha3.AddToScheme, storagev1.AddToScheme, storagev1beta1.AddToScheme,
	} {
		must(t, add(scheme))
	}
	f := &fields{lines: map[string]bool{}, used: map[string]bool{}, seen: map[place]bool{}}
	for kind, allKnownType := range scheme.AllKnownTypes() {
		if strings.HasPrefix(allKnownType.PkgPath(), "k8s.io/api/") {
			if !slices.Contains(builtIn, kind.Group) {
				t.Errorf("group %s is not in builtIn", kind.Group)
			}
			f.walk("", allKnownType)
		}
	}
	if len(f.seen) < 500 {
		t.Errorf("only %d types", len(f.seen))
	}
	elsewhere := []string{"annotations.kubectl.kubernetes.io/last-applied-configuration", "schema.openAPIV3Schema"}
	for _, entry := range append(slices.Sorted(maps.Keys(noReference)), slices.Sorted(maps.Keys(kindsNamed))...) {
		if !f.used[entry] && !slices.Contains(elsewhere, entry) {
			t.Errorf("no Go type has %s", entry)
		}
	}
	got := head + strings.Join(slices.Sorted(maps.Keys(f.lines)), "\n") + "\n"
	const file = "testdata/fields.txt"
	if *update {
		must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must(t, err)
	known := strings.Split(string(want), "\n")
	for line := range strings.SplitSeq(got, "\n") {
		if !slices.Contains(known, line) {
			t.Errorf("%s is new: may it name an object of another one of the Kinds?", line)
		}
	}
	if !*update && len(known) != strings.Count(got, "\n")+1 {
		t.Errorf("%s has %d lines, want %d: run with -update", file, len(known), strings.Count(got, "\n")+1)
	}
}

type place struct {
	parent string
	of     reflect.Type
}

// fields are the Go fields that the lists name.
type fields struct {
	lines, used map[string]bool
	seen        map[place]bool
}

func (f *fields) walk(parent string, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || f.seen[place{parent, t}] {
		return
	}
	f.seen[place{parent, t}] = true
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			f.walk(parent, field.Type)
			continue
		}
		entry := parent + "." + name
		line := entry + " " + strings.TrimPrefix(t.PkgPath(), "k8s.io/") + "." + t.Name() + "." + field.Name
		switch kind := kindNamed(true, parent, name); {
		case ignored(true, parent, name):
			f.used[entry], f.lines[line+" none"] = true, true
		case kind != "":
			f.used[entry], f.lines[line+" "+kind] = true, true
		default:
			f.walk(name, field.Type)
		}
	}
}
