package main

import (
	"crypto/tls"
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

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// parts are the parts of Curfew that one process runs.
type parts struct{ webhook, controller bool }

// options are the flags, each documented where it is added.
type options struct {
	kubeconfig, namespace, healthAddr, metricsAddr, pprof string
	verbosity                                             int
	enable, protect                                       []string
	nativeTTL                                             string
	dryRun, kyvernoLabel, builtinProfiles, metricsSecure  bool

	// The webhooks, their server and the HTTP API.
	host, warnBelow, expiredLabels                            string
	apiAddr, httpAPIAudience                                  string
	port                                                      int
	requireDelete, strictLabels                               bool
	controllerAccounts, clientNames                           []string
	certificates, certificateDir, tlsMinVersion, clientCAFile string
	caSettle, drainDelay                                      time.Duration

	// The controller.
	leaseName, propagation, cleanupReportBytes string
	namespaces                                 []string
	leaderElect, favourDrain, leaveNativeTTL   bool
	failClosed, metricsPolicyNames             bool
	requireApproval                            bool
	maxDeletionsPerMinute, cleanupMaxPolicies  int
	leaseDuration, gracePeriod                 time.Duration
	relistEvery, stuckAfter                    time.Duration
	cleanupMinInterval                         time.Duration

	// published are the effective values of all flags, by name.
	published map[string]string
}

// maxVerbosity is the highest level of the libraries, which log in the same way. Below 0 the logger
// would drop the messages about deletions.
const maxVerbosity = 10

// selfManaged and certManager are the values of --certificates.
const selfManaged, certManager = "self-managed", "cert-manager"

var tlsVersions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// controllerAccount is the ServiceAccount that the controller runs as, and cleanupAccount the one
// that ClusterCleanupPolicies without one of their own delete as. manifests/rbac names them.
const controllerAccount, cleanupAccount = "curfew-controller", "curfew-cleanup"

func defaultOptions() *options {
	return &options{
		namespace: "curfew-system", propagation: string(metav1.DeletePropagationBackground), healthAddr: ":8081", metricsAddr: ":8080",
		nativeTTL: "on", port: 9443, warnBelow: "60s", expiredLabels: "deny",
		enable: triggerNames(), builtinProfiles: true, leaderElect: true, protect: judging.DefaultProtect(),
		relistEvery: feed.DefaultRelistEvery, stuckAfter: expire.DefaultStuckAfter, cleanupMinInterval: 5 * time.Minute, cleanupMaxPolicies: 20,
		cleanupReportBytes: "64Mi", leaseName: "curfew-controller", leaseDuration: 15 * time.Second, gracePeriod: 10 * time.Second,
		certificates: selfManaged, certificateDir: "/etc/curfew/tls", caSettle: certs.DefaultSettle, tlsMinVersion: "1.3",
		drainDelay: 5 * time.Second, httpAPIAudience: wellknown.Group,
	}
}

func (o *options) addCommon(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "kubeconfig file; empty means in-cluster, else the usual places")
	flags.StringVar(&o.namespace, "namespace", o.namespace, "namespace that Curfew itself runs in")
	flags.StringVar(&o.healthAddr, "health-addr", o.healthAddr, "address that serves /healthz and /readyz")
	flags.StringVar(&o.metricsAddr, "metrics-addr", o.metricsAddr, "address that serves /metrics; 0 means none")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", o.metricsSecure,
		"serve /metrics over TLS, only to users with a token and the verb get on it")
	flags.StringVar(&o.pprof, "pprof-addr", o.pprof, "address that serves /debug/pprof; empty means none")
	flags.StringVar(&o.nativeTTL, "native-ttl", o.nativeTTL,
		"on: default TTLs go into a kind's native field; off: into annotations, so that Curfew alone deletes")
	flags.StringSliceVar(&o.enable, "enable", o.enable, "triggers that are switched on. For the others no default is filled in, "+
		"nothing is tracked and nothing is deleted or stopped; values that objects carry stay")
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
	flags.StringSliceVar(&o.controllerAccounts, "controller-accounts", o.controllerAccounts, "user names of controllers, besides those "+
		"that KindProfiles name: what they create for an owner is admitted with a warning where a rule would deny it")
	flags.BoolVar(&o.strictLabels, "strict-labels", o.strictLabels, "deny a TTL label that cannot be read, instead of warning")
	flags.StringVar(&o.expiredLabels, "expired-labels", o.expiredLabels,
		"deny a TTL label that is expired when it is set, or warn: Curfew then deletes the object at once")
	flags.StringVar(&o.certificates, "certificates", o.certificates, "self-managed: Curfew makes its certificates and tells the API server "+
		"whom to trust; cert-manager: something else does both, and the certificate is in --certificate-dir")
	flags.StringVar(&o.certificateDir, "certificate-dir", o.certificateDir,
		"folder with tls.crt, tls.key and ca.crt, read again when they change; with --certificates=cert-manager")
	flags.DurationVar(&o.caSettle, "ca-settle", o.caSettle,
		"how long every webhook configuration must have had a new CA before it signs; with --certificates=self-managed")
	flags.StringVar(&o.tlsMinVersion, "tls-min-version", o.tlsMinVersion, "lowest version of TLS that is served: 1.2 or 1.3")
	flags.StringVar(&o.clientCAFile, "client-ca-file", o.clientCAFile,
		"CAs of the client certificate that callers of the webhooks must have; empty means that none is asked for")
	flags.StringSliceVar(&o.clientNames, "client-names", o.clientNames,
		"common names that the client certificate may have; empty means any; with --client-ca-file")
	flags.Var(duration{&o.drainDelay}, "drain-delay",
		"how long a webhook keeps serving after it receives SIGTERM, until the API server sends it no more requests")
	flags.StringVar(&o.apiAddr, "api-addr", o.apiAddr,
		"address that serves /v1/default, /v1/validate and /openapi.json, with the webhooks' certificate; empty means none")
	flags.StringVar(&o.httpAPIAudience, "http-api-audience", o.httpAPIAudience, "audience of the tokens that --api-addr takes, "+
		"as kubectl create token --audience makes; empty means that of the API server")
}

