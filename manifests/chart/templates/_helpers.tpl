{{/* The image by digest, unless a tag is set. The digest of the release is no value: an upgrade with --reuse-values would keep it. */}}
{{- define "curfew.image" -}}
{{- $digest := .Values.image.digest -}}
{{- if not (or $digest .Values.image.tag) -}}
{{- $digest = index (.Chart.Annotations | default dict) "curfew.dev/image-digest" -}}
{{- end -}}
{{- if $digest -}}
{{ .Values.image.repository }}@{{ $digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The flag --protect, unless it is the programs' own default. */}}
{{- define "curfew.protect" -}}
{{- if ne (join "," .Values.protect) "kube-system,kube-public,kube-node-lease" -}}
- --protect={{ join "," .Values.protect }}
{{- end -}}
{{- end -}}

{{/* A match condition that leaves out the namespaces of --protect, as policy.ProtectedRequest writes it. */}}
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

{{- define "curfew.metricsLabels" -}}
app.kubernetes.io/name: curfew
app.kubernetes.io/component: metrics
app.kubernetes.io/part-of: curfew
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
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
