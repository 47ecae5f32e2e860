package manifests

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// oldest is the first Kubernetes version whose matchConditions are stable. Expressions have to
// compile there too.
var oldest = version.MajorMinor(1, 30)

func compile(t *testing.T, w webhook, env *environment.EnvSet) celplugin.ConditionEvaluator {
	t.Helper()
	var expressions []celplugin.ExpressionAccessor
	for _, c := range w.conditions {
		expressions = append(expressions, (*matchconditions.MatchCondition)(&c))
	}
	declared := celplugin.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, e := range expressions {
		if result := celplugin.NewCompiler(env).CompileCELExpression(e, declared, environment.NewExpressions); result.Error != nil {
			t.Fatalf("a match condition of %s %s does not compile: %v", w.config, w.name, result.Error)
		}
	}
	return celplugin.NewConditionCompiler(env).CompileCondition(expressions, declared, environment.NewExpressions)
}

// request is one row: what the API server would be asked to do.
type request struct {
	resource  string // of group batch, apps or core, by name
	old, new  string // YAML; without old it is a CREATE
	namespace string // labels of the namespace, "in-use", "pods-in-use" and key=value
	mayNot    string // who may not delete the object: the name of a user
	sub       string // the subresource
	user      string // who asks; "someone" where it is empty
	// wants are the entries that must be called, "<mutating entries> <validating entries>", "-" for
	// none.
	wants string
}

