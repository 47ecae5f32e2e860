package chart

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// pod are the values that set fields of a Pod, by path. Each of the two Deployments has its own.
var pod = map[string]string{
	"metadata.annotations":           "podAnnotations",
	"spec.affinity":                  "affinity",
	"spec.nodeSelector":              "nodeSelector",
	"spec.priorityClassName":         "priorityClassName",
	"spec.securityContext":           "securityContext",
	"spec.tolerations":               "tolerations",
	"spec.topologySpreadConstraints": "topologySpreadConstraints",
}

// extra are the values that add to lists of a Pod.
var extra = map[string]string{
	"spec.containers.0.env":          "extraEnv",
	"spec.containers.0.volumeMounts": "extraVolumeMounts",
	"spec.volumes":                   "extraVolumes",
}

const (
	replicas = `{{ if kindIs "invalid" .Values.%[1]s.replicas }}%%s{{ else }}{{ .Values.%[1]s.replicas }}{{ end }}`

	argsMore = `{{- with include "curfew.protect" . }}
{{ . }}
{{- end }}
{{- with .Values.triggers }}
- --enable={{ join "," . }}
{{- end }}
{{- if .Values.dryRun }}
- --dry-run
{{- end }}
{{- range concat .Values.args .Values.%[1]s.args }}
- {{ . | quote }}
{{- end }}
`

	// hostNetworkMore gives Pods on the network of their nodes the DNS of the cluster.
	hostNetworkMore = `{{- if .Values.webhook.hostNetwork }}
dnsPolicy: ClusterFirstWithHostNet
hostNetwork: true
{{- end }}
`

	// podLabels are the labels of Pods. No selector has them.
	podLabels = `merge dict (.Values.%s.podLabels | default dict) (.Values.commonLabels | default dict)`

	// restorersMore exempts accounts from the policy on statuses.
	restorersMore = `{{- range $index, $user := .Values.restorers }}
- name: restorer-{{ $index }}
  expression: {{ printf "request.userInfo.username != %q" $user | quote }}
{{- end }}
`
)

// needed names the trigger without which the controller does not use an object. The role of
// PodTallies is not here: while they are switched off, the controller removes their finalizers. The
// role of runtimes is not here either: the controller always keeps their stamps, so that switching
// on a trigger loses nothing.
var needed = map[string]string{
	"clusterrole-curfew-controller-deadlines": "deadline",
	"clusterrole-curfew-controller-cleanup":   "cleanup",
	"role-curfew-controller-cleanup":          "cleanup",
	"rolebinding-curfew-controller-cleanup":   "cleanup",
}

// issued is the condition under which cert-manager issues the webhook's certificate.
const issued = `and (eq .Values.certificates "cert-manager") (not .Values.existingSecret)`

// parameters returns the places of an object, by path, where a value of the chart is inserted that
// no component sets.
func parameters(o object) map[string]place {
	out := map[string]place{".metadata.labels": {add: ".Values.commonLabels"}}
	switch name := id(o); o["kind"] {
	case "Deployment":
		maps.Copy(out, ofDeployment(strings.TrimPrefix(name, "deployment-curfew-")))
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		out[".metadata.annotations"] = place{add: ".Values.webhook.annotations", when: issued}
		maps.Copy(out, ofWebhooks(o))
	case "ValidatingAdmissionPolicy":
		switch name {
		case "validatingadmissionpolicy-curfew-status":
			out[".spec.matchConditions"] = place{more: restorersMore}
		case "validatingadmissionpolicy-curfew-controller":
			out[".spec.variables.0.expression"] = place{value: "{{ .Values.webhookKeys | toJson | quote }}"}
		}
	case "CustomResourceDefinition":
		out[".metadata.annotations"] = place{more: "{{- if .Values.crds.keep }}\nhelm.sh/resource-policy: keep\n{{- end }}\n"}
	case "Certificate", "Issuer":
		out[""] = place{when: issued + " (not .Values.issuerRef)"}
		if name == "certificate-curfew-webhook" {
			out[""] = place{when: issued}
			out[".spec.issuerRef"] = place{set: ".Values.issuerRef"}
		}
	case "NetworkPolicy":
		out[".spec.ingress.0.from"] = place{set: ".Values.networkPolicy.metricsFrom"}
		out[".spec.egress.0.ports"] = place{block: "{{- range .Values.networkPolicy.apiServerPorts }}\n- port: {{ . }}\n{{- end }}"}
	case "PodMonitor":
		out[""] = place{when: "and .Values.monitoring (not (.Values.serviceMonitor).enabled)"}
		out[".spec.podMetricsEndpoints.0"] = place{more: "{{- with include \"curfew.scrape\" . }}\n{{- . | nindent 4 }}\n{{- end }}\n"}
	}
	return out
}

