// Package e2e tests Curfew against a real control plane, with the kubectl binary in hand.
//
// Each test is written with an implementation in mind that gets it wrong. Where that takes a
// certain instant, the proxy between the controller and the API server makes it: the world changes
// while the controller's DELETE is under way.
//
// Nothing here sleeps. That something was *not* deleted is shown by a canary: an object of the same
// trigger that is due later than the one that has to stay. What has to be done before an instant is
// done while deletions are paused, or again with twice the time. All tests share one control plane,
// one webhook and one controller, and have a namespace each.
//
// Tests that call parallel run beside each other, at the end. For them webhooks fail closed after 30
// seconds, so that no review is skipped on a busy machine. The others run before, one by one, and
// find webhooks as they are shipped. They stop a process, test failing open or the time of a review,
// read all kinds or count all requests.
//
// The verbs of a test are methods of its space. They end the test if an expectation fails:
//
//   - ok: an error is nil; okInHook the same in a handler of the proxy, where a test cannot end
//   - expectSuccess, expectStderr, expectRefusal: how a kubectl command ended, and its exact stderr
//   - creates, wouldCreate: many objects with one kubectl, each with its warning or denial
//   - eventually, eventuallySays: a dry run comes to an answer, once Curfew has read a change
//   - await, awaitGone, awaitDeletion, poll: wait for an event, or for a condition without one
//   - stillThere, notEarly: nothing was deleted, or not before its expiry
//   - outlast, outlastLabel, outlastDeadline: wait for a canary
//   - new…, get…, patch…, try…: calls of the API; try… returns the error
//   - afterwards: kubectl at the end, for objects outside the namespace of the test
//
// With IN_TREE_TTL=1 the in-tree TTL-after-finished controller runs as well. It deletes by the
// native field, without a precondition on the resourceVersion; tests about Curfew's own deletions
// then write annotations instead, which it does not read.
//
// With INSTALL=dist/install.yaml Curfew is installed by that file alone: its roles, the arguments of
// its Deployments, its Service. Four things differ then, because tests need them: addresses on
// loopback, no leader election and no drain delay, cleanup policies that may run every minute, and
// the permissions of the component http-api. Webhooks keep what the file says.
//
// With FULL=1 also what waits for minutes is tested.
package e2e