var kinds = map[string]schema.GroupVersionKind{
	"jobs": {Group: "batch", Version: "v1", Kind: "Job"}, "cronjobs": {Group: "batch", Version: "v1", Kind: "CronJob"},
	"pods": {Version: "v1", Kind: "Pod"}, "namespaces": {Version: "v1", Kind: "Namespace"},
	"deployments": {Group: "apps", Version: "v1", Kind: "Deployment"}, "statefulsets": {Group: "apps", Version: "v1", Kind: "StatefulSet"},
	"lifecyclepolicies": {Group: "curfew.dev", Version: "v1alpha1", Kind: "LifecyclePolicy"},
	"kindprofiles":      {Group: "curfew.dev", Version: "v1alpha1", Kind: "KindProfile"},
	"daemonsets":        {Group: "apps", Version: "v1", Kind: "DaemonSet"}, "replicationcontrollers": {Version: "v1", Kind: "ReplicationController"},
	"podtemplates": {Version: "v1", Kind: "PodTemplate"}, "bindings": {Version: "v1", Kind: "Binding"}, "replicasets": {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
}

const (
	bareJob     = "{metadata: {name: a}, spec: {template: {spec: {}}}}"
	bareCronJob = "{metadata: {name: a}, spec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {}}}}}}"
	barePod     = "{metadata: {name: a}, spec: {}}"
	none        = "- -"
	jobUse      = "defaults.curfew.dev validate.curfew.dev"
	jobMarked   = "defaults-marked.curfew.dev validate-marked.curfew.dev"
	podUse      = "defaults-pods.curfew.dev validate-pods.curfew.dev"
	podMarked   = "defaults-marked-pods.curfew.dev validate-marked-pods.curfew.dev"
)

const (
	ttlTemplate     = "{spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-finished: 1h}}}}}"
	ownedReplicaSet = "{metadata: {name: a, labels: {curfew.dev/ttl: 1h}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: o, uid: u, controller: true}]}, " +
		"spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-finished: 1h}}}}}"
)

func metadata(fields string) string {
	return "{metadata: {name: a, " + fields + "}, spec: {template: {spec: {}}}}"
}

var (
	ttlAnnotation = metadata("annotations: {curfew.dev/ttl-after-finished: 1h}")
	ttlLabel      = metadata("labels: {curfew.dev/ttl: 1h}")
	podAnnotation = "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}, spec: {}}"
	foreign       = metadata("annotations: {example.com/a: b}, labels: {app: x}")
)

var requests = map[string]request{
	// Where nothing uses Curfew.
	"plain Job":                 {resource: "jobs", new: bareJob, wants: none},
	"Job without a spec at all": {resource: "jobs", new: "{metadata: {name: a}}", wants: none},
	"Job with keys of others":   {resource: "jobs", new: foreign, wants: none},
	"Job with a look-alike key": {resource: "jobs", new: metadata("annotations: {notcurfew.dev/ttl: x, curfew.device/a: b}"), wants: none},
	"Job with TTL annotation":   {resource: "jobs", new: ttlAnnotation, wants: jobMarked},
	"Job with native TTL 0":     {resource: "jobs", new: "{metadata: {name: a}, spec: {ttlSecondsAfterFinished: 0, template: {spec: {}}}}", wants: "- validate-marked.curfew.dev"},
	"Job with deadline only":    {resource: "jobs", new: "{metadata: {name: a}, spec: {activeDeadlineSeconds: 5, template: {spec: {}}}}", wants: none},
	"plain CronJob":             {resource: "cronjobs", new: bareCronJob, wants: none},
	"plain Pod":                 {resource: "pods", new: barePod, wants: none},

	// Where the namespace does.
	"plain Job, in use":                  {resource: "jobs", new: bareJob, namespace: "in-use", wants: jobUse},
	"Job with TTL annotation, in use":    {resource: "jobs", new: ttlAnnotation, namespace: "in-use", wants: jobUse},
	"new Job, deletionTimestamp, in use": {resource: "jobs", new: metadata("deletionTimestamp: '2026-08-01T00:00:00Z'"), namespace: "in-use", wants: jobUse},
	"plain CronJob, in use":              {resource: "cronjobs", new: bareCronJob, namespace: "in-use", wants: "- validate.curfew.dev"},
	"Pod with annotation, in use":        {resource: "pods", new: podAnnotation, namespace: "in-use", wants: podMarked},
	"plain Pod, pods in use":             {resource: "pods", new: barePod, namespace: "in-use pods-in-use", wants: podUse},
	"marked Pod, pods in use":            {resource: "pods", new: podAnnotation, namespace: "in-use pods-in-use", wants: podUse},
	"plain Job, only pods in use":        {resource: "jobs", new: bareJob, namespace: "pods-in-use", wants: none},
	"Job in Curfew's own namespace":      {resource: "jobs", new: ttlAnnotation, namespace: "in-use own", wants: none},
	"Pod in Curfew's own namespace":      {resource: "pods", new: podAnnotation, namespace: "pods-in-use own", wants: none},

	// Curfew's own kinds.
	"LifecyclePolicy":                        {resource: "lifecyclepolicies", new: "{metadata: {name: a}, spec: {warnBelow: 5m}}", wants: "- policies.curfew.dev"},
	"KindProfile":                            {resource: "kindprofiles", new: "{metadata: {name: a}, spec: {kind: {kind: A}}}", wants: "- policies.curfew.dev"},
	"LifecyclePolicy, spec changed":          {resource: "lifecyclepolicies", old: "{metadata: {name: a, generation: 1}, spec: {warnBelow: 5m}}", new: "{metadata: {name: a, generation: 2}, spec: {warnBelow: 6m}}", wants: "- policies.curfew.dev"},
	"LifecyclePolicy, metadata changed":      {resource: "lifecyclepolicies", old: "{metadata: {name: a}, spec: {warnBelow: 5m}}", new: "{metadata: {name: a, labels: {a: b}}, spec: {warnBelow: 5m}}", wants: none},
	"new LifecyclePolicy, deletionTimestamp": {resource: "lifecyclepolicies", new: "{metadata: {name: a, deletionTimestamp: '2026-08-01T00:00:00Z'}, spec: {}}", wants: "- policies.curfew.dev"},

	// Updates.
	"Job untouched":                       {resource: "jobs", old: bareJob, new: bareJob, namespace: "in-use", wants: none},
	"Job, foreign keys come":              {resource: "jobs", old: bareJob, new: foreign, namespace: "in-use", wants: none},
	"Job, foreign keys go, Curfew's stay": {resource: "jobs", old: metadata("annotations: {curfew.dev/protect: 'true', a: b}"), new: metadata("annotations: {curfew.dev/protect: 'true'}"), namespace: "in-use", wants: none},
	"Job, annotation removed":             {resource: "jobs", old: ttlAnnotation, new: bareJob, namespace: "in-use", wants: "changed-defaults.curfew.dev validate.curfew.dev"},
	"Job, annotation changed":             {resource: "jobs", old: ttlAnnotation, new: metadata("annotations: {curfew.dev/ttl-after-finished: 2h}"), namespace: "in-use", wants: "- validate.curfew.dev"},
	"Job, annotation swapped":             {resource: "jobs", old: ttlAnnotation, new: metadata("annotations: {curfew.dev/ttl-after-failed: 1h}"), namespace: "in-use", wants: "changed-defaults.curfew.dev validate.curfew.dev"},
	"Job, label changed":                  {resource: "jobs", old: ttlLabel, new: metadata("labels: {curfew.dev/ttl: 2h}"), namespace: "in-use", wants: "- validate.curfew.dev"},
	"Job, TTL changed":                    {resource: "jobs", old: "{spec: {ttlSecondsAfterFinished: 6, template: {spec: {}}}}", new: "{spec: {ttlSecondsAfterFinished: 5, template: {spec: {}}}}", wants: "- validate-marked.curfew.dev"},
	"Job, TTL removed":                    {resource: "jobs", old: "{spec: {ttlSecondsAfterFinished: 6, template: {spec: {}}}}", new: bareJob, namespace: "in-use", wants: "changed-defaults.curfew.dev validate.curfew.dev"},
	"Job, default changed":                {resource: "jobs", old: "{metadata: {annotations: {curfew.dev/ttl-source: namespace/team}}, spec: {ttlSecondsAfterFinished: 6}}", new: "{metadata: {annotations: {curfew.dev/ttl-source: namespace/team}}, spec: {ttlSecondsAfterFinished: 5}}", namespace: "in-use", wants: "changed-defaults.curfew.dev validate.curfew.dev"},
	"Job, default deadline changed":       {resource: "jobs", old: "{metadata: {annotations: {curfew.dev/deadline-source: policy/a}}, spec: {activeDeadlineSeconds: 6}}", new: "{metadata: {annotations: {curfew.dev/deadline-source: policy/a}}, spec: {activeDeadlineSeconds: 5}}", wants: "changed-defaults.curfew.dev validate-marked.curfew.dev"},
	"Job, annotation beside a default":    {resource: "jobs", old: "{metadata: {annotations: {curfew.dev/ttl-source: policy/a}}, spec: {ttlSecondsAfterFinished: 6}}", new: "{metadata: {annotations: {curfew.dev/ttl-source: policy/a, curfew.dev/ttl-after-failed: never}}, spec: {ttlSecondsAfterFinished: 6}}", wants: "changed-defaults.curfew.dev validate-marked.curfew.dev"},
	"Job, own value removed":              {resource: "jobs", old: "{metadata: {annotations: {curfew.dev/ttl-source: object}}, spec: {ttlSecondsAfterFinished: 6}}", new: "{metadata: {annotations: {curfew.dev/ttl-source: object}}}", wants: "changed-defaults.curfew.dev validate-marked.curfew.dev"},
	"Job, own value changed":              {resource: "jobs", old: "{metadata: {annotations: {curfew.dev/ttl-source: object}}, spec: {ttlSecondsAfterFinished: 6}}", new: "{metadata: {annotations: {curfew.dev/ttl-source: object}}, spec: {ttlSecondsAfterFinished: 5}}", wants: "- validate-marked.curfew.dev"},
	"Job with a default, suspended":       {resource: "jobs", old: "{metadata: {annotations: {curfew.dev/ttl-source: namespace/team}}, spec: {ttlSecondsAfterFinished: 6}}", new: "{metadata: {annotations: {curfew.dev/ttl-source: namespace/team}}, spec: {ttlSecondsAfterFinished: 6, suspend: true}}", namespace: "in-use", wants: none},
	"Pod, default changed":                {resource: "pods", old: "{metadata: {annotations: {curfew.dev/ttl-source: namespace/team, curfew.dev/ttl-after-finished: 1h}}, spec: {}}", new: "{metadata: {annotations: {curfew.dev/ttl-source: namespace/team, curfew.dev/ttl-after-finished: 2h}}, spec: {}}", namespace: "pods-in-use", wants: "changed-defaults.curfew.dev validate-pods.curfew.dev"},
	"Pod, default changed by the status":  {resource: "pods", sub: "status", old: "{metadata: {annotations: {curfew.dev/ttl-source: namespace/team, curfew.dev/ttl-after-finished: 1h}}, spec: {}}", new: "{metadata: {annotations: {curfew.dev/ttl-source: namespace/team, curfew.dev/ttl-after-finished: 2h}}, spec: {}}", namespace: "pods-in-use", wants: "changed-defaults.curfew.dev validate-pods.curfew.dev"},
	"Job, TTL stays":                      {resource: "jobs", old: "{spec: {ttlSecondsAfterFinished: 6, suspend: true}}", new: "{spec: {ttlSecondsAfterFinished: 6}}", namespace: "in-use", wants: none},
	"marked Job, unrelated change":        {resource: "jobs", old: ttlAnnotation, new: metadata("annotations: {curfew.dev/ttl-after-finished: 1h, a: b}"), wants: none},
	"Job, deadline changed":               {resource: "jobs", old: "{spec: {activeDeadlineSeconds: 6}}", new: "{spec: {activeDeadlineSeconds: 5}}", namespace: "in-use", wants: "- validate.curfew.dev"},
	"Job being deleted, TTL changed":      {resource: "jobs", old: bareJob, new: metadata("deletionTimestamp: '2026-08-01T00:00:00Z', annotations: {curfew.dev/ttl-after-finished: 1h}"), namespace: "in-use", wants: none},
	"CronJob, schedule changed":           {resource: "cronjobs", old: bareCronJob, new: strings.Replace(bareCronJob, "'*", "'5", 1), namespace: "in-use", wants: none},
	"Pod, finalizer removed":              {resource: "pods", old: "{metadata: {name: a, finalizers: [batch.kubernetes.io/job-tracking]}, spec: {}}", new: barePod, namespace: "in-use pods-in-use", wants: none},
	"Pod, annotation removed, in use":     {resource: "pods", old: podAnnotation, new: barePod, namespace: "in-use pods-in-use", wants: "changed-defaults.curfew.dev validate-pods.curfew.dev"},
	"Pod, deadline lowered, in use":       {resource: "pods", old: "{spec: {activeDeadlineSeconds: 9}}", new: "{spec: {activeDeadlineSeconds: 8}}", namespace: "in-use pods-in-use", wants: "- validate-pods.curfew.dev"},
	"Pod, deadline lowered":               {resource: "pods", old: "{spec: {activeDeadlineSeconds: 9}}", new: "{spec: {activeDeadlineSeconds: 8}}", wants: none},

	// Workloads that run forever.
	"plain Deployment, in use":                {resource: "deployments", new: bareJob, namespace: "in-use pods-in-use", wants: none},
	"Deployment, TTL label changed":           {resource: "deployments", old: ttlLabel, new: metadata("labels: {curfew.dev/ttl: 2h}"), wants: "- templates.curfew.dev"},
	"Deployment, TTL label and others":        {resource: "deployments", old: ttlLabel, new: metadata("labels: {curfew.dev/ttl: 1h, a: b}"), wants: none},
	"Deployment scaled, template as before":   {resource: "deployments", old: "{spec: {replicas: 1, template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}}", new: "{spec: {replicas: 2, template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}}", wants: none},
	"Deployment, template label changed":      {resource: "deployments", old: "{spec: {template: {metadata: {labels: {curfew.dev/ttl: 1h}}}}}", new: "{spec: {template: {metadata: {labels: {curfew.dev/ttl: 2h}}}}}", wants: "- templates.curfew.dev"},
	"Deployment, template annotation goes":    {resource: "deployments", old: "{spec: {template: {metadata: {annotations: {curfew.dev/ttl-after-finished: 1h}}}}}", new: "{spec: {}}", wants: "- templates.curfew.dev"},
	"ReplicaSet of a Deployment":              {resource: "replicasets", new: ownedReplicaSet, user: "system:serviceaccount:kube-system:deployment-controller", wants: "- templates.curfew.dev"},
	"ReplicaSet of a Deployment, annotated":   {resource: "replicasets", old: strings.Replace(ownedReplicaSet, "curfew.dev/ttl: 1h", "a: b", 1), new: ownedReplicaSet, user: "system:serviceaccount:kube-system:deployment-controller", wants: none},
	"ReplicaSet of a Deployment, by a hand":   {resource: "replicasets", old: strings.Replace(ownedReplicaSet, "curfew.dev/ttl: 1h", "a: b", 1), new: ownedReplicaSet, wants: "- templates.curfew.dev"},
	"ReplicaSet of a Deployment, by a tenant": {resource: "replicasets", old: strings.Replace(ownedReplicaSet, "curfew.dev/ttl: 1h", "a: b", 1), new: ownedReplicaSet, user: "system:serviceaccount:ci:default", wants: "- templates.curfew.dev"},
	"its template, by a tenant":               {resource: "replicasets", old: strings.Replace(ttlTemplate, "curfew.dev/ttl-after-finished: 1h", "a: b", 1), new: ttlTemplate, user: "system:serviceaccount:ci:default", wants: "- templates.curfew.dev"},
	"StatefulSet, label in a claim template":  {resource: "statefulsets", new: "{spec: {volumeClaimTemplates: [{metadata: {name: a}}, {metadata: {labels: {curfew.dev/ttl: 7d}}}]}}", wants: "- templates.curfew.dev"},
	"StatefulSet, plain claim template":       {resource: "statefulsets", new: "{spec: {volumeClaimTemplates: [{metadata: {name: a, labels: {app: x}}}]}}", wants: none},
	"StatefulSet, no claim templates":         {resource: "statefulsets", new: "{spec: {volumeClaimTemplates: null}}", wants: none},
	"StatefulSet, scaled":                     {resource: "statefulsets", old: "{spec: {replicas: 1, volumeClaimTemplates: [{metadata: {labels: {curfew.dev/ttl: 7d}}}]}}", new: "{spec: {replicas: 2, volumeClaimTemplates: [{metadata: {labels: {curfew.dev/ttl: 7d}}}]}}", wants: "- templates.curfew.dev"},
	"StatefulSet status, claim template":      {resource: "statefulsets", sub: "status", old: "{spec: {volumeClaimTemplates: [{metadata: {labels: {curfew.dev/ttl: 7d}}}]}}", new: "{spec: {volumeClaimTemplates: [{metadata: {labels: {curfew.dev/ttl: 7d}}}]}, status: {replicas: 1}}", wants: none},
	"plain ReplicaSet":                        {resource: "replicasets", new: bareJob, namespace: "in-use", wants: none},
	"plain PodTemplate":                       {resource: "podtemplates", new: "{template: {metadata: {labels: {a: b}}}}", wants: none},

	// Status writes and bindings: metadata counts, and nothing else.
	"Job status":                        {resource: "jobs", sub: "status", old: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}}", new: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}, status: {active: 1}}", namespace: "in-use", wants: none},
	"Job status, annotation":            {resource: "jobs", sub: "status", old: bareJob, new: ttlAnnotation, wants: "- validate-marked.curfew.dev"},
	"Job status, label":                 {resource: "jobs", sub: "status", old: bareJob, new: ttlLabel, namespace: "in-use", wants: "- validate.curfew.dev"},
	"Job status, finished-at":           {resource: "jobs", sub: "status", old: bareJob, new: metadata("annotations: {curfew.dev/finished-at: '2020-01-01T00:00:00Z'}"), wants: "- validate-marked.curfew.dev"},
	"CronJob status":                    {resource: "cronjobs", sub: "status", old: bareCronJob, new: "{metadata: {name: a}, status: {lastScheduleTime: '2026-08-01T00:00:00Z'}}", namespace: "in-use", wants: none},
	"CronJob status, label":             {resource: "cronjobs", sub: "status", old: "{metadata: {name: a}}", new: "{metadata: {name: a, labels: {curfew.dev/ttl: 1h}}}", wants: "- validate-marked.curfew.dev"},
	"Pod status":                        {resource: "pods", sub: "status", old: podAnnotation, new: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}, labels: {a: b}}, status: {phase: Failed}}", namespace: "in-use pods-in-use", wants: none},
	"Pod status, protection goes":       {resource: "pods", sub: "status", old: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}}}", new: "{metadata: {name: a}}", wants: "- validate-marked-pods.curfew.dev"},
	"Pod status, annotation, in use":    {resource: "pods", sub: "status", old: barePod, new: podAnnotation, namespace: "pods-in-use", wants: "- validate-pods.curfew.dev"},
	"Pod eviction":                      {resource: "pods", sub: "eviction", new: "{metadata: {name: a, labels: {curfew.dev/ttl: 1h}}}", namespace: "pods-in-use", wants: none},
	"Pod binding":                       {resource: "bindings", sub: "binding", new: "{metadata: {name: a, annotations: {a: b}}, target: {name: n}}", namespace: "pods-in-use", wants: none},
	"Pod binding, annotation":           {resource: "bindings", sub: "binding", new: "{metadata: {name: a, annotations: {curfew.dev/ttl-after-finished: 1h}}, target: {name: n}}", wants: "- bindings.curfew.dev"},
	"Pod binding, Kyverno's label":      {resource: "bindings", sub: "binding", new: "{metadata: {name: a, labels: {cleanup.kyverno.io/ttl: 1h}}, target: {name: n}}", wants: "- bindings.curfew.dev"},
	"Binding in Curfew's own namespace": {resource: "bindings", new: "{metadata: {name: a, annotations: {curfew.dev/protect: 'false'}}, target: {name: n}}", namespace: "own", wants: none},
	"Deployment status, protected":      {resource: "deployments", sub: "status", old: ttlLabel, new: metadata("labels: {curfew.dev/ttl: 1h}, annotations: {curfew.dev/protect: 'true'}"), wants: "- templates.curfew.dev"},
	"Deployment status":                 {resource: "deployments", sub: "status", old: ttlLabel, new: "{metadata: {name: a, labels: {curfew.dev/ttl: 1h}}, status: {replicas: 1}}", wants: none},
	"ReplicaSet status, label":          {resource: "replicasets", sub: "status", old: bareJob, new: ttlLabel, wants: "- templates.curfew.dev"},
	"Namespace status":                  {resource: "namespaces", sub: "status", old: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}}", new: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}, status: {phase: Active}}", namespace: "in-use", wants: none},
	"Namespace status, default removed": {resource: "namespaces", sub: "status", old: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}}", new: "{metadata: {name: a}}", namespace: "in-use", wants: "namespaces.curfew.dev namespaces.curfew.dev"},
	"Namespace finalize, since forged":  {resource: "namespaces", sub: "finalize", old: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}}", new: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d, curfew.dev/default-since: x}}}", wants: "namespaces.curfew.dev namespaces.curfew.dev"},

	"Namespace with a misspelt key":     {resource: "namespaces", new: "{metadata: {name: a, annotations: {curfew.dev/defualt-ttl: 1d}}}", wants: "- namespaces.curfew.dev"},
	"Namespace, misspelt key as before": {resource: "namespaces", old: "{metadata: {name: a, annotations: {curfew.dev/defualt-ttl: 1d}}}", new: "{metadata: {name: a, annotations: {curfew.dev/defualt-ttl: 1d, a: b}}}", wants: none},
	// Namespaces. Their own labels are what namespaceSelector sees.
	"plain Namespace":                   {resource: "namespaces", new: "{metadata: {name: a}}", wants: none},
	"Namespace, default added":          {resource: "namespaces", old: "{metadata: {name: a}}", new: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}}", wants: "namespaces.curfew.dev namespaces.curfew.dev"},
	"Namespace, last default removed":   {resource: "namespaces", old: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}}", new: "{metadata: {name: a}}", wants: "namespaces.curfew.dev namespaces.curfew.dev"},
	"Namespace, in-use label taken":     {resource: "namespaces", old: "{metadata: {name: a, labels: {curfew.dev/in-use: 'true'}}}", new: "{metadata: {name: a}}", wants: "namespaces.curfew.dev namespaces.curfew.dev"},
	"Namespace in use, other label":     {resource: "namespaces", old: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}}", new: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}, labels: {x: y}}}", wants: "namespaces.curfew.dev -"},
	"Namespace not in use, other label": {resource: "namespaces", old: "{metadata: {name: a}}", new: "{metadata: {name: a, labels: {x: y}}}", wants: none},
	"Namespace being deleted":           {resource: "namespaces", old: "{metadata: {name: a, annotations: {curfew.dev/default-ttl: 1d}}}", new: "{metadata: {name: a, deletionTimestamp: '2026-08-01T00:00:00Z'}}", wants: none},
	"Curfew's own Namespace":            {resource: "namespaces", new: "{metadata: {name: curfew-system, annotations: {curfew.dev/default-ttl: 1d}}}", namespace: "own", wants: none},
}

