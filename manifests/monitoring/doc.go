// Package monitoring holds the alerts, scrape settings and dashboard of Curfew. They need
// the Prometheus Operator's CRDs, so base does not include them: kubectl apply -k
// manifests/monitoring adds them to a cluster that has those.
//
//	rules.yml       PrometheusRule: the alerts, and what to do about each
//	podmonitors.yml PodMonitor: the port "metrics" of both Deployments
//	dashboard.json  Grafana; as a ConfigMap with the label that Grafana's sidecar looks for
//
// There is no code in it, only the tests: each query is parsed, and compared with what the real
// collectors expose once they have been used. A metric, a label or a label's value that does not
// exist fails, and so does a metric of Curfew that nothing shows, or an alert that mixes clusters.
package monitoring
