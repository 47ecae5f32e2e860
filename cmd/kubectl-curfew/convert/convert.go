package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/folders"
	"curfew.dev/curfew/policy/schedule"
	"curfew.dev/curfew/policy/v1alpha1"
)

// convertOptions are the flags of convert, each documented where it is added.
type convertOptions struct {
	files     []string
	recursive bool
	strict    bool
	broader   bool
	Options
}

// Command is kubectl curfew convert.
func Command() *cobra.Command {
	options := convertOptions{Options: Options{ServiceAccount: "curfew-cleanup", Schedule: "*/10 * * * *"}}
	command := &cobra.Command{
		Use:   "convert -f FILE|DIR|-",
		Short: "Convert policies of Kyverno, k8s-cleaner and other cleanup tools",
		Long: `Convert the policies, rules and settings of other cleanup tools into Curfew's
CleanupPolicies and ClusterCleanupPolicies, without a cluster.

Reads Kyverno's DeletingPolicy, NamespacedDeletingPolicy, ClusterCleanupPolicy
and CleanupPolicy with the ConfigMap that has its resourceFilters. Reads
k8s-cleaner's Cleaner, the ConfigMaps of Tekton Pruner, the TektonConfig and TektonPruner of
Tekton's operator, kor's lists of exceptions, and kube-janitor's rules file or
the ConfigMap with it. Other objects are ignored; on objects with Kyverno's TTL
label, convert says what to write instead.

The policies go to standard output. What cannot be converted goes to standard
error and, as comments, into the policy, which is then suspended. If a policy
would delete objects that its source keeps, nothing is written, unless you say
--allow-broader.

Exit status: 0 converted, 1 if a policy would delete more than before, or with
--strict if something could not be converted, 2 usage.`,
		Example: `  kubectl get deletingpolicies,clustercleanuppolicies.kyverno.io -o yaml | kubectl curfew convert -f -
  kubectl curfew convert -f kyverno/ -R > policies.yaml
  kubectl curfew convert -f rules.yaml --schedule '0 * * * *' --deployment-time-annotation none`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q stands alone: put -f before it", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.validate(); err != nil {
				return err
			}
			return options.run(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&options.files, "filename", "f", nil,
		"file or directory with policies or rules, or - for standard input; may be given more than once")
	flags.BoolVarP(&options.recursive, "recursive", "R", false, "read the directories below as well")
	flags.BoolVar(&options.broader, "allow-broader", false,
		"write policies that would delete more than their source, suspended; without it, such a finding stops the conversion")
	flags.BoolVar(&options.strict, "strict", false, "exit with 1 if something could not be converted")
	flags.StringVar(&options.ServiceAccount, "service-account", options.ServiceAccount,
		"serviceAccountName of policies in namespaces, which Kyverno does not have")
	flags.StringVar(&options.Schedule, "schedule", options.Schedule, "schedule of policies whose source has none: rules of kube-janitor, limits of Tekton Pruner, lists of kor")
	flags.StringVar(&options.DeploymentTime, "deployment-time-annotation", "",
		"annotation of kube-janitor, or none if it runs without; if not given, rules are not converted, unless --allow-broader")
	return command
}

func (o *convertOptions) validate() error {
	var errs []error
	if len(o.files) == 0 {
		errs = append(errs, errors.New("-f is missing: give a file, a directory, or - for standard input"))
	}
	if problems := validation.IsDNS1123Subdomain(o.ServiceAccount); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--service-account=%s: %s", o.ServiceAccount, strings.Join(problems, "; ")))
	}
	if problems := validation.IsQualifiedName(o.DeploymentTime); o.DeploymentTime != "" && len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--deployment-time-annotation=%s: %s", o.DeploymentTime, strings.Join(problems, "; ")))
	}
	if _, err := schedule.Parse(o.Schedule, ""); err != nil {
		errs = append(errs, fmt.Errorf("--schedule: %w", err))
	}
	return errors.Join(errs...)
}

func (o *convertOptions) run(in io.Reader, out, diagnostics io.Writer) error {
	result, err := o.read(in)
	if err != nil {
		return err
	}
	lost, broader := 0, 0
	for _, finding := range result.Findings {
		severity := "note"
		switch {
		case finding.Broader:
			severity = "deletes more"
			broader++
		case finding.Lost:
			severity = "not converted"
			lost++
		}
		if _, err := fmt.Fprintf(diagnostics, "%s: %s\n", severity, finding); err != nil {
			return fmt.Errorf("writing the findings: %w", err)
		}
	}
	if broader > 0 && !o.broader {
		_, err := fmt.Fprintf(diagnostics, "error: nothing is written, since the policies would delete more than before "+
			"(%d times \"deletes more\" above): change the source, or add --allow-broader to get them suspended\n", broader)
		return errors.Join(console.ErrBadNews, err)
	}
	if err := Write(out, result.Policies); err != nil {
		return fmt.Errorf("writing the policies: %w", err)
	}
	if len(result.Policies)+len(result.Findings) == 0 {
		return errors.New("-f names no policy, rule or setting of Kyverno, k8s-cleaner, Tekton Pruner, kor or kube-janitor")
	}
	if o.strict && lost+broader > 0 {
		return console.ErrBadNews
	}
	return nil
}

