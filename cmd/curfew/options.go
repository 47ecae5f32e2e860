package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/controller/confine"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
)

// options are the flags, each documented where it is added.
type options struct {
	kubeconfig, namespace      string
	healthAddr, metricsAddr    string
	verbosity                  int
	propagation                string
	nativeTTL                  string
	host                       string
	port                       int
	warnBelow                  string
	maxReviewSize              string
	cleanupReportBytes         string
	requireDelete              bool
	controllerAccounts         []string
	strictLabels               bool
	expiredLabels              string
	leaderElect                bool
	protect, namespaces        []string
	kyvernoLabel               bool
	enable                     []string
	dryRun, favourDrain        bool
	failClosed, leaveNativeTTL bool
	builtinProfiles            bool
	maxDeletionsPerMinute      int
	relistEvery, stuckAfter    time.Duration
	cleanupMinInterval         time.Duration
	cleanupMaxPolicies         int
	metricsPolicyNames         bool
	requireApproval            bool
	leaseName                  string
	leaseDuration, gracePeriod time.Duration
	pprof                      string
	apiOptions
	servingOptions
	onlyOptions
	// published are the effective values of all flags, by name.
	published map[string]string
}

// maxVerbosity is the highest level of the libraries, which log in the same way. Below 0 the logger
// would drop the messages about deletions.
const maxVerbosity = 10

// cleanupAccount is the ServiceAccount that ClusterCleanupPolicies without one of their own delete
// as. manifests/rbac names it.
const cleanupAccount = "curfew-cleanup"

// controllerAccount is the ServiceAccount that the controller runs as, as manifests/rbac names it.
const controllerAccount = "curfew-controller"

func defaultOptions() *options {
	return &options{
		namespace: "curfew-system", propagation: string(metav1.DeletePropagationBackground), healthAddr: ":8081", metricsAddr: ":8080",
		nativeTTL: "on", port: 9443, warnBelow: "60s", expiredLabels: "deny", maxReviewSize: "40Mi",
		enable: triggerNames(), builtinProfiles: true, leaderElect: true, protect: judging.DefaultProtect(),
		relistEvery: feed.DefaultRelistEvery, stuckAfter: engine.DefaultStuckAfter, cleanupMinInterval: 5 * time.Minute, cleanupMaxPolicies: 20,
		cleanupReportBytes: "64Mi", leaseName: "curfew-controller", leaseDuration: 15 * time.Second, gracePeriod: 10 * time.Second,
		servingOptions: defaultServing(),
	}
}

func (o *options) addCommon(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "kubeconfig file; empty means in-cluster, else the usual places")
	flags.StringVar(&o.namespace, "namespace", o.namespace, "namespace that Curfew itself runs in")
	flags.StringVar(&o.healthAddr, "health-addr", o.healthAddr, "address that serves /healthz and /readyz")
	flags.StringVar(&o.metricsAddr, "metrics-addr", o.metricsAddr, "address that serves /metrics; 0 means none")
	flags.StringVar(&o.pprof, "pprof-addr", o.pprof, "address that serves /debug/pprof; empty means none")
	flags.StringVar(&o.nativeTTL, "native-ttl", o.nativeTTL,
		"on: default TTLs go into a kind's native field; off: into annotations, so that Curfew alone deletes")
	flags.StringSliceVar(&o.enable, "enable", o.enable, "triggers that are switched on. For the others no default is filled in, nothing is tracked and nothing is deleted or stopped; values that objects carry stay")
	flags.BoolVar(&o.kyvernoLabel, "kyverno-label", o.kyvernoLabel,
		"carry out label cleanup.kyverno.io/ttl as well as curfew.dev/ttl, and review it at admission")
	flags.BoolVar(&o.builtinProfiles, "builtin-profiles", o.builtinProfiles,
		"know the kinds whose KindProfiles come with Curfew. Without them, of custom kinds only those with a KindProfile in the cluster")
	flags.DurationVar(&o.cleanupMinInterval, "cleanup-min-interval", o.cleanupMinInterval,
		"shortest time between two runs of a cleanup policy")
	flags.IntVar(&o.cleanupMaxPolicies, "cleanup-max-policies", o.cleanupMaxPolicies,
		"how many CleanupPolicies of one namespace are admitted and run; the oldest do")
	flags.StringSliceVar(&o.protect, "protect", o.protect,
		"namespaces, or patterns such as openshift-*, in which nothing is ever deleted and no default is given, beside Curfew's own")
	flags.BoolVar(&o.dryRun, "dry-run", o.dryRun, "report what would be deleted, delete nothing; admission says so")
	flags.IntVarP(&o.verbosity, "verbosity", "v", o.verbosity, "how much is logged: 0 what matters, 1 retries, 2 every decision")
}

