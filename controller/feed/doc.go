// Package feed fills the expiry engine: it watches objects, judges every state that it sees and
// tells the engine when the object is due.
//
// A [Kind] (kind.go) says how one kind is listed, watched, read and turned into facts.
// A [Feed] (feed.go) follows it (package watch) and keeps no object: each object becomes facts, the
// facts a verdict (judge.go), and the verdict one call of the engine. The
// context of an object, such as its namespace, comes from a platform.Source (judge.go): cached at
// first, live right before a deletion. When a namespace or a policy changes, the feed judges its
// objects again.
//
// A kind whose objects expire by label is read by metadata alone and tracked for a
// trigger of its own. A kind with deadlines has another trigger for them (kind.go), fed by the
// same watch. The watch of Pods leaves out unfinished ones ([Pods]): a trigger for running Pods
// needs a feed of its own. A watch is read by lines and from a buffered response (decode.go).
// [Reports] writes Events and log lines about single objects (report.go).
package feed