// TestConditions asks every entry about every request, as the API server does: rules, then
// namespaceSelector, then matchConditions. No expression may fail: under Ignore that would skip the
// webhook silently.
func TestConditions(t *testing.T) {
	entries := webhooks(t, build(t, "base"))
	exercised := evaluate(t, entries, requests)
	for _, w := range entries {
		if !exercised[w.config+" "+w.name] {
			t.Errorf("%s %s: no row calls it", w.config, w.name)
		}
	}
}

// evaluate returns the entries that some request called.
func evaluate(t *testing.T, entries []webhook, requests map[string]request) (exercised map[string]bool) {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	evaluators := make([]celplugin.ConditionEvaluator, len(entries))
	exercised = map[string]bool{}
	for name, r := range requests {
		forms := map[string]func(*testing.T, schema.GroupVersionKind, string) runtime.Object{"typed": parseTyped, "untyped": parseUntyped}
		if !known.Recognizes(kinds[r.resource]) {
			delete(forms, "typed")
		}
		for form, parse := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				attributes := r.attributes(t, parse)
				called := map[string][]string{}
				for i, w := range entries {
					if !w.selects(t, attributes, r.namespaceLabels()) {
						continue
					}
					if evaluators[i] == nil {
						evaluators[i] = compile(t, w, env)
					}
					if w.matches(t, attributes, evaluators[i], r.mayNot) {
						called[w.config] = append(called[w.config], w.name)
						exercised[w.config+" "+w.name] = true
					}
				}
				if got := listed(called["mutating"]) + " " + listed(called["validating"]); got != r.wants {
					t.Errorf("called %q, want %q", got, r.wants)
				}
			})
		}
	}
	return exercised
}