func (o *options) addController(flags *pflag.FlagSet) {
	flags.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "wait for the lease before deleting, so that one replica works at a time")
	flags.StringVar(&o.leaseName, "lease-name", o.leaseName, "name of the lease; the controller's Role has to allow it")
	flags.DurationVar(&o.leaseDuration, "lease-duration", o.leaseDuration, "how long the lease of a silent leader holds")
	flags.StringSliceVar(&o.namespaces, "namespaces", o.namespaces, "namespaces in which TTL labels are looked for, of kinds that may "+
		"not be watched everywhere, beside those in which a role is bound to the controller")
	flags.StringVar(&o.propagation, "propagation", o.propagation,
		"what happens to dependents, unless a LifecyclePolicy or the profile of the kind sets it: Background, Foreground or Orphan")
	flags.BoolVar(&o.leaveNativeTTL, "leave-native-ttl", o.leaveNativeTTL,
		"leave Jobs whose author set ttlSecondsAfterFinished to Kubernetes, which deletes them")
	flags.BoolVar(&o.failClosed, "fail-closed", o.failClosed,
		"refuse objects of kinds with a profile that Curfew could not validate, instead of letting them pass")
	flags.BoolVar(&o.favourDrain, "favour-drain", o.favourDrain, "take all that the API server gives, at the cost of its other clients")
	flags.IntVar(&o.maxDeletionsPerMinute, "max-deletions-per-minute", o.maxDeletionsPerMinute,
		"bound on deletions in any minute, including deletions by deadlines; the first minute after a start has no budget; 0 means none")
	flags.DurationVar(&o.relistEvery, "relist-every", o.relistEvery,
		"how often Curfew lists all objects again, to find changes that the watch missed")
	flags.StringVar(&o.cleanupReportBytes, "cleanup-report-bytes", o.cleanupReportBytes,
		"how much the CleanupReports of one namespace may take; the oldest are deleted beyond it; 0 means any size")
	flags.BoolVar(&o.metricsPolicyNames, "metrics-policy-names", o.metricsPolicyNames,
		"name stalled cleanup policies in metrics, which anyone who reaches /metrics can read")
	flags.BoolVar(&o.requireApproval, "require-approval", o.requireApproval,
		"let a new or changed CleanupPolicy delete nothing before a user has approved it")
	flags.DurationVar(&o.stuckAfter, "stuck-after", o.stuckAfter, "report objects that still terminate after this long")
}

// removed are flags that Curfew no longer has, with what takes their place.
var removed = map[string]string{
	"only-namespaces": `give Curfew's service account "delete" by RoleBindings in the namespaces that it may clean up`,
	"config-dir":      "create the LifecyclePolicies and KindProfiles in the cluster",
}

