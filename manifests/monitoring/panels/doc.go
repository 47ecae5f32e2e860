// Package panels has Prometheus's own engine evaluate the dashboard and the alerts of
// manifests/monitoring against the series that Curfew's real collectors expose. It is a module of
// its own, since nothing else needs Prometheus. There is no code in it, only the tests.
package panels
