// Command demo shows Curfew at work on a local control plane.
//
// `demo tour` plays a scripted tour (script.go) with the real kubectl: it shows each command as a
// person would type it and what kubectl prints, checks both against what the tour tells, and takes
// everything down, whatever happens. `demo run` brings the same up and leaves the typing to the
// person, until Ctrl-C. `demo up` and `demo down` do it in the background.
package main
