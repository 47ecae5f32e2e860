// Package webhookconfig decides which requests the API server sends to Curfew's webhooks because of
// profiles and policies, and keeps two webhook configurations that say so.
//
// Rules that never change (Jobs, Pods, CronJobs, workloads, Namespaces) are in manifests/webhook.
// This package adds webhooks for the kinds with a profile that the cluster serves (kind.go), for
// new objects that a LifecyclePolicy matches (policies.go), and for TTL labels on objects of any
// kind (labels.go). The same input always gives the same plan (plan.go). Two webhooks may match one
// request: mutation is idempotent, and the API server drops warnings that repeat. Only a denial
// should come from one webhook, since it names it.
//
// Objects that no default, policy or Curfew key concerns are not sent. Match conditions cost the
// same whatever an object holds (S9): conditions.go writes them, conditions.go says what they ask.
//
// A [Keeper] (keeper.go) follows its input and writes a configuration that differs from the plan
// (configuration.go). The static configurations say where to send to, and own what the
// keeper writes: once they are deleted, the garbage collector deletes the others, whether Curfew
// runs or not (S8).
package webhookconfig
