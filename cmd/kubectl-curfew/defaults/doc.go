// Package defaults prints the TTLs that new objects of a namespace get.
package defaults
