// Package quote shortens and describes values that users wrote, so that messages, Events and
// warnings stay short whatever an object contains (invariant S9).
package quote
