{{- define "curfew.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
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