func (o *options) addWebhook(flags *pflag.FlagSet) {
	flags.StringVar(&o.host, "host", o.host, "address that the webhooks listen on; empty means all")
	flags.IntVar(&o.port, "port", o.port, "port that the webhooks listen on")
	flags.StringVar(&o.warnBelow, "warn-below", o.warnBelow, "TTLs under this are warned about")
	flags.BoolVar(&o.requireDelete, "require-delete", o.requireDelete,
		"deny a TTL, and whatever else has Curfew delete an object, to users who may not delete it themselves, instead of warning")
	flags.StringSliceVar(&o.controllerAccounts, "controller-accounts", o.controllerAccounts, "user names of controllers, besides those that KindProfiles name: what they create for an owner is admitted with a warning where a rule would deny it")
	flags.StringVar(&o.maxReviewSize, "max-review-size", o.maxReviewSize,
		"largest request from the API server that is reviewed; a larger one is denied")
	flags.BoolVar(&o.strictLabels, "strict-labels", o.strictLabels, "deny a TTL label that cannot be read, instead of warning")
	flags.StringVar(&o.expiredLabels, "expired-labels", o.expiredLabels,
		"deny a TTL label that is expired when it is set, or warn: what is due is then deleted at once")
}

func (o *options) addController(flags *pflag.FlagSet) {
	flags.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "wait for the lease before deleting, so that one replica works at a time")
	flags.StringVar(&o.leaseName, "lease-name", o.leaseName, "name of the lease; the controller's Role has to allow it")
	flags.DurationVar(&o.leaseDuration, "lease-duration", o.leaseDuration, "how long the lease of a silent leader holds")
	flags.StringSliceVar(&o.namespaces, "namespaces", o.namespaces, "namespaces in which TTL labels are looked for, of kinds that may not be watched everywhere, beside those in which a role is bound to the controller")
	flags.StringVar(&o.propagation, "propagation", o.propagation,
		"what happens to dependents, unless a LifecyclePolicy or the profile of the kind sets it: Background, Foreground or Orphan")
	flags.BoolVar(&o.leaveNativeTTL, "leave-native-ttl", o.leaveNativeTTL,
		"leave Jobs whose author set ttlSecondsAfterFinished to Kubernetes, which deletes them")
	flags.BoolVar(&o.failClosed, "fail-closed", o.failClosed,
		"refuse objects of kinds with a profile that Curfew could not validate, instead of letting them pass")
	flags.BoolVar(&o.favourDrain, "favour-drain", o.favourDrain, "take all that the API server gives, at the cost of its other clients")
	flags.IntVar(&o.maxDeletionsPerMinute, "max-deletions-per-minute", o.maxDeletionsPerMinute,
		"bound on deletions in any minute, those of deadlines included; the first minute after a start has no budget; 0 means none")
	flags.DurationVar(&o.relistEvery, "relist-every", o.relistEvery,
		"how often Curfew lists all objects again, to find changes that the watch missed")
	flags.StringVar(&o.cleanupReportBytes, "cleanup-report-bytes", o.cleanupReportBytes,
		"how much the CleanupReports of one namespace may take; the oldest are deleted beyond it; 0 means any size")
	flags.BoolVar(&o.metricsPolicyNames, "metrics-policy-names", o.metricsPolicyNames,
		"name stalled cleanup policies in metrics, which anyone who reaches /metrics can read")
	flags.BoolVar(&o.requireApproval, "require-approval", o.requireApproval,
		"let a new or changed CleanupPolicy delete nothing before somebody has approved it")
	flags.DurationVar(&o.stuckAfter, "stuck-after", o.stuckAfter, "report what is still terminating after this long")
}

// protected are the namespaces in which nothing is ever deleted.
func (o *options) protected() []string { return append([]string{o.namespace}, o.protect...) }

func (o *options) annotationsOnly() bool { return o.nativeTTL == "off" }