// refuseRemoved makes a start with a removed flag fail, instead of doing more than it allowed.
func refuseRemoved(flags *pflag.FlagSet) {
	for name, instead := range removed {
		flags.Func(name, "", func(string) error {
			return fmt.Errorf("--%s was removed: %s; see docs/install.md#rights-by-namespace", name, instead)
		})
		flags.Lookup(name).Hidden = true
	}
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

// triggers are the names of the triggers that are switched on, or of those that are off.
func (o *options) triggers(on bool) (out []policy.Trigger) {
	for _, info := range judging.Triggers() {
		if o.on(info.Name) == on {
			out = append(out, info.Name)
		}
	}
	return out
}

// check is one reason why a flag cannot be used.
type check struct {
	flag  string
	value any // nil for a message without it
	bad   bool
	fix   string
}

// validate names every flag that cannot be used, with its value and the fix.
func (o *options) validate() error {
	var errs []error
	for _, c := range slices.Concat(o.checks(), o.checkWebhook(), o.checkNames(), o.checkTriggers()) {
		switch {
		case c.bad && c.value == nil:
			errs = append(errs, fmt.Errorf("--%s: %s", c.flag, c.fix))
		case c.bad:
			errs = append(errs, fmt.Errorf("--%s=%v: %s", c.flag, c.value, c.fix))
		}
	}
	return errors.Join(errs...)
}

const anAddress = "give host:port, or :port for all addresses"

func badAddress(address string) bool {
	_, _, err := net.SplitHostPort(address)
	return err != nil
}

func (o *options) checks() []check {
	reports, err := resource.ParseQuantity(o.cleanupReportBytes)
	return []check{
		{"health-addr", o.healthAddr, badAddress(o.healthAddr), anAddress},
		{"metrics-addr", o.metricsAddr, o.metricsAddr != "0" && badAddress(o.metricsAddr), anAddress},
		{"pprof-addr", o.pprof, o.pprof != "" && badAddress(o.pprof), anAddress},
		{"native-ttl", o.nativeTTL, o.nativeTTL != "on" && o.nativeTTL != "off", "give on or off"},
		{"propagation", o.propagation, !slices.Contains([]string{"Background", "Foreground", "Orphan"}, o.propagation),
			"give Background, Foreground or Orphan"},
		{"cleanup-report-bytes", o.cleanupReportBytes, err != nil || reports.Sign() < 0, "give a size such as 64Mi, or 0"},
		{"max-deletions-per-minute", o.maxDeletionsPerMinute, o.maxDeletionsPerMinute < 0, "give 0 for no bound, or more"},
		{"relist-every", o.relistEvery, o.relistEvery < time.Minute,
			"give 1m or more: the watch brings changes at once, the relist is its safety net"},
		{"stuck-after", o.stuckAfter, o.stuckAfter < time.Second, "give 1s or more"},
		{"cleanup-min-interval", o.cleanupMinInterval, o.cleanupMinInterval < time.Minute, "give 1m or more"},
		{"cleanup-max-policies", o.cleanupMaxPolicies, o.cleanupMaxPolicies < 0, "give 0 or more"},
		{"verbosity", o.verbosity, o.verbosity < 0 || o.verbosity > maxVerbosity, fmt.Sprintf("give 0 to %d", maxVerbosity)},
		{"lease-duration", o.leaseDuration, o.leaseDuration < 3*time.Second, "give 3s or more"},
	}
}

func (o *options) checkWebhook() []check {
	_, noDuration := lifetime.ParseDuration(o.warnBelow)
	return []check{
		{"expired-labels", o.expiredLabels, o.expiredLabels != "deny" && o.expiredLabels != "warn", "give deny or warn"},
		{"port", o.port, o.port < 1 || o.port > 65535, "give a port from 1 to 65535"},
		{"warn-below", o.warnBelow, noDuration != nil, fmt.Sprint(noDuration)},
		{"api-addr", o.apiAddr, o.apiAddr != "" && badAddress(o.apiAddr), anAddress},
		{"certificates", o.certificates, o.certificates != selfManaged && o.certificates != certManager, "give self-managed or cert-manager"},
		{"certificate-dir", o.certificateDir, o.certificates == certManager && o.certificateDir == "",
			"name the folder where the Secret is mounted"},
		{"ca-settle", o.caSettle, o.caSettle < time.Second || o.caSettle > 24*time.Hour, "give 1s to 24h"},
		{"tls-min-version", o.tlsMinVersion, tlsVersions[o.tlsMinVersion] == 0, "give 1.2 or 1.3"},
		{"client-names", o.clientNames, len(o.clientNames) > 0 && o.clientCAFile == "",
			"set --client-ca-file, too: without it no certificate is asked for"},
		{"drain-delay", o.drainDelay, o.drainDelay < 0 || o.drainDelay > 5*time.Minute, "give 0s to 5m"},
	}
}

// checkNames reports every name that the API server does not allow. --protect also takes patterns.
func (o *options) checkNames() (out []check) {
	label := func(flag, name, as string) {
		problems := validation.IsDNS1123Label(as)
		out = append(out, check{flag, name, len(problems) > 0, strings.Join(problems, "; ")})
	}
	label("namespace", o.namespace, o.namespace)
	for _, name := range o.protect {
		label("protect", name, strings.ReplaceAll(name, "*", "x"))
	}
	for _, name := range o.namespaces {
		label("namespaces", name, name)
	}
	problems := validation.IsDNS1123Subdomain(o.leaseName)
	return append(out, check{"lease-name", o.leaseName, len(problems) > 0, strings.Join(problems, "; ")})
}

func (o *options) checkTriggers() []check {
	all := strings.Join(triggerNames(), ", ")
	out := []check{
		{"enable", "", len(o.enable) == 0, "name at least one of " + all + "; with --dry-run nothing is deleted either"},
	}
	for _, name := range o.enable {
		out = append(out, check{"enable", name, !slices.Contains(triggerNames(), name), "the triggers are " + all})
	}
	return out
}

// duration is a flag that also takes Curfew's grammar, as the TTL that helm test passes to
// --drain-delay.
type duration struct{ *time.Duration }

// Set implements [pflag.Value].
func (d duration) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if err != nil {
		parsed, err = lifetime.ParseDuration(text)
	}
	if err == nil {
		*d.Duration = parsed
	}
	return err
}

// Type implements [pflag.Value].
func (duration) Type() string { return "duration" }
