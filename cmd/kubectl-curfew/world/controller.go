package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy"
)

// Controller is how Curfew's controller runs: its flags, by the ConfigMap that it publishes, and
// whether it runs at all (liveness.go). Without the ConfigMap the defaults apply.
type Controller struct {
	// Unknown says why the settings cannot be read; "" where they are known.
	Unknown string
	// Settings is whether the ConfigMap could be read, and Published its data.
	Settings  Presence
	Published map[string]string
	// Namespace that it runs in.
	Namespace string
	// User name that it has to the API server.
	User string
	// DryRun is --dry-run, Alias --kyverno-label, Protect --protect with its own namespace.
	DryRun, Alias bool
	Protect       []string
	// NoBuiltinProfiles is --builtin-profiles=false, LeaveNative --leave-native-ttl.
	NoBuiltinProfiles, LeaveNative bool
	// Off are the triggers that --enable leaves out.
	Off []policy.Trigger

	// State says whether it runs, and Why how that is known.
	State    State
	Why      string
	Lease    Lease
	Workload Workload
}

// Surroundings are what the settings mean for obstacles.
func (c Controller) Surroundings() policy.Surroundings {
	return policy.Surroundings{Protect: c.Protect, DryRun: c.DryRun, Off: c.Off}
}

// Name is its Deployment as kubectl takes it, by the name that manifests/deploy gives it.
func (c Controller) Name() string { return "deployment/curfew-controller -n " + c.Namespace }

// readController reads the settings. Most users may not, which is no error.
func (w *World) readController(ctx context.Context) error {
	namespace := w.options.Namespace
	w.Controller = Controller{
		Namespace: namespace, User: "system:serviceaccount:" + namespace + ":curfew-controller",
		Protect: append(policy.DefaultProtect(), namespace),
	}
	object, err := w.clients.Objects.Resource(settings.Resource).Namespace(namespace).Get(ctx, settings.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		w.Controller.Unknown = fmt.Sprintf("you may not get configmaps/%s in namespace %q", settings.Name, namespace)
		return nil
	case apierrors.IsNotFound(err):
		w.Controller.Settings = Missing
		w.Controller.Unknown = fmt.Sprintf("there is no ConfigMap %s in namespace %q; --curfew-namespace names another", settings.Name, namespace)
		return nil
	case err != nil:
		return fmt.Errorf("reading the settings of Curfew's controller in namespace %q: %w", namespace, err)
	}
	data, _, err := unstructured.NestedStringMap(object.Object, "data")
	w.Controller.Settings = Found
	read, invalid := w.Controller.with(data)
	if err = errors.Join(err, invalid); err != nil {
		w.Controller.Unknown = fmt.Sprintf("ConfigMap %s in namespace %q cannot be used: %s", settings.Name, namespace, strings.ReplaceAll(err.Error(), "\n", ", "))
		return nil
	}
	w.Controller = read
	return nil
}

// ProtectedNamespaces are the names and patterns of namespaces that Curfew leaves alone, as far as
// the user may read them.
func ProtectedNamespaces(ctx context.Context, clients Clients, namespace string) []string {
	w := &World{clients: clients, options: Options{Namespace: namespace}}
	_ = w.readController(ctx) // The defaults are known without an answer.
	return w.Controller.Protect
}

// with applies published settings.
func (c Controller) with(data map[string]string) (Controller, error) {
	var errs []error
	flag := func(name string) string {
		value, ok := data[name]
		if !ok {
			errs = append(errs, fmt.Errorf("it has no key %s", name))
		}
		return value
	}
	boolean := func(name string) bool {
		value, err := strconv.ParseBool(flag(name))
		if _, ok := data[name]; ok && err != nil {
			errs = append(errs, fmt.Errorf("key %s: %w", name, err))
		}
		return value
	}
	c.Published = data
	c.DryRun, c.Alias = boolean("dry-run"), boolean("kyverno-label")
	c.NoBuiltinProfiles, c.LeaveNative = !boolean("builtin-profiles"), boolean("leave-native-ttl")
	c.Lease.Name, c.Lease.Unused = data["lease-name"], data["leader-elect"] == "false"
	list := func(name string) []string {
		return strings.FieldsFunc(flag(name), func(r rune) bool { return r == ',' })
	}
	c.Protect = append(list("protect"), flag("namespace"))
	enabled := list("enable")
	for _, trigger := range policy.Triggers() {
		if !slices.Contains(enabled, string(trigger.Name)) {
			c.Off = append(c.Off, trigger.Name)
		}
	}
	c.User = cmp.Or(data[settings.User], c.User)
	return c, errors.Join(errs...)
}