// triggerNames are the names of all triggers.
func triggerNames() []string {
	var out []string
	for _, info := range judging.Triggers() {
		out = append(out, string(info.Name))
	}
	return out
}

// on reports whether a trigger is switched on.
func (o *options) on(name policy.Trigger) bool { return slices.Contains(o.enable, string(name)) }

// triggers are the names of those that are switched on.
func (o *options) triggers() []policy.Trigger { return o.triggersThat(true) }

// off are the names of the triggers that are switched off.
func (o *options) off() []policy.Trigger { return o.triggersThat(false) }

func (o *options) triggersThat(on bool) (out []policy.Trigger) {
	for _, info := range judging.Triggers() {
		if o.on(info.Name) == on {
			out = append(out, info.Name)
		}
	}
	return out
}

// validate names every flag that cannot be used, with its value and the fix.
func (o *options) validate() error {
	var errs []error
	bad := func(flag string, value any, fix string) {
		errs = append(errs, fmt.Errorf("--%s=%v: %s", flag, value, fix))
	}
	if problems := validation.IsDNS1123Label(o.namespace); len(problems) > 0 {
		bad("namespace", o.namespace, strings.Join(problems, "; "))
	}
	for flag, address := range map[string]string{"health-addr": o.healthAddr, "metrics-addr": o.metricsAddr, "pprof-addr": o.pprof} {
		if flag == "metrics-addr" && address == "0" {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil && (address != "" || flag != "pprof-addr") {
			bad(flag, address, "give host:port, or :port for all addresses")
		}
	}
	o.validateChoices(bad)
	if o.port < 1 || o.port > 65535 {
		bad("port", o.port, "give a port from 1 to 65535")
	}
	if _, err := lifetime.ParseDuration(o.warnBelow); err != nil {
		bad("warn-below", o.warnBelow, err.Error())
	}
	if size, err := resource.ParseQuantity(o.cleanupReportBytes); err != nil || size.Sign() < 0 {
		bad("cleanup-report-bytes", o.cleanupReportBytes, "give a size such as 64Mi, or 0")
	}
	if size, err := resource.ParseQuantity(o.maxReviewSize); err != nil || size.Value() < 1<<20 || size.Value() > 1<<30 {
		bad("max-review-size", o.maxReviewSize, "give a size from 1Mi to 1Gi, such as 40Mi")
	}
	o.validateNamespaces(bad)
	if o.maxDeletionsPerMinute < 0 {
		bad("max-deletions-per-minute", o.maxDeletionsPerMinute, "give 0 for no bound, or more")
	}
	if o.relistEvery < time.Minute {
		bad("relist-every", o.relistEvery, "give 1m or more: the watch brings changes at once, the relist is its safety net")
	}
	if o.stuckAfter < time.Second {
		bad("stuck-after", o.stuckAfter, "give 1s or more")
	}
	if o.cleanupMinInterval < time.Minute {
		bad("cleanup-min-interval", o.cleanupMinInterval, "give 1m or more")
	}
	if o.cleanupMaxPolicies < 0 {
		bad("cleanup-max-policies", o.cleanupMaxPolicies, "give 0 or more")
	}
	if o.verbosity < 0 || o.verbosity > maxVerbosity {
		bad("verbosity", o.verbosity, fmt.Sprintf("give 0 to %d", maxVerbosity))
	}
	if problems := validation.IsDNS1123Subdomain(o.leaseName); len(problems) > 0 {
		bad("lease-name", o.leaseName, strings.Join(problems, "; "))
	}
	if o.leaseDuration < 3*time.Second {
		bad("lease-duration", o.leaseDuration, "give 3s or more")
	}
	return errors.Join(append(errs, o.validateEnable(), o.validateOnly())...)
}

// validateNamespaces reports every name that no namespace can have. --protect also takes patterns.
func (o *options) validateNamespaces(bad func(flag string, value any, fix string)) {
	for flag, names := range map[string][]string{"protect": o.protect, "namespaces": o.namespaces} {
		for _, name := range names {
			label := name
			if flag == "protect" {
				label = strings.ReplaceAll(name, "*", "x")
			}
			if problems := validation.IsDNS1123Label(label); len(problems) > 0 {
				bad(flag, name, strings.Join(problems, "; "))
			}
		}
	}
}

// validateChoices names every flag that has none of its values.
func (o *options) validateChoices(bad func(flag string, value any, fix string)) {
	for _, choice := range []struct {
		flag, value string
		of          []string
		fix         string
	}{
		{"native-ttl", o.nativeTTL, []string{"on", "off"}, "give on or off"},
		{"expired-labels", o.expiredLabels, []string{"deny", "warn"}, "give deny or warn"},
		{"propagation", o.propagation, []string{"Background", "Foreground", "Orphan"}, "give Background, Foreground or Orphan"},
	} {
		if !slices.Contains(choice.of, choice.value) {
			bad(choice.flag, choice.value, choice.fix)
		}
	}
}

func (o *options) validateEnable() error {
	all := strings.Join(triggerNames(), ", ")
	if len(o.enable) == 0 {
		return fmt.Errorf("--enable=: name at least one of %s; with --dry-run nothing is deleted either", all)
	}
	for _, name := range o.enable {
		if !slices.Contains(triggerNames(), name) {
			return fmt.Errorf("--enable=%s: the triggers are %s", name, all)
		}
	}
	return nil
}

// onlyOptions are the flags of a process without rights in the cluster.
type onlyOptions struct {
	onlyNamespaces []string
	configDir      string
}

func (o *options) addOnly(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.onlyNamespaces, "only-namespaces", o.onlyNamespaces, "work in these namespaces alone, with Roles in them and no ClusterRole. Policies and profiles come from --config-dir; triggers cleanup and tally are off")
	flags.StringVar(&o.configDir, "config-dir", o.configDir,
		"folder with LifecyclePolicies, KindProfiles and CustomResourceDefinitions as YAML files; with --only-namespaces")
}

