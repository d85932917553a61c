{{/* The pod of all modes. */}}
{{- define "watchcache.pod" -}}
{{- $replica := eq .Values.mode "replica" -}}
{{- $standalone := eq .Values.mode "standalone" -}}
{{- $own := index .Values .Values.mode -}}
{{- $upstream := .Values.replica.upstream -}}
metadata:
  # Without the versions of chart and program: pods start anew when something of theirs has changed, for that moves all streams.
  labels:
    {{- include "watchcache.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "watchcache.serviceAccountName" . }}
  automountServiceAccountToken: {{ eq .Values.mode "upstream" }}
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # The delay of replicas, the timeout, and 10 s to close the store or connections.
  terminationGracePeriodSeconds: {{ add (ternary 0 (int $own.shutdownDelaySeconds) $standalone) .Values.shutdownTimeoutSeconds 10 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    {{- if $standalone }}
    # The store's directory has mode 0700 and must keep it.
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  {{- if not $standalone }}
  topologySpreadConstraints:
    - {{- toYaml .Values.topologySpread | nindent 6 }}
      labelSelector:
        matchLabels:
          {{- include "watchcache.selector" . | nindent 10 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: watchcache
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        {{- include "watchcache.arguments" . | nindent 8 }}
      ports:
        - name: https
          containerPort: {{ .Values.listener.port }}
      # Ready when everything has been loaded; a replica, when the kube-apiserver has answered once besides.
      startupProbe:
        {{- include "watchcache.probe" "/readyz" | nindent 8 }}
        periodSeconds: 2
        failureThreshold: {{ ternary 60 150 $standalone }}
      livenessProbe:
        {{- include "watchcache.probe" "/livez" | nindent 8 }}
      readinessProbe:
        {{- include "watchcache.probe" "/readyz" | nindent 8 }}
        periodSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      resources:
        {{- toYaml (ternary $own.podResources $own.resources (eq .Values.mode "upstream")) | nindent 8 }}
      volumeMounts:
        {{- if $standalone }}
        - name: data
          mountPath: /var/lib/watchcache
        {{- end }}
        {{- include "watchcache.mount" "listener" | nindent 8 }}
        {{- if $replica }}
        {{- if $upstream.proxySecretName }}
        {{- include "watchcache.mount" "proxy" | nindent 8 }}
        {{- end }}
        {{- if .Values.replica.etcd.secretName }}
        {{- include "watchcache.mount" "etcd" | nindent 8 }}
        {{- end }}
        {{- include "watchcache.mount" "cluster" | nindent 8 }}
        {{- if $upstream.kubeconfigSecretName }}
        {{- include "watchcache.mount" "upstream" | nindent 8 }}
        {{- end }}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- include "watchcache.secret" (dict "name" "listener" "secretName" .Values.listener.secretName) | nindent 4 }}
    {{- if $replica }}
    {{- with $upstream.proxySecretName }}
    {{- include "watchcache.secret" (dict "name" "proxy" "secretName" .) | nindent 4 }}
    {{- end }}
    {{- with .Values.replica.etcd.secretName }}
    {{- include "watchcache.secret" (dict "name" "etcd" "secretName" .) | nindent 4 }}
    {{- end }}
    - name: cluster
      configMap:
        name: {{ .Values.replica.cluster.configMapName }}
    {{- with $upstream.kubeconfigSecretName }}
    {{- include "watchcache.secret" (dict "name" "upstream" "secretName" .) | nindent 4 }}
    {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
