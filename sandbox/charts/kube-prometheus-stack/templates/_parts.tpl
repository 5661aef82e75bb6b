{{- define "standin.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.Version | quote }}
app.kubernetes.io/part-of: kube-prometheus-stack
chart: {{ .Chart.Name }}-{{ .Chart.Version }}
release: {{ .Release.Name | quote }}
heritage: {{ .Release.Service | quote }}
{{- end }}

{{/* Release and chart have one name here, so the real one's full name is the release's, too, cut as there. */}}
{{- define "standin.name" -}}
{{- $name := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) -}}
{{- $name | trunc 26 | trimSuffix "-" -}}
{{- end }}

{{- define "standin.grafana" -}}
{{- contains "grafana" .Release.Name | ternary .Release.Name (printf "%s-grafana" .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* An image by the registry of all, else its own.   in: root, image, tag */}}
{{- define "standin.image" -}}
{{ .root.Values.global.imageRegistry | default .image.registry }}/{{ .image.repository }}:{{ .image.tag | default .tag }}
{{- end }}

{{/* Selectors of one kind of object.   in: root, kind */}}
{{- define "standin.selectors" -}}
{{- $spec := .root.Values.prometheus.prometheusSpec -}}
{{- $own := dict "matchLabels" (dict "release" .root.Release.Name) -}}
{{- $helm := ternary $own dict (get $spec (printf "%sSelectorNilUsesHelmValues" .kind)) -}}
{{ .kind }}Selector: {{ get $spec (printf "%sSelector" .kind) | default $helm | toJson }}
{{ .kind }}NamespaceSelector: {{ get $spec (printf "%sNamespaceSelector" .kind) | default dict | toJson }}
{{- end }}

{{/* A service account, its role and what binds them.   in: root, name, component, rules, scope (Cluster or nothing) */}}
{{- define "standin.rights" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "standin.labels" .root | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .scope }}Role
metadata:
  name: {{ .role }}
  {{- if not .scope }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "standin.labels" .root | nindent 4 }}
rules: {{ toJson .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .scope }}RoleBinding
metadata:
  name: {{ .role }}
  {{- if not .scope }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "standin.labels" .root | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .scope }}Role, name: {{ .role }}}
subjects: [{kind: ServiceAccount, name: {{ .name }}, namespace: {{ .root.Release.Namespace }}}]
{{- end }}
