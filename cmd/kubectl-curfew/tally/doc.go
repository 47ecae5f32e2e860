// Package tally prints the counts of PodTallies.
package tally
