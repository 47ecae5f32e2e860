package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/wellknown"
)

// local are cleanup policies and objects of files.
type local struct {
	*Files
	policies []*cleanup.Policy
}

// ReadLocal reads files as if they were applied. namespace is the namespace of objects that name
// none.
func ReadLocal(ctx context.Context, names []string, recursive bool, namespace string, in io.Reader, progress *console.Progress) (*local, error) {
	files, err := folders.ListFiles(names, recursive, nil, in)
	if err != nil {
		return nil, err
	}
	namespace = cmp.Or(namespace, lint.DefaultNamespace)
	_, schemas, err := session.Builtin()
	if err != nil {
		return nil, err
	}
	out, compiler := &local{}, expression.NewCompiler(expression.DefaultCacheSize)
	var objects []*unstructured.Unstructured
	manifests := folders.NewManifests(files)
	err = manifests.Each(ctx, progress, func(document *lint.Document) error {
		object := &unstructured.Unstructured{Object: document.Object}
		kind := object.GroupVersionKind()
		if kind.Group != wellknown.Group || !strings.HasSuffix(kind.Kind, "CleanupPolicy") {
			objects = append(objects, object)
			return nil
		}
		object = object.DeepCopy()
		switch {
		case kind.Kind != "CleanupPolicy":
			object.SetNamespace("")
		case object.GetNamespace() == "":
			object.SetNamespace(namespace)
		}
		stored, err := schemas.Stored(ctx, object.Object)
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", document.File, kind.Kind, object.GetName(), err)
		}
		compiled, errs, _ := cleanup.Read(compiler, &unstructured.Unstructured{Object: stored})
		if len(errs) > 0 {
			return fmt.Errorf("%s: %s %s cannot run: %w", document.File, kind.Kind, object.GetName(), errs.ToAggregate())
		}
		out.policies = append(out.policies, compiled)
		return nil
	})
	if err == nil && len(manifests.Unreadable) > 0 {
		err = manifests.Unreadable[0]
	}
	if err != nil {
		return nil, err
	}
	own, err := profiles.All()
	if err != nil {
		return nil, err
	}
	known, err := platform.New(own)
	if err != nil {
		return nil, err
	}
	out.Files, err = NewFiles(ctx, objects, known, schemas, namespace)
	return out, err
}

// Policy is the only policy of the files, or the one that is named.
func (l *local) Policy(args []string) (*cleanup.Policy, error) {
	var names []string
	var found []*cleanup.Policy
	for _, one := range l.policies {
		name := policyName(one)
		if names = append(names, name); len(args) == 0 || args[0] == one.Name || args[0] == name {
			found = append(found, one)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(names) == 0:
		return nil, errors.New("there is no CleanupPolicy or ClusterCleanupPolicy in the files")
	default:
		slices.Sort(names)
		return nil, fmt.Errorf("name one of the policies in the files: %s", strings.Join(names, ", "))
	}
}

// policyName is a policy as kubectl takes it.
func policyName(p *cleanup.Policy) string {
	if p.Namespace == "" {
		return "clustercleanuppolicy/" + p.Name
	}
	return "cleanuppolicy/" + p.Name
}

func (l *local) Preview(ctx context.Context, p *cleanup.Policy, now time.Time) (*Result, error) {
	return Of(ctx, p, l.Files, survey.Options{
		Account: p.Account.String(), Served: l.Resources, Source: l.Files, Namespaces: l.Namespaces, Protect: judging.DefaultProtect(), Now: now,
	})
}
