// Package coverage decides which requests the API server sends to Curfew's webhooks because of profiles and policies, and keeps
// two webhook configurations that say so.
//
// What never changes (Jobs, Pods, CronJobs, workloads, Namespaces) is in manifests/webhook. This package adds, in a
// MutatingWebhookConfiguration and a ValidatingWebhookConfiguration of its own, the kinds with a profile that the cluster serves
// (subject.go: where in their objects what concerns Curfew can stand; path.go: such places in CEL) and the new objects of which
// LifecyclePolicies speak where nothing else has them sent (policies.go, selectors.go), and objects of all other kinds for a TTL label
// alone (labels.go). A plan (plan.go) is made of nothing but these, and is the same for the same input. Within a plan, and beside
// manifests/webhook, an object is sent once.
//
// A [Keeper] (keeper.go) follows what the plan depends on and writes it when it differs from what is there. Where to send to and
// whom to trust is copied from the static configurations (target.go). Those are also the owners of what the keeper writes: when
// they go, the API server's garbage collector takes the others along, whether Curfew still runs or not (S8).
package coverage
