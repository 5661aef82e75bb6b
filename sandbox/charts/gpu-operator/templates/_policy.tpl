{{/*
Parts of the ClusterPolicy spec. Each definition prints JSON, for the caller to take back with fromJson:
templates return text only, and JSON keeps the types without any indentation rules.
*/}}

{{/* The given keys of a map, without the empty ones.   in: values, keys */}}
{{- define "policy.filled" -}}
{{- $kept := dict -}}
{{- range $key := .keys -}}
{{- with get $.values $key }}{{- $_ := set $kept $key . -}}{{- end -}}
{{- end -}}
{{- toJson $kept -}}
{{- end }}

{{/* What every operand has: its image and how its containers run.   in: values, more (further keys), version (fallback) */}}
{{- define "policy.operand" -}}
{{- $keys := list "repository" "image" "imagePullPolicy" "imagePullSecrets" "resources" "env" "args" "hostNetwork" -}}
{{- $part := include "policy.filled" (dict "values" .values "keys" (concat $keys (.more | default list))) | fromJson -}}
{{- with .values.version | default .version }}{{- $_ := set $part "version" (toString .) -}}{{- end -}}
{{- if hasKey .values "enabled" }}{{- $_ := set $part "enabled" .values.enabled -}}{{- end -}}
{{- toJson $part -}}
{{- end }}

{{/* The image of a driver manager, which other operands start first. */}}
{{- define "policy.driverManager" -}}
{{- include "policy.operand" (dict "values" (omit . "imagePullSecrets" "resources" "args" "hostNetwork")) -}}
{{- end }}

{{- define "policy.daemonsets" -}}
{{- $part := include "policy.filled" (dict "values" .Values.daemonsets "keys" (list "annotations" "tolerations" "priorityClassName" "updateStrategy")) | fromJson -}}
{{- with .Values.daemonsets.rollingUpdate }}{{- $_ := set $part "rollingUpdate" (dict "maxUnavailable" (toString .maxUnavailable)) -}}{{- end -}}
{{- $chart := printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- $own := dict "helm.sh/chart" $chart "app.kubernetes.io/managed-by" (default .Chart.Name .Values.nameOverride) -}}
{{- $_ := set $part "labels" (merge dict (.Values.daemonsets.labels | default dict) $own) -}}
{{- toJson $part -}}
{{- end }}

{{- define "policy.validator" -}}
{{- $part := include "policy.operand" (dict "values" .Values.validator "version" .Chart.AppVersion) | fromJson -}}
{{- range $check := list "plugin" "cuda" "driver" "toolkit" "vfioPCI" "vgpuManager" "vgpuDevices" -}}
{{- with get $.Values.validator $check }}{{- $_ := set $part $check (dict "env" (.env | default list)) -}}{{- end -}}
{{- end -}}
{{- toJson $part -}}
{{- end }}

{{/* With NVIDIADriver objects, only the switches and the upgrade policy stay in the ClusterPolicy. */}}
{{- define "policy.driver" -}}
{{- $driver := .Values.driver -}}
{{- $part := dict -}}
{{- if not $driver.nvidiaDriverCRD.enabled -}}
{{- $more := list "startupProbe" "livenessProbe" "readinessProbe" "repoConfig" "certConfig" "licensingConfig" "virtualTopology" "kernelModuleConfig" "secretEnv" -}}
{{- $part = include "policy.operand" (dict "values" $driver "more" $more) | fromJson -}}
{{- $_ := set $part "kernelModuleType" $driver.kernelModuleType -}}
{{- $_ := set $part "usePrecompiled" $driver.usePrecompiled -}}
{{- $_ := set $part "rdma" (pick $driver.rdma "enabled" "useHostMofed") -}}
{{- $_ := set $part "manager" (include "policy.driverManager" $driver.manager | fromJson) -}}
{{- end -}}
{{- if $driver.hostNetwork }}{{- $_ := set $part "hostNetwork" true -}}{{- end -}}
{{- $_ := set $part "enabled" $driver.enabled -}}
{{- $_ := set $part "useNvidiaDriverCRD" $driver.nvidiaDriverCRD.enabled -}}
{{- with $driver.upgradePolicy -}}
{{- $wait := include "policy.filled" (dict "values" .waitForCompletion "keys" (list "podSelector")) | fromJson -}}
{{- $_ := set $wait "timeoutSeconds" .waitForCompletion.timeoutSeconds -}}
{{- $pods := dict "force" (.gpuPodDeletion.force | default false) "timeoutSeconds" .gpuPodDeletion.timeoutSeconds "deleteEmptyDir" (.gpuPodDeletion.deleteEmptyDir | default false) -}}
{{- $drain := include "policy.filled" (dict "values" .drain "keys" (list "podSelector")) | fromJson -}}
{{- $_ := set $drain "enable" (.drain.enable | default false) -}}
{{- $_ := set $drain "force" (.drain.force | default false) -}}
{{- $_ := set $drain "timeoutSeconds" .drain.timeoutSeconds -}}
{{- $_ := set $drain "deleteEmptyDir" (.drain.deleteEmptyDir | default false) -}}
{{- $upgrade := dict "autoUpgrade" (.autoUpgrade | default false) "maxParallelUpgrades" (.maxParallelUpgrades | default 0) "maxUnavailable" (.maxUnavailable | default "25%") -}}
{{- $_ := set $part "upgradePolicy" (merge $upgrade (dict "waitForCompletion" $wait "podDeletion" $pods "drain" $drain)) -}}
{{- end -}}
{{- toJson $part -}}
{{- end }}

{{/* The ConfigMap with the plugin's configurations is named only when there is one: no name, no config section. */}}
{{- define "policy.devicePlugin" -}}
{{- $part := include "policy.operand" (dict "values" .Values.devicePlugin) | fromJson -}}
{{- with .Values.devicePlugin.config -}}
{{- if .name }}{{- $_ := set $part "config" (dict "name" .name "default" (.default | default "")) -}}{{- end -}}
{{- end -}}
{{- toJson $part -}}
{{- end }}

{{- define "policy.migManager" -}}
{{- $part := include "policy.operand" (dict "values" .Values.migManager "more" (list "gpuClientsConfig")) | fromJson -}}
{{- with .Values.migManager.config -}}
{{- $config := include "policy.filled" (dict "values" . "keys" (list "name")) | fromJson -}}
{{- $_ := set $part "config" (set $config "default" (.default | default "")) -}}
{{- end -}}
{{- toJson $part -}}
{{- end }}

{{- define "policy.dcgmExporter" -}}
{{- $values := .Values.dcgmExporter -}}
{{- $more := list "annotations" "serviceMonitor" "service" "hostPID" "hpcJobMapping" "enablePodLabels" "enablePodUID" "podLabelAllowlistRegex" -}}
{{- $part := include "policy.operand" (dict "values" $values "more" $more) | fromJson -}}
{{- with $values.config }}{{- with .name }}{{- $_ := set $part "config" (dict "name" .) -}}{{- end -}}{{- end -}}
{{- toJson $part -}}
{{- end }}

{{/* An operand that starts a driver manager before itself.   in: values, more */}}
{{- define "policy.withDriverManager" -}}
{{- $part := include "policy.operand" . | fromJson -}}
{{- $_ := set $part "driverManager" (include "policy.driverManager" .values.driverManager | fromJson) -}}
{{- toJson $part -}}
{{- end }}