func listed(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}

func (r request) namespaceLabels() labels.Set {
	set := labels.Set{"kubernetes.io/metadata.name": "team"}
	for _, word := range strings.Fields(r.namespace) {
		if key, value, found := strings.Cut(word, "="); found {
			set[key] = value
		} else if word == "own" {
			set["kubernetes.io/metadata.name"] = "curfew-system"
		} else {
			set["curfew.dev/"+word] = "true"
		}
	}
	return set
}

func (r request) attributes(t *testing.T, parse func(*testing.T, schema.GroupVersionKind, string) runtime.Object) *admission.VersionedAttributes {
	kind := kinds[r.resource]
	operation, namespace := admission.Create, "team"
	if r.resource == "namespaces" {
		namespace = "a" // the API server sets it to the name of the Namespace
	}
	if kind.Group == "curfew.dev" || kind.Kind == "Node" || kind.Kind == "PersistentVolume" || strings.HasPrefix(kind.Kind, "Cluster") || strings.HasSuffix(kind.Kind, "Review") {
		namespace = ""
	}
	object := parse(t, kind, r.new)
	var old runtime.Object
	if r.old != "" {
		operation, old = admission.Update, parse(t, kind, r.old)
	}
	return &admission.VersionedAttributes{
		Attributes:         admission.NewAttributesRecord(object, old, kind, namespace, "a", r.at(kind), r.sub, operation, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: cmp.Or(r.user, "someone")}),
		VersionedKind:      kind,
		VersionedObject:    admission.NewLazyObject(object),
		VersionedOldObject: admission.NewLazyObject(old),
	}
}

