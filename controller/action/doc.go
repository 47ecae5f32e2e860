// Package action is the contract between the engine, which decides when something is due, and the
// actions, which carry it out.
//
// An [Action] makes one attempt and returns one [Result]. It never judges, waits or retries: the
// engine of package controller/engine does that, and it owns pace, rates, breakers and dry runs.
// [Due] is all that an action learns about the object. Package deletion is the action of TTLs and
// labels, package stop that of deadlines. A new one is a package beside them and one line in the
// engine's list of triggers.
package action
