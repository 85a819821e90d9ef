{{/* Name of everything that the release makes. */}}
{{- define "tfdist.name" -}}
{{- default "tfdist-controller" .Values.fullnameOverride -}}
{{- end }}

{{/* Name of the Service and Secret of the admission webhook. */}}
{{- define "tfdist.webhook" -}}
{{ include "tfdist.name" . }}-webhook
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

{{/*
Other nodes, then other zones, are preferred: with the spread constraint that outweighs everything else by which the
scheduler chooses, so two replicas share a node only where there is no second one. A spread constraint with zones is
ignored on clusters whose nodes have none, and the one with nodes together with it.
*/}}
{{- define "tfdist.affinity" -}}
{{- $terms := list }}
{{- range $key, $weight := dict "kubernetes.io/hostname" 100 "topology.kubernetes.io/zone" 50 }}
{{- $term := dict "topologyKey" $key "matchLabelKeys" (list "pod-template-hash") }}
{{- $_ := set $term "labelSelector" (dict "matchLabels" (include "tfdist.selector" $ | fromYaml)) }}
{{- $terms = append $terms (dict "weight" $weight "podAffinityTerm" $term) }}
{{- end }}
{{- $apart := dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $terms) }}
{{- toYaml (mergeOverwrite $apart (deepCopy .Values.affinity)) }}
{{- end }}

{{/* Kubernetes' own tolerations of a node that is lost, but for 30 s instead of 300, unless the values name them. */}}
{{- define "tfdist.tolerations" -}}
{{- $given := .Values.tolerations }}
{{- range $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" }}
{{- $named := false }}
{{- range $given }}
{{- if eq (default "" .key) $key }}{{ $named = true }}{{ end }}
{{- end }}
{{- if not $named }}
{{- $given = append $given (dict "key" $key "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 30) }}
{{- end }}
{{- end }}
{{- toYaml $given }}
{{- end }}