// only reports whether Curfew works in listed namespaces alone.
func (o *options) only() bool { return len(o.onlyNamespaces) > 0 }

// clusterTriggers need rights in the whole cluster.
var clusterTriggers = []policy.Trigger{policy.TriggerCleanup, policy.TriggerTally}

func (o *options) validateOnly() error {
	var errs []error
	for _, name := range o.onlyNamespaces {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--only-namespaces=%s: %s", name, strings.Join(problems, "; ")))
		}
		if judging.Protects(o.protected(), name) {
			errs = append(errs, fmt.Errorf("--only-namespaces=%s: nothing is ever deleted there, see --protect", name))
		}
	}
	if o.only() && len(o.namespaces) > 0 {
		errs = append(errs, errors.New("--namespaces: leave it out, --only-namespaces names all namespaces"))
	}
	if o.only() && !slices.ContainsFunc(o.enable, func(name string) bool { return !slices.Contains(clusterTriggers, policy.Trigger(name)) }) {
		errs = append(errs, fmt.Errorf("--enable=%s: with --only-namespaces name at least one of ttl, label and deadline",
			strings.Join(o.enable, ",")))
	}
	if o.configDir != "" && !o.only() {
		errs = append(errs, fmt.Errorf("--config-dir=%s: set --only-namespaces, too: otherwise policies and profiles come from the cluster",
			o.configDir))
	}
	return errors.Join(errs...)
}

// validateOnlyAdmission refuses options of the webhook that need rights in the whole cluster.
func (o *options) validateOnlyAdmission(parts parts) error {
	var errs []error
	if o.only() && parts.webhook && o.certificates != certManager {
		errs = append(errs, fmt.Errorf("--certificates=%s: with --only-namespaces give cert-manager: Curfew serves the certificate in --certificate-dir, whatever tool issued it", o.certificates))
	}
	if o.only() && o.apiAddr != "" {
		errs = append(errs, fmt.Errorf("--api-addr=%s: leave it out, the HTTP API reviews tokens, which takes rights in the cluster", o.apiAddr))
	}
	return errors.Join(errs...)
}

// switchOff switches off the triggers that need rights in the whole cluster, before the flags are
// published.
func (o *options) switchOff() {
	if o.only() {
		o.enable = slices.DeleteFunc(slices.Clone(o.enable),
			func(name string) bool { return slices.Contains(clusterTriggers, policy.Trigger(name)) })
	}
}

// confine makes all clients refuse requests beyond the listed namespaces.
func (o *options) confine(config *rest.Config) {
	if o.only() {
		config.Wrap(confine.Options{Namespaces: o.onlyNamespaces, Own: o.namespace}.Wrap)
	}
}
