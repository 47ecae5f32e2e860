package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/controller/confine"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/webhook/lint"
)

// onlyOptions are the flags of a process without rights in the cluster.
type onlyOptions struct {
	onlyNamespaces []string
	configDir      string
}

func (o *options) addOnly(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.onlyNamespaces, "only-namespaces", o.onlyNamespaces, "work in these namespaces alone, with Roles in them and no ClusterRole. Policies and profiles come from --config-dir; triggers cleanup and tally are off")
	flags.StringVar(&o.configDir, "config-dir", o.configDir, "folder with LifecyclePolicies, KindProfiles and CustomResourceDefinitions as YAML files; with --only-namespaces")
}

// only reports whether Curfew works in listed namespaces alone.
func (o *options) only() bool { return len(o.onlyNamespaces) > 0 }

// clusterTriggers take rights in the cluster.
var clusterTriggers = []policy.Trigger{policy.TriggerCleanup, policy.TriggerTally}

func (o *options) validateOnly() error {
	var errs []error
	for _, name := range o.onlyNamespaces {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--only-namespaces=%s: %s", name, strings.Join(problems, "; ")))
		}
		if policy.Protects(o.protected(), name) {
			errs = append(errs, fmt.Errorf("--only-namespaces=%s: nothing is ever deleted there, see --protect", name))
		}
	}
	if o.only() && len(o.namespaces) > 0 {
		errs = append(errs, errors.New("--namespaces: leave it out, --only-namespaces names all namespaces"))
	}
	if o.only() && !slices.ContainsFunc(o.enable, func(name string) bool { return !slices.Contains(clusterTriggers, policy.Trigger(name)) }) {
		errs = append(errs, fmt.Errorf("--enable=%s: with --only-namespaces name at least one of ttl, label and deadline", strings.Join(o.enable, ",")))
	}
	if o.configDir != "" && !o.only() {
		errs = append(errs, fmt.Errorf("--config-dir=%s: set --only-namespaces, too: otherwise policies and profiles come from the cluster", o.configDir))
	}
	return errors.Join(errs...)
}

// validateOnlyAdmission refuses what takes rights in the cluster of a webhook.
func (o *options) validateOnlyAdmission(parts parts) error {
	var errs []error
	if o.only() && parts.webhook && o.certificates != certManager {
		errs = append(errs, fmt.Errorf("--certificates=%s: with --only-namespaces give cert-manager: the certificate of --certificate-dir is served, whoever issues it", o.certificates))
	}
	if o.only() && o.apiAddr != "" {
		errs = append(errs, fmt.Errorf("--api-addr=%s: leave it out, the HTTP API reviews tokens, which takes rights in the cluster", o.apiAddr))
	}
	return errors.Join(errs...)
}

// switchOff switches off the triggers that take rights in the cluster, before the flags are
// published.
func (o *options) switchOff() {
	if o.only() {
		o.enable = slices.DeleteFunc(slices.Clone(o.enable), func(name string) bool { return slices.Contains(clusterTriggers, policy.Trigger(name)) })
	}
}

// confine has all clients refuse what reaches beyond the listed namespaces.
func (o *options) confine(config *rest.Config) {
	if o.only() {
		config.Wrap(confine.Options{Namespaces: o.onlyNamespaces, Own: o.namespace}.Wrap)
	}
}

// files are where policies, profiles and kinds come from. A bad file ends the start.
func (p *process) files(ctx context.Context) (follow.Files, error) {
	p.log.Info("working in listed namespaces only: nothing that takes rights in the cluster is done",
		"namespaces", p.options.onlyNamespaces, "off", "cleanup policies, PodTallies, webhook configurations, cluster-scoped kinds, training runtimes, stamps and statuses")
	definitions, err := crd.All()
	if err != nil {
		return follow.Files{}, err
	}
	schemas, err := lint.NewSchemas(definitions)
	if err != nil {
		return follow.Files{}, err
	}
	files := follow.Files{Dir: p.options.configDir, Stored: schemas.Stored, Clock: p.clock}
	if _, _, err := files.Read(ctx); err != nil {
		return files, fmt.Errorf("--config-dir=%s: %w", p.options.configDir, err)
	}
	return files, nil
}

// behind reports whether objects must be judged live before they are deleted. Without watches of
// namespaces and policies they always are.
func (c *controller) behind() bool { return c.options.only() || c.reach.Behind() }
