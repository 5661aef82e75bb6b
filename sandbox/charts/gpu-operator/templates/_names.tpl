{{/* Labels of the chart's own objects. */}}
{{- define "standin.labels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/component: gpu-operator
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.operator.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* "repository/image:version" of a component; the version falls back to the chart's application version. */}}
{{- define "standin.image" -}}
{{- printf "%s/%s:%s" .component.repository .component.image (.component.version | default .fallback) -}}
{{- end }}
