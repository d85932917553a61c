{{/* The name of the program among its labels. */}}
{{- define "watchcache.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of all objects. */}}
{{- define "watchcache.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "watchcache.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "watchcache.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* By what pods are selected: never changed, for a Deployment's selector cannot be. */}}
{{- define "watchcache.selector" -}}
app.kubernetes.io/name: {{ include "watchcache.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "watchcache.labels" -}}
{{ include "watchcache.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "watchcache.metadata" -}}
name: {{ include "watchcache.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "watchcache.labels" . | nindent 2 }}
{{- end }}

{{/* A probe by a health endpoint, which needs no token. */}}
{{- define "watchcache.probe" -}}
httpGet:
  path: {{ . }}
  port: https
  scheme: HTTPS
{{- end }}

{{/* A volume of a Secret or a ConfigMap, and where it is in the container. */}}
{{- define "watchcache.mount" -}}
- name: {{ . }}
  mountPath: /etc/watchcache/{{ . }}
  readOnly: true
{{- end }}
{{- define "watchcache.secret" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secretName }}
    defaultMode: 0440
{{- end }}
