{{- define "farmhand.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "farmhand.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* What never changes, for selectors. Takes (dict "root" $ "component" "agent"). */ -}}
{{- define "farmhand.selector" -}}
app.kubernetes.io/name: farmhand
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "farmhand.labels" -}}
{{ include "farmhand.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "farmhand.priorityClass" -}}
{{- if .Values.priorityClass.create -}}
{{ .Values.priorityClass.name | default (include "farmhand.fullname" .) }}
{{- else -}}
{{ .Values.priorityClass.name }}
{{- end -}}
{{- end -}}

{{- /* Of containers that need nothing. */ -}}
{{- define "farmhand.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end -}}

{{- define "farmhand.agentToml" -}}
listen = {{ printf "%s:%d" .Values.config.listenAddress (int .Values.config.port) | quote }}
# Metrics and the health checks only: tokens must not cross the network in the clear.
api = "off"
slots = {{ int .Values.config.slots }}
lease_ttl = {{ .Values.config.leaseTtl | quote }}
stop_timeout = "{{ int .Values.config.stopTimeoutSeconds }}s"
notify = {{ .Values.config.notify | quote }}
retention = {{ .Values.config.retention | quote }}
{{- with .Values.labels }}

[labels]
{{- range $key, $value := . }}
{{ $key | quote }} = {{ $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "farmhand.policyToml" -}}
users = {{ .Values.policy.users | toJson }}
default_user = {{ .Values.policy.defaultUser | quote }}
{{- end -}}

{{- /* The pod of a Job that runs one command. Takes (dict "root" $ "component" "migrate" "secret" … "args" (list …)). */ -}}
{{- define "farmhand.jobPod" -}}
metadata:
  labels:
    {{- include "farmhand.labels" . | nindent 4 }}
spec:
  restartPolicy: Never
  {{- if .serviceAccount }}
  serviceAccountName: {{ .serviceAccount }}
  {{- end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: {{ .container }}
      image: {{ include "farmhand.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        {{- toYaml .args | nindent 8 }}
      env:
        - name: FARMHAND_DATABASE_URL
          valueFrom:
            secretKeyRef:
              name: {{ .secret | quote }}
              key: {{ .root.Values.database.key | quote }}
      securityContext:
        {{- include "farmhand.restricted" . | nindent 8 }}
{{- end -}}