// at is the resource that the request is for. A Binding is mostly created for a Pod.
func (r request) at(kind schema.GroupVersionKind) schema.GroupVersionResource {
	if r.resource == "bindings" && r.sub != "" {
		return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	}
	return kind.GroupVersion().WithResource(strings.TrimPrefix(r.resource, "volcano"))
}

// selects is what the API server looks at before it evaluates anything.
func (w webhook) selects(t *testing.T, attributes *admission.VersionedAttributes, namespace labels.Set) bool {
	t.Helper()
	if !slices.ContainsFunc(w.rules, func(rule admissionv1.RuleWithOperations) bool {
		return (&rules.Matcher{Rule: rule, Attr: attributes}).Matches()
	}) {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(w.namespaces)
	must(t, err)
	if attributes.GetNamespace() != "" && !selector.Matches(namespace) {
		return false // Nothing without a namespace is exempted.
	}
	if w.objects != nil {
		selector, err = metav1.LabelSelectorAsSelector(w.objects)
		must(t, err)
		selected := false // As the API server does: by the labels that it had as well.
		for _, object := range []runtime.Object{attributes.GetObject(), attributes.GetOldObject()} {
			if object == nil {
				continue
			}
			object, err := meta.Accessor(object)
			must(t, err)
			selected = selected || selector.Matches(labels.Set(object.GetLabels()))
		}
		if !selected {
			return false
		}
	}
	return true
}

func (w webhook) matches(t *testing.T, attributes *admission.VersionedAttributes, evaluator celplugin.ConditionEvaluator, mayNot string) bool {
	t.Helper()
	authorize := authorizer.AuthorizerFunc(func(_ context.Context, asked authorizer.Attributes) (authorizer.Decision, string, error) {
		if asked.GetVerb() != "delete" || asked.GetResource() != attributes.GetResource().Resource || asked.GetAPIGroup() != attributes.GetResource().Group || asked.GetNamespace() != attributes.GetNamespace() {
			t.Errorf("asks whether the user may %s %s in %q", asked.GetVerb(), asked.GetResource(), asked.GetNamespace())
		}
		if asked.GetUser().GetName() == mayNot {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return authorizer.DecisionAllow, "", nil
	})
	// Fail, so that an expression which fails is an error here and not, as under Ignore, a webhook
	// that is not called.
	fail := admissionv1.Fail
	result := matchconditions.NewMatcher(evaluator, &fail, "webhook", w.config, w.name).Match(t.Context(), attributes, nil, authorize)
	if result.Error != nil {
		t.Errorf("a match condition of %s %s fails: %v", w.config, w.name, result.Error)
	}
	return result.Matches
}

func parseTyped(t *testing.T, kind schema.GroupVersionKind, text string) runtime.Object {
	t.Helper()
	return decode(t, "row", []byte("apiVersion: "+kind.GroupVersion().String()+"\nkind: "+kind.Kind+"\n"+block(t, text)))[0]
}

// parseUntyped leaves out absent fields, where a typed object may have an empty struct.
func parseUntyped(t *testing.T, kind schema.GroupVersionKind, text string) runtime.Object {
	t.Helper()
	content := map[string]any{}
	must(t, yaml.Unmarshal([]byte(text), &content))
	if content["metadata"] == nil {
		content["metadata"] = map[string]any{"name": "a"}
	}
	obj := &unstructured.Unstructured{Object: content}
	obj.SetGroupVersionKind(kind)
	return obj
}

func block(t *testing.T, flow string) string {
	t.Helper()
	var content map[string]any
	must(t, yaml.Unmarshal([]byte(flow), &content))
	out, err := yaml.Marshal(content)
	must(t, err)
	return string(out)
}
