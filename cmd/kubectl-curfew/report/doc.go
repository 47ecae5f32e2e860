// Package report prints the runs of a cleanup policy that the controller recorded.
package report
