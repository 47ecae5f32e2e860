// Package confine keeps Curfew inside listed namespaces, even if it has permissions elsewhere. A
// [Transport] stands below all clients of a process. It reads each request as the API server does
// and refuses a request that reaches beyond the namespaces before it leaves the process. So no
// mistake in a feed, a mirror or an action can read, change or delete anything elsewhere.
package confine