// ofDeployment are the places of the Deployment of a component, webhook or controller.
func ofDeployment(part string) map[string]place {
	const template, container = ".spec.template.", ".spec.template.spec.containers.0"
	out := map[string]place{
		".spec.replicas":                   {value: fmt.Sprintf(replicas, part)},
		template + "metadata.labels":       {add: fmt.Sprintf(podLabels, part)},
		template + "spec.imagePullSecrets": {set: ".Values.imagePullSecrets"},
		container + ".image":               {value: `{{ include "curfew.image" . | quote }}`},
		container + ".imagePullPolicy":     {value: "{{ .Values.image.pullPolicy }}"},
		container + ".args":                {more: fmt.Sprintf(argsMore, part)},
		container + ".resources":           {block: fmt.Sprintf("{{- toYaml .Values.%s.resources | nindent 12 }}", part)},
	}
	for path, name := range pod {
		out[template+path] = place{set: ".Values." + part + "." + name}
	}
	for path, name := range extra {
		out[template+path] = place{add: ".Values." + part + "." + name}
	}
	if part == "webhook" {
		out[template+"spec"] = place{more: hostNetworkMore}
		// A new Pod needs the ports of a node that an old one has.
		out[".spec.strategy.rollingUpdate.maxUnavailable"] = place{value: "{{ if .Values.webhook.hostNetwork }}1{{ else }}%s{{ end }}"}
	}
	return out
}

// ofWebhooks gives webhooks their CA, and derives the condition that component fail-closed adds
// from the value protect. For curfew-kinds the controller derives both.
func ofWebhooks(o object) map[string]place {
	webhooks, _ := o["webhooks"].([]any)
	out := map[string]place{}
	for i := range webhooks {
		path := fmt.Sprintf(".webhooks.%d.", i)
		out[path+"clientConfig.caBundle"] = place{set: `ternary .Values.caBundle "" (not (empty .Values.existingSecret)) | default "" | b64enc`}
		if o["kind"] == "ValidatingWebhookConfiguration" {
			out[path+"matchConditions.more.0.expression"] = place{value: `{{ include "curfew.notProtected" . | squote }}`}
		}
	}
	return out
}

// webhookPort finds the ports in the Deployment of the webhook, in its flags and its container.
var webhookPort = regexp.MustCompile(`(containerPort: |--[a-z-]+=:?)(9443|8081|8080|8443)\b`)

// webhookPorts are the values that set these ports.
var webhookPorts = map[string]string{"9443": "port", "8081": "healthPort", "8080": "metricsPort", "8443": "httpAPIPort"}

// ofWebhook inserts values that replace a text of the webhook's Deployment wherever it is.
func ofWebhook(text string) string {
	text = webhookPort.ReplaceAllStringFunc(text, func(found string) string {
		parts := webhookPort.FindStringSubmatch(found)
		return fmt.Sprintf("%s{{ .Values.webhook.%s | default %s }}", parts[1], webhookPorts[parts[2]], parts[2])
	})
	const secret = "curfew-webhook-tls"
	return strings.ReplaceAll(text, "secretName: "+secret, `secretName: {{ .Values.existingSecret | default "`+secret+`" | quote }}`)
}

// link gives the alerts of a PrometheusRule links to their runbooks, whose paths end their
// descriptions. Without a base address it adds no links: a path alone would be a dead link.
func (o *Options) link(of object) {
	if o.Runbooks == "" || of["kind"] != "PrometheusRule" {
		return
	}
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
				annotations["runbook_url"] = o.address() + path
			}
		}
	}
}
