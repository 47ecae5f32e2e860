// Package builders makes objects for tests, one fluent wrapper a kind that ends in Obj.
//
// A builder starts from the least that the API server takes: MakeJob("ci", "build") is an
// unfinished Job with one container. Each method changes one thing and returns the wrapper; Obj
// hands out a deep copy, so that a wrapper may go on and be used as a template; Map hands out the
// JSON form, with numbers and times as they come from the API server.
package builders
