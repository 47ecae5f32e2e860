// Package backfill gives existing objects the default TTL label that they lack: those that bypassed
// admission, and older ones where their policy says backfill.
//
// A [Labels] lists the metadata of all kinds that policies name, page by page (labels.go). It
// judges each object that may lack a label, first with cached policies and namespaces, then with
// live ones (object.go). It patches the object in exactly the state that was judged. If
// the object has changed, it judges it once more. It keeps nothing between rounds: an annotation on
// the object records that it was given a label. From then on the feed of labelled objects tracks
// it.
package backfill
