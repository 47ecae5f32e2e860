// Package contexts is one table of objects and of what decides how each is treated. Admission, the
// feeds, the CLI, lint and the HTTP API gather the context of each object in their own way, from a
// cache, live, from files or once. A test of each demands the text that the table wants, so that no
// two of them drift apart.
package contexts
