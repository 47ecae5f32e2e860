// Package discovery finds the kinds whose objects may carry a TTL label, and where Curfew may
// delete them.
//
// Custom kinds are known from their definitions, all others from discovery (kinds.go). [Labels]
// asks what is served and permitted when an event says that it may have changed, and every few
// minutes for changes without an event (labels.go). It passes the feeds that should run to a
// [feedset.Set], and reports kinds whose labels have no effect (report.go).
package discovery