// read converts all files. What one file says about the policies of another is read first.
func (o *convertOptions) read(in io.Reader) (Result, error) {
	var out Result
	files, err := folders.ListFiles(o.files, o.recursive, nil, in)
	if err != nil {
		return out, err
	}
	for _, gather := range []bool{true, false} {
		for i := range files {
			if files[i].Skip != "" {
				if gather {
					out.Findings = append(out.Findings, Finding{File: files[i].Name, Reason: "is skipped: " + files[i].Skip})
				}
				continue
			}
			source, err := files[i].Source()
			if err != nil {
				return out, err
			}
			if gather {
				o.Gather(source.Name, source.Data)
				continue
			}
			result := Source(source.Name, source.Data, o.Options)
			out.Policies, out.Findings = append(out.Policies, result.Policies...), append(out.Findings, result.Findings...)
		}
	}
	return out, nil
}

// Options are settings that the sources do not have.
type Options struct {
	// ServiceAccount of converted policies in namespaces. Kyverno's policies name none.
	ServiceAccount string
	// Schedule of converted rules of kube-janitor, which has an interval instead.
	Schedule string
	// DeploymentTime is kube-janitor's --deployment-time-annotation, "none" if it runs without, or
	// "" if that is not known. A rules file does not show it.
	DeploymentTime string
	// known is what Gather has read.
	known *settings
}

// Finding is something in a source that the user must know.
type Finding struct {
	File, Object, Field, Reason string
	// Lost means that the source could not be converted faithfully: the policy is suspended, or not
	// written. Otherwise the finding is a note.
	Lost bool
	// Broader means that a restriction of the source is missing: without suspend the policy would
	// delete objects that the other tool keeps. It is Lost, too.
	Broader bool
}

