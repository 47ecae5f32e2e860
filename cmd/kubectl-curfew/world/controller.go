package world

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// Controller is how Curfew's controller is set, by the arguments of its Deployment. Where that cannot be read, the defaults hold.
type Controller struct {
	// Unknown says why nothing is known of it; "" where it is.
	Unknown string
	// Namespace and Deployment are where it is; "" where nothing is known of it.
	Namespace, Deployment string
	// User that it is to the API server.
	User string
	// DryRun is --dry-run, Alias --kyverno-label, Protect --protect with its own namespace.
	DryRun, Alias bool
	Protect       []string
}

// Surroundings are what the settings mean for obstacles.
func (c Controller) Surroundings() policy.Surroundings {
	return policy.Surroundings{Protect: c.Protect, DryRun: c.DryRun}
}

// Name is its Deployment as kubectl takes it.
func (c Controller) Name() string { return "deployment/" + c.Deployment + " -n " + c.Namespace }

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// controllerSelector is what manifests/deploy labels the controller with.
const controllerSelector = policy.LabelPartOf + "=" + policy.PartOfCurfew + ",app.kubernetes.io/component=controller"

// readController looks for the controller's Deployment. Most users may not read it, which is no error.
func (w *World) readController(ctx context.Context) error {
	w.Controller = Controller{
		User:    "system:serviceaccount:" + w.options.Namespace + ":curfew-controller",
		Protect: append(policy.DefaultProtect(), w.options.Namespace),
	}
	list, err := w.clients.Objects.Resource(deployments).Namespace(w.options.Namespace).List(ctx, metav1.ListOptions{LabelSelector: controllerSelector})
	switch {
	case apierrors.IsForbidden(err):
		w.Controller.Unknown = fmt.Sprintf("you may not list deployments.apps in namespace %q", w.options.Namespace)
		w.note("%s: whether Curfew's controller runs with --dry-run, --protect or --kyverno-label is not known", w.Controller.Unknown)
		return nil
	case apierrors.IsNotFound(err) || err == nil && len(list.Items) == 0:
		w.Controller.Unknown = fmt.Sprintf("there is no Deployment of it in namespace %q; --curfew-namespace names another", w.options.Namespace)
		return nil
	case err != nil:
		return fmt.Errorf("reading Curfew's controller in namespace %q: %w", w.options.Namespace, err)
	}
	w.Controller.read(&list.Items[0], w.options.Namespace)
	return nil
}

// read takes the settings from the arguments of a Deployment.
func (c *Controller) read(deployment *unstructured.Unstructured, namespace string) {
	c.Namespace, c.Deployment = deployment.GetNamespace(), deployment.GetName()
	if account, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "serviceAccountName"); account != "" {
		c.User = "system:serviceaccount:" + namespace + ":" + account
	}
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	for _, item := range containers {
		container, _ := item.(map[string]any)
		args, _, _ := unstructured.NestedStringSlice(container, "args")
		command, _, _ := unstructured.NestedStringSlice(container, "command")
		// What stands beside the controller, such as a proxy, says nothing of it.
		if all := append(command, args...); slices.Contains(all, "controller") || slices.Contains(all, "all") {
			c.readArgs(all, namespace)
		}
	}
}

// readArgs understands the few flags that matter and passes over the others.
func (c *Controller) readArgs(args []string, namespace string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	own := flags.String("namespace", namespace, "")
	protect := flags.StringSlice("protect", policy.DefaultProtect(), "")
	dryRun := flags.Bool("dry-run", false, "")
	alias := flags.Bool("kyverno-label", false, "")
	for i, arg := range args {
		name, long := strings.CutPrefix(arg, "--")
		if !long {
			continue
		}
		// One at a time: an unknown flag must not swallow the next. One that is known may have its value as an argument of its own.
		one := []string{arg}
		if flag := flags.Lookup(name); flag != nil && flag.NoOptDefVal == "" && i+1 < len(args) {
			one = append(one, args[i+1])
		}
		_ = flags.Parse(one)
	}
	c.DryRun, c.Alias = *dryRun, *alias
	c.Protect = append(slices.Clone(*protect), *own)
}
