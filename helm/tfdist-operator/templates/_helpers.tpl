{{/* Name of everything that the release makes. */}}
{{- define "tfdist.name" -}}
{{- default "tfdist-controller" .Values.fullnameOverride -}}
{{- end }}

{{/* Labels of the controller's pods; a Deployment can never change them. */}}
{{- define "tfdist.selector" -}}
app.kubernetes.io/name: {{ include "tfdist.name" . }}
{{- end }}

{{- define "tfdist.labels" -}}
{{ include "tfdist.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: tfdist
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tfdist.account" -}}
{{- if .Values.serviceAccount.name -}}
{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create -}}
{{ include "tfdist.name" . }}
{{- else -}}
default
{{- end -}}
{{- end }}

{{/* Full name of an image: a list of the image's values and the version that stands for an empty tag. */}}
{{- define "tfdist.image" -}}
{{- $image := index . 0 -}}
{{ $image.repository }}:{{ default (index . 1) $image.tag }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "tfdist.subject" -}}
- kind: ServiceAccount
  name: {{ include "tfdist.account" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* What the restricted Pod Security level asks of a container, and a root file system that nothing writes. */}}
{{- define "tfdist.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "tfdist.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}
