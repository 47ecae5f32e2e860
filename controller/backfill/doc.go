// Package backfill gives existing objects the default TTL label that they lack: those that bypassed
// admission, and older ones where their policy says backfill.
//
// A [Labels] lists the kinds that policies name, page by page and by metadata (labels.go). What may
// lack a label is judged on its own, first by what is cached, then by the policies and the
// namespace as they are now (object.go). It is patched in exactly the state that was judged
// (give.go), and judged once more if that is not its state any more. Nothing is kept between
// rounds: an annotation on the object records that it was given a label. From then on the feed of
// labelled objects does the rest.
package backfill
