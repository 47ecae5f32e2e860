// Package confine keeps Curfew inside listed namespaces, whatever it may do elsewhere. A
// [Transport] stands below all clients of a process. It reads each request as the API server does
// and refuses those that reach beyond the namespaces before they leave the process. So no mistake
// in a feed, a mirror or an action can read, change or delete anything elsewhere.
package confine
