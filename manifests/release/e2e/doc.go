// Package e2e installs a release on the local control plane: the chart, as Helm renders it, and the
// image, whose binary runs as the Pods' specs say. `make test-e2e` runs it.
package e2e
