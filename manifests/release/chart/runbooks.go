package chart

import "strings"

// link gives the alerts of a PrometheusRule links to their runbooks, whose paths end their
// descriptions. Without a base address it adds no links: a path alone would be a dead link.
func (o *Options) link(of object) {
	if o.Runbooks == "" || of["kind"] != "PrometheusRule" {
		return
	}
	base := strings.ReplaceAll(o.Runbooks, "{version}", o.Version)
	spec, _ := of["spec"].(object)
	groups, _ := spec["groups"].([]any)
	for _, group := range groups {
		group, _ := group.(object)
		alerts, _ := group["rules"].([]any)
		for _, alert := range alerts {
			alert, _ := alert.(object)
			annotations, _ := alert["annotations"].(object)
			description, _ := annotations["description"].(string)
			if _, path, ok := strings.Cut(description, "Runbook: "); ok {
				annotations["runbook_url"] = base + path
			}
		}
	}
}
