{{/* The image by digest, unless a tag is set. The digest of the release is no value: an upgrade with --reuse-values would keep it. */}}
{{- define "curfew.image" -}}
{{- $digest := .Values.image.digest -}}
{{- if not (or $digest .Values.image.tag) -}}
{{- $digest = index (.Chart.Annotations | default dict) "curfew.dev/image-digest" -}}
{{- end -}}
{{- with .Values.image.registry }}{{ . }}/{{ end -}}
{{- if $digest -}}
{{ .Values.image.repository }}@{{ $digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The labels of all objects, and those that only Helm adds to the objects of manifests/. */}}
{{- define "curfew.labels" -}}
app.kubernetes.io/name: curfew
app.kubernetes.io/part-of: curfew
{{ include "curfew.releaseLabels" . }}
{{- end -}}
{{- define "curfew.releaseLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The objects of a file as a JSON list, in the namespace of the release: include "curfew.read" (list $ "files/rbac/view.yaml"). */}}
{{- define "curfew.read" -}}
{{- $root := first . -}}
{{- $objects := list -}}
{{- range splitList "\n---\n" ($root.Files.Get (last .)) -}}
{{- $objects = append $objects (fromYaml .) -}}
{{- end -}}
{{- $objects | toJson | replace "curfew-system" $root.Release.Namespace -}}
{{- end -}}

{{/* An object with the labels of all objects: include "curfew.print" (list $ $object). */}}
{{- define "curfew.print" -}}
{{- $metadata := (last .).metadata -}}
{{- $_ := set $metadata "labels" (merge (include "curfew.releaseLabels" (first .) | fromYaml) $metadata.labels) -}}
---
{{ toYaml (last .) }}
{{ end -}}

{{/* Whether the webhook reads its certificate from a Secret that others write. */}}
{{- define "curfew.mounted" -}}
{{- if or (eq .Values.certificates "cert-manager") .Values.existingSecret }}true{{ end -}}
{{- end -}}

{{/* The port of the webhook's Pods. On the network of the nodes, 10250 is the kubelet's. */}}
{{- define "curfew.port" -}}
{{- .Values.webhook.port | default (ternary 9443 10250 (.Values.webhook.hostNetwork | default false)) -}}
{{- end -}}

{{/* A match condition that leaves out the namespaces of --protect, as judging.ProtectedRequest writes it. */}}
{{- define "curfew.notProtected" -}}
{{- $names := list -}}
{{- $patterns := list -}}
{{- range .Values.protect -}}
{{- if contains "*" . -}}
{{- $patterns = append $patterns (replace "*" ".*" .) -}}
{{- else -}}
{{- $names = append $names (quote .) -}}
{{- end -}}
{{- end -}}
{{- $terms := list -}}
{{- with $names -}}
{{- $terms = append $terms (printf "request.?namespace.orValue(\"\") in [%s]" (join ", " .)) -}}
{{- end -}}
{{- with $patterns -}}
{{- $terms = append $terms (printf "request.?namespace.orValue(\"\").matches(\"^(%s)$\")" (join "|" .)) -}}
{{- end -}}
!({{ join " || " $terms | default "false" }})
{{- end -}}

{{/* How Prometheus reads secure metrics. The controller signs its certificate itself. */}}
{{- define "curfew.scrape" -}}
{{- if (.Values.metrics).secure -}}
scheme: https
tlsConfig:
  insecureSkipVerify: true
authorization:
  credentials:
    name: curfew-metrics-token
    key: token
{{- end -}}
{{- end -}}
