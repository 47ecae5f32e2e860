// Package expiring lists the objects that will be deleted. [Command] parses the question
// (query.go), reads all kinds and the next runs of cleanup policies (gather.go), and prints the
// rows (output.go), with --watch again whenever they change (watch.go).
package expiring