// String is the finding on one line.
func (f Finding) String() string {
	parts := []string{f.File, f.Object, f.Field, f.Reason}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// Result of a conversion.
type Result struct {
	Policies []Policy
	// Findings of all policies, and of what became none.
	Findings []Finding
}

// labels reports Kyverno's labels on objects of any kind.
func (c *converter) labels(of *header) {
	name := of.Kind + " " + of.Name
	if value, ok := of.Labels[labelKyvernoTTL]; ok {
		c.add(Finding{File: c.file, Object: name, Field: "metadata.labels[" + labelKyvernoTTL + "]",
			Reason: fmt.Sprintf("write label curfew.dev/ttl: %q, or run Curfew with --kyverno-label", value)})
	}
	if _, ok := of.Annotations[annotationPropagation]; ok {
		c.lost(name, "metadata.annotations["+annotationPropagation+"]",
			"is not read: set --propagation, or propagationPolicy in the KindProfile of the kind")
	}
	if of.Labels["rbac.kyverno.io/aggregate-to-cleanup-controller"] == "true" {
		c.add(Finding{File: c.file, Object: name, Field: "metadata.labels",
			Reason: `add label curfew.dev/aggregate-to-controller: "true", so that Curfew gets these permissions`})
	}
}

const (
	labelKyvernoTTL       = "cleanup.kyverno.io/ttl"
	annotationPropagation = "cleanup.kyverno.io/propagation-policy"
)

func (c *converter) add(finding Finding) { c.result.Findings = append(c.result.Findings, finding) }

func (c *converter) lost(object, field, format string, args ...any) {
	c.add(Finding{File: c.file, Object: object, Field: field, Reason: fmt.Sprintf(format, args...), Lost: true})
}

// decode decodes an object. What it does not know may restrict the policy, so the draft loses it.
func decode(text []byte, into any) ([]string, error) {
	strict, err := json.UnmarshalStrict(text, into)
	return console.Map(strict, error.Error), err
}

// builtin is a kind of Kubernetes.
type builtin struct {
	group, kind, plural string
	cluster             bool
}

// builtins are the kinds of Kubernetes that people clean up, or exclude.
var builtins = parseBuiltins(`
	/ConfigMap/configmaps /Endpoints/endpoints /Event/events /LimitRange/limitranges /Namespace/namespaces! /Node/nodes!
	/PersistentVolume/persistentvolumes! /PersistentVolumeClaim/persistentvolumeclaims /Pod/pods /PodTemplate/podtemplates
	/ReplicationController/replicationcontrollers /ResourceQuota/resourcequotas /Secret/secrets /Service/services
	/ServiceAccount/serviceaccounts
	apps/ControllerRevision/controllerrevisions apps/DaemonSet/daemonsets apps/Deployment/deployments apps/ReplicaSet/replicasets
	apps/StatefulSet/statefulsets
	autoscaling/HorizontalPodAutoscaler/horizontalpodautoscalers
	batch/CronJob/cronjobs batch/Job/jobs
	coordination.k8s.io/Lease/leases discovery.k8s.io/EndpointSlice/endpointslices
	apiregistration.k8s.io/APIService/apiservices!
	networking.k8s.io/Ingress/ingresses networking.k8s.io/IngressClass/ingressclasses! networking.k8s.io/NetworkPolicy/networkpolicies
	policy/PodDisruptionBudget/poddisruptionbudgets
	rbac.authorization.k8s.io/ClusterRole/clusterroles! rbac.authorization.k8s.io/ClusterRoleBinding/clusterrolebindings!
	rbac.authorization.k8s.io/Role/roles rbac.authorization.k8s.io/RoleBinding/rolebindings
	scheduling.k8s.io/PriorityClass/priorityclasses! storage.k8s.io/StorageClass/storageclasses!
	storage.k8s.io/VolumeAttachment/volumeattachments! apiextensions.k8s.io/CustomResourceDefinition/customresourcedefinitions!`)

// parseBuiltins reads group/Kind/plural; ! follows a cluster-scoped kind.
func parseBuiltins(text string) []builtin {
	var out []builtin
	for _, one := range strings.Fields(text) {
		plural, cluster := strings.CutSuffix(one, "!")
		parts := strings.Split(plural, "/")
		out = append(out, builtin{parts[0], parts[1], parts[2], cluster})
	}
	return out
}

func builtinBy(matches func(*builtin) bool) *builtin {
	for i := range builtins {
		if matches(&builtins[i]) {
			return &builtins[i]
		}
	}
	return nil
}

// pluralOf is the plural of a kind of exactly this group. It is a guess if the kind is not known.
func pluralOf(of schema.GroupKind) (plural string, known bool) {
	if b := builtinBy(func(b *builtin) bool { return b.kind == of.Kind && b.group == of.Group }); b != nil {
		return b.plural, true
	}
	guess, _ := meta.UnsafeGuessKindToResource(of.WithVersion(""))
	return guess.Resource, false
}

var versionName = regexp.MustCompile(`^(\*|v[0-9]+((alpha|beta)[0-9]+)?)$`)

// rule turns a kind as Kyverno writes it into a rule: Kind, version/Kind or group/version/Kind. The
// reason is why that is not possible, and note what should be checked.
func rule(kind string) (out v1alpha1.ResourceRule, note, reason string) {
	parts := strings.Split(kind, "/")
	name := parts[len(parts)-1]
	var group, version string
	switch {
	case len(parts) == 2 && versionName.MatchString(parts[0]):
		version = parts[0]
	case len(parts) == 3 && versionName.MatchString(parts[1]):
		group, version = parts[0], parts[1]
	case len(parts) != 1:
		return out, "", "is not a kind, or it is a subresource"
	}
	if version != "" && version != "*" {
		out.APIVersions = []string{version}
	}
	if name == "*" {
		group = cmp.Or(group, "*")
		out.APIGroups, out.Resources = []string{group}, []string{"*"}
		return out, "a wildcard never matches what a cluster depends on, such as Namespaces and RBAC", ""
	}
	if strings.ContainsAny(kind, "?") || strings.Contains(name, "*") || strings.Contains(name, ".") || name == "" {
		return out, "", "wildcards in a kind are not supported"
	}
	known := builtinBy(func(b *builtin) bool { return b.kind == name && (group == "" || group == "*" || group == b.group) })
	if known != nil {
		out.APIGroups, out.Resources = []string{known.group}, []string{known.plural}
		return out, "", ""
	}
	plural, _ := pluralOf(schema.GroupKind{Group: "?", Kind: name})
	out.Resources = []string{plural}
	if group == "" || group == "*" {
		return out, "", "is not a kind of Kubernetes: write it as group/version/Kind"
	}
	out.APIGroups = []string{group}
	return out, "the plural " + plural + " is a guess: check it by kubectl api-resources", ""
}
