// Package approve creates the approval of a cleanup policy, after a look at what it would delete.
package approve
