// Package status prints whether the installation of Curfew is healthy, by package health.
package status
