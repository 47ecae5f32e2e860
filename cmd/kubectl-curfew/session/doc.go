// Package session connects a command to the cluster: the flags that kubectl has as well, shell
// completion, the objects that a user selects, and what several commands print about an object.
package session
