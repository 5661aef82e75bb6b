{{- define "standin.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "standin.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end }}

{{- define "standin.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "standin.labels" -}}
{{ include "standin.selector" . }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Name, namespace and labels of an object.   in: root, suffix */}}
{{- define "standin.metadata" -}}
name: {{ include "standin.fullname" .root }}{{ .suffix }}
namespace: {{ include "standin.namespace" .root }}
labels:
  {{- include "standin.labels" .root | nindent 2 }}
{{- end }}

{{/* The service account of a role: the master's carries the plain name, the others' their role too. */}}
{{- define "standin.account" -}}
{{- $account := (get .root.Values .role).serviceAccount -}}
{{- $suffix := eq .role "master" | ternary "" (printf "-%s" .role) -}}
{{- $own := printf "%s%s" (include "standin.fullname" .root) $suffix -}}
{{- default ($account.create | ternary $own "default") $account.name -}}
{{- end }}

{{/* What the pods of all roles have in common, from the values of the role.   in: root, role */}}
{{- define "standin.pod" -}}
{{- $values := get .root.Values .role -}}
serviceAccountName: {{ include "standin.account" . }}
dnsPolicy: {{ $values.dnsPolicy }}
hostNetwork: {{ $values.hostNetwork }}
securityContext: {{ toJson ($values.podSecurityContext | default dict) }}
{{- with $values.priorityClassName | default .root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- if kindIs "bool" $values.hostUsers }}
hostUsers: {{ $values.hostUsers }}
{{- end }}
{{- with .root.Values.imagePullSecrets | default (.root.Values.global | default dict).imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- range $key := list "initContainers" "nodeSelector" "affinity" "tolerations" }}
{{- with get $values $key }}
{{ toYaml (dict $key .) }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the containers of all roles have in common.   in: root, role, args, env (further variables) */}}
{{- define "standin.container" -}}
{{- $values := get .root.Values .role -}}
{{- $port := $values.port | default 8080 | int -}}
name: {{ .role }}
image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [nfd-{{ .role }}]
args: {{ toJson (concat .args ($values.extraArgs | default list)) }}
env:
  - name: NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  {{- with concat (.env | default list) ($values.extraEnvs | default list) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: http, containerPort: {{ $port }}}
resources: {{ toJson $values.resources }}
{{- $locked := dict "allowPrivilegeEscalation" false "capabilities" (dict "drop" (list "ALL")) "readOnlyRootFilesystem" true "runAsNonRoot" true }}
securityContext: {{ toJson ($values.securityContext | default $locked) }}
{{- range $kind := list "startupProbe" "livenessProbe" "readinessProbe" }}
{{- if hasKey $values $kind }}
{{- $probe := dict "httpGet" (dict "path" "/healthz" "port" "http") }}
{{- range $key, $value := get $values $kind }}{{- if $value }}{{- $_ := set $probe $key $value }}{{- end }}{{- end }}
{{ $kind }}: {{ toJson $probe }}
{{- end }}
{{- end }}
{{- end }}

{{/* The annotations of a pod template: a hash of its configuration, so that a change of it rolls the pods.   in: root, role */}}
{{- define "standin.podAnnotations" -}}
{{- $values := get .root.Values .role -}}
{{- $hash := dict "checksum/config" (toYaml $values.config | sha256sum) -}}
{{- toYaml (merge dict ($values.annotations | default dict) $hash) -}}
{{- end }}
