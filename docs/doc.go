// Package docs is where the pages for users lie. There is no code in it, only the tests that hold
// them to the code: every annotation, flag, metric and rule is in reference.md, what the pages name
// exists, and their links lead somewhere.
package docs
