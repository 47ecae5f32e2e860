// Package feed fills the expiry engine: it watches what can finish, judges every state it sees and
// tells the engine when the object is due.
//
// A [Kind] (kind.go, objects.go) says how one kind is listed, watched, read and turned into facts.
// A [Feed] (feed.go) streams it, page by page or event by event, and keeps no object: each becomes
// facts, the facts a verdict (judge.go), and the verdict one call of the engine. What else
// decides, such as the namespace, comes from a platform.Source (scope.go): cached at first, live
// right before a deletion. When a namespace or a policy changes, its objects are judged again.
//
// A kind whose objects expire by label (labels.go) is read by metadata alone and tracked for a
// trigger of its own; a kind with deadlines has another trigger for those (deadline.go), fed by the
// same watch, whose events are read by lines (decode.go), off a buffered response (buffer.go). What
// has to be reported to people goes through [Reports] (report.go).
package feed
