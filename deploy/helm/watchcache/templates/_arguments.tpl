{{/* The command line. */}}
{{- define "watchcache.arguments" -}}
- serve
{{- if eq .Values.mode "replica" }}
{{- with .Values.replica }}
- --etcd-servers={{ join "," .etcd.servers }}
{{- if .etcd.secretName }}
- --etcd-cafile=/etc/watchcache/etcd/ca.crt
- --etcd-certfile=/etc/watchcache/etcd/tls.crt
- --etcd-keyfile=/etc/watchcache/etcd/tls.key
{{- end }}
{{- if .upstream.kubeconfigSecretName }}
- --upstream-kubeconfig=/etc/watchcache/upstream/kubeconfig
{{- else }}
- --upstream-server={{ .upstream.server }}
- --upstream-cafile=/etc/watchcache/cluster/{{ .upstream.caKey }}
{{- end }}
{{- if .upstream.proxySecretName }}
- --proxy-client-cert-file=/etc/watchcache/proxy/tls.crt
- --proxy-client-key-file=/etc/watchcache/proxy/tls.key
{{- end }}
{{- end }}
{{- else if eq .Values.mode "upstream" }}
- --source=upstream
{{- with .Values.upstream }}
{{- if .resources }}
- --resources={{ join "," .resources }}
{{- end }}
- --consistent-reads={{ .consistentReads }}
{{- if .impersonate }}
- --upstream-impersonate
{{- end }}
{{- end }}
{{- else }}
# A subdirectory, not the root of the volume: a lost+found there would make the store refuse the directory.
- --data-dir=/var/lib/watchcache/data
{{- end }}
- --insecure-port=0
- --secure-port={{ .Values.listener.port }}
- --tls-cert-file=/etc/watchcache/listener/tls.crt
- --tls-private-key-file=/etc/watchcache/listener/tls.key
{{- if eq .Values.mode "replica" }}
{{- with .Values.replica }}
- --client-ca-file=/etc/watchcache/cluster/{{ .cluster.clientCaKey }}
- --service-account-key-file=/etc/watchcache/cluster/{{ .cluster.serviceAccountKey }}
- --service-account-issuer={{ .cluster.serviceAccountIssuer }}
- --authorization-mode={{ join "," .authorizationModes }}
- --goaway-chance={{ toJson .goawayChance }}
- --shutdown-delay-duration={{ .shutdownDelaySeconds }}s
{{- if .group }}
- --replica-group={{ .group }}
{{- end }}
{{- end }}
{{- else if eq .Values.mode "upstream" }}
- --goaway-chance={{ toJson .Values.upstream.goawayChance }}
- --shutdown-delay-duration={{ .Values.upstream.shutdownDelaySeconds }}s
{{- else }}
- --token-auth-file=/etc/watchcache/listener/tokens.csv
{{- end }}
{{- if ne (int .Values.shutdownTimeoutSeconds) 10 }}
- --shutdown-timeout={{ .Values.shutdownTimeoutSeconds }}s
{{- end }}
- --log-format=json
{{- range $flag, $value := .Values.args }}
- {{ printf "--%s=%s" $flag (kindIs "string" $value | ternary $value (toJson $value)) | quote }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
