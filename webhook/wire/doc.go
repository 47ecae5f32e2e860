// Package wire reads AdmissionReviews and writes the answers, by hand.
//
// A review is judged in about ten microseconds, and reading it twice with reflection takes ten
// times that. So [Parse] goes over the bytes once: it keeps the parts of the request that admission
// needs (review.go), decodes the objects as k8s.io/apimachinery/pkg/util/json does (scan.go,
// text.go, review.go), and leaves out managedFields, which is half of an object and concerns no
// rule. [Object.Applies] reports whether a JSON Patch applies to the raw object (answer.go), and
// [AppendAnswer] writes the answer (answer.go). Fuzz tests compare each with the library that it
// replaces.
package wire
