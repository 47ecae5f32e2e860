package contexts

// Case is one object in its surroundings, in YAML.
type Case struct {
	Object string
	// Namespace of the object; "" for a cluster-scoped object.
	Namespace string
	Runtime   string // "" for none
	// Policies and Profiles are LifecyclePolicies and KindProfiles.
	Policies, Profiles []string
	// NoMultiKueue means that Kueue is surely not installed.
	NoMultiKueue bool
	// Want is the context, as Render writes it.
	Want string
}

const (
	job      = `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci, labels: {tier: gold}}}`
	trainJob = `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a, namespace: ci}, spec: {runtimeRef: {name: torch}}}`
	widget   = `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: ci}}`
	plain    = `{apiVersion: v1, kind: Namespace, metadata: {name: ci, labels: {kubernetes.io/metadata.name: ci, team: ml}}}`
	torch    = `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: ClusterTrainingRuntime, metadata: {name: torch, annotations: {curfew.dev/ttl-after-finished: 1d}}}`
)

// Cases by name.
var Cases = map[string]Case{
	"defaults and bounds of the namespace": {
		Object: job,
		Namespace: `{apiVersion: v1, kind: Namespace, metadata: {name: ci, labels: {kubernetes.io/metadata.name: ci},
			annotations: {curfew.dev/default-ttl: 1d, curfew.dev/max-ttl: 7d, curfew.dev/default-deadline: 2h}}}`,
		Want: "namespace ci enforce ttl=1d deadline=2h max-ttl=7d",
	},
	"a namespace in dry-run": {
		Object: job,
		Namespace: `{apiVersion: v1, kind: Namespace, metadata: {name: ci, labels: {kubernetes.io/metadata.name: ci},
			annotations: {curfew.dev/mode: dry-run, curfew.dev/min-ttl: bad}}}`,
		Want: "namespace ci dry-run min-ttl=bad!",
	},
	"policies in their order": {
		Object: job, Namespace: plain,
		Policies: []string{
			`{metadata: {name: b}, spec: {priority: 1, defaults: {ttl: {value: 2h}}, bounds: {maxTTL: 3d}}}`,
			`{metadata: {name: a}, spec: {match: {namespaceSelector: {matchLabels: {team: ml}}}, defaults: {deadline: {value: 1h}}}}`,
			`{metadata: {name: c}, spec: {match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}}, bounds: {maxTTL: 1d}}}`,
			`{metadata: {name: d}, spec: {match: {objectSelector: {matchLabels: {tier: gold}}}, bounds: {minTTL: 5m}}}`,
		},
		Want: "namespace ci enforce; policy b ttl=2h max-ttl=3d; policy a deadline=1h; policy d min-ttl=5m",
	},
	"a policy that asks for namespace and runtime": {
		Object: trainJob, Namespace: plain, Runtime: torch,
		Policies: []string{`{metadata: {name: a}, spec: {match: {matchConditions: [
			{name: team, expression: "namespaceObject.metadata.labels.team == 'ml'"}, {name: torch, expression: "runtime.metadata.name == 'torch'"}]},
			bounds: {maxTTL: 3d}}}`},
		Want: "namespace ci enforce; runtime torch ttl=1d; policy a max-ttl=3d",
	},
	"a policy that cannot be evaluated": {
		Object: job, Namespace: plain,
		Policies: []string{`{metadata: {name: a}, spec: {match: {matchConditions: [{name: gone, expression: "object.spec.gone == 1"}]}, bounds: {maxTTL: 3d}}}`},
		Want:     "namespace ci enforce; policy a max-ttl=3d; 1 failures",
	},
	"a runtime": {Object: trainJob, Namespace: plain, Runtime: torch, Want: "namespace ci enforce; runtime torch ttl=1d"},
	"two profiles for one kind": {
		Object: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, namespace: ci}, spec: {first: torch, second: other}}`, Namespace: plain, Runtime: torch,
		Profiles: []string{widgets("b", "second"), widgets("a", "first")},
		Want:     "namespace ci enforce; runtime torch ttl=1d",
	},
	"a kind without a profile": {
		Object: widget, Namespace: plain,
		Policies: []string{`{metadata: {name: a}, spec: {bounds: {maxTTLLabel: 3d}}}`},
		Want:     "namespace ci enforce; policy a max-ttl-label=3d",
	},
	"a cluster-scoped object": {
		Object: `{apiVersion: v1, kind: PersistentVolume, metadata: {name: a, labels: {curfew.dev/ttl: 30d}}}`,
		Policies: []string{
			`{metadata: {name: a}, spec: {bounds: {maxTTLLabel: 3d}}}`,
			`{metadata: {name: b}, spec: {match: {namespaceSelector: {matchLabels: {team: ml}}}, bounds: {maxTTLLabel: 1d}}}`,
		},
		Want: "policy a max-ttl-label=3d",
	},
	"a Namespace, whose own mode applies to it": {
		Object: `{apiVersion: v1, kind: Namespace, metadata: {name: ci, annotations: {curfew.dev/mode: dry-run, curfew.dev/default-ttl: 1d}}}`,
		Want:   "namespace ci dry-run",
	},
}

// widgets is a KindProfile of Widget that finds the runtime in a field of the spec.
func widgets(name, field string) string {
	return `{metadata: {name: ` + name + `}, spec: {kind: {group: example.com, version: v1, kind: Widget, resource: widgets},
		state: {finished: "false", finishTime: "null", outcome: "'Failed'"},
		runtime: {reference: {name: spec.` + field + `, defaultKind: ClusterTrainingRuntime},
			kinds: [{group: trainer.kubeflow.org, version: v1alpha1, kind: ClusterTrainingRuntime, resource: clustertrainingruntimes, scope: Cluster}]}}}`
}
