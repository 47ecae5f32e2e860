package chart

import (
	"fmt"
	"strings"
)

// namespace is Curfew's own in the manifests. A release of the chart may be in another.
const namespace = "curfew-system"

// What values add to a Deployment. %[1]s is its component, webhook or controller.
const podMore = `{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.%[1]s.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.%[1]s.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.%[1]s.tolerations }}
tolerations:
  {{- toYaml . | nindent 8 }}
{{- end }}
{{- with .Values.%[1]s.affinity }}
affinity:
  {{- toYaml . | nindent 8 }}
{{- end }}
`

const argsMore = `{{- with include "curfew.protect" . }}
{{ . }}
{{- end }}
{{- with .Values.triggers }}
- --enable={{ join "," . }}
{{- end }}
{{- range concat .Values.args .Values.%[1]s.args }}
- {{ . | quote }}
{{- end }}
`

const annotationsMore = `{{- with .Values.%[1]s.podAnnotations }}
annotations:
  {{- toYaml . | nindent 8 }}
{{- end }}
`

// restorersMore exempts accounts from the policy on statuses.
const restorersMore = `{{- range $index, $user := .Values.restorers }}
- name: restorer-{{ $index }}
  expression: {{ printf "request.userInfo.username != %q" $user | quote }}
{{- end }}
`

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

// parameters returns the places of an object, by path, where a value of the chart is inserted that
// no component sets.
func parameters(o object) map[string]place {
	switch o["kind"] {
	case "Deployment":
		part := strings.TrimPrefix(id(o), "deployment-curfew-")
		const pod, container = ".spec.template.spec", ".spec.template.spec.containers.0"
		return map[string]place{
			".spec.replicas":               {value: fmt.Sprintf("{{ if kindIs \"invalid\" .Values.%[1]s.replicas }}%%s{{ else }}{{ .Values.%[1]s.replicas }}{{ end }}", part)},
			".spec.template.metadata":      {more: fmt.Sprintf(annotationsMore, part)},
			pod:                            {more: fmt.Sprintf(podMore, part)},
			container + ".image":           {value: `{{ include "curfew.image" . | quote }}`},
			container + ".imagePullPolicy": {value: "{{ .Values.image.pullPolicy }}"},
			container + ".args":            {more: fmt.Sprintf(argsMore, part)},
			container + ".resources":       {block: fmt.Sprintf("{{- toYaml .Values.%s.resources | nindent 12 }}", part)},
		}
	case "ValidatingWebhookConfiguration":
		return notProtected(o)
	case "ValidatingAdmissionPolicy":
		switch id(o) {
		case "validatingadmissionpolicy-curfew-status":
			return map[string]place{".spec.matchConditions": {more: restorersMore}}
		case "validatingadmissionpolicy-curfew-controller":
			return map[string]place{".spec.variables.0.expression": {value: "{{ .Values.webhookKeys | toJson | quote }}"}}
		}
	case "CustomResourceDefinition":
		return map[string]place{
			".metadata.annotations": {more: "{{- if .Values.crds.keep }}\nhelm.sh/resource-policy: keep\n{{- end }}\n"},
		}
	}
	return nil
}

// notProtected derives the condition that component fail-closed adds to each webhook from the value
// protect. For curfew-kinds the controller derives it from its flag.
func notProtected(o object) map[string]place {
	webhooks, _ := o["webhooks"].([]any)
	out := map[string]place{}
	for i := range webhooks {
		path := fmt.Sprintf(".webhooks.%d.matchConditions.more.0.expression", i)
		out[path] = place{value: `{{ include "curfew.notProtected" . | squote }}`}
	}
	return out
}

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
