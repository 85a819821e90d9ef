{{/* Generated from operator/tfdist_operator/permissions.py; edit that instead. */ -}}
{{- define "tfdist.rules.controller" -}}
- apiGroups:
  - ''
  resources:
  - events
  verbs:
  - create
  - list
- apiGroups:
  - ''
  resources:
  - pods
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - ''
  resources:
  - secrets
  verbs:
  - create
- apiGroups:
  - ''
  resources:
  - services
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - apps
  resources:
  - deployments
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - kueue.x-k8s.io
  resources:
  - resourceflavors
  verbs:
  - list
  - watch
- apiGroups:
  - kueue.x-k8s.io
  resources:
  - workloadpriorityclasses
  verbs:
  - list
- apiGroups:
  - kueue.x-k8s.io
  resources:
  - workloads
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - kueue.x-k8s.io
  resources:
  - workloads/status
  verbs:
  - patch
- apiGroups:
  - networking.k8s.io
  resources:
  - networkpolicies
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - scheduling.k8s.io
  resources:
  - podgroups
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - scheduling.k8s.io
  resources:
  - priorityclasses
  verbs:
  - list
- apiGroups:
  - scheduling.run.ai
  resources:
  - podgroups
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - scheduling.volcano.sh
  resources:
  - podgroups
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - scheduling.x-k8s.io
  resources:
  - podgroups
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - tfdist.dev
  resources:
  - tfdistjobs
  verbs:
  - create
  - delete
  - list
  - patch
  - watch
- apiGroups:
  - tfdist.dev
  resources:
  - tfdistjobs/status
  verbs:
  - patch
- apiGroups:
  - tfdist.dev
  resources:
  - tfdistsweeps
  verbs:
  - delete
  - list
  - watch
- apiGroups:
  - tfdist.dev
  resources:
  - tfdistsweeps/status
  verbs:
  - patch
- apiGroups:
  - visibility.kueue.x-k8s.io
  resources:
  - localqueues/pendingworkloads
  verbs:
  - get
{{- end }}
{{- define "tfdist.rules.lease" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  resourceNames:
  - {{ include "tfdist.name" . }}
  verbs:
  - get
  - update
{{- end }}
{{- define "tfdist.rules.webhook" -}}
- apiGroups:
  - ''
  resources:
  - secrets
  resourceNames:
  - {{ include "tfdist.name" . }}-webhook
  verbs:
  - get
  - update
{{- end }}
{{- define "tfdist.rules.webhookConfiguration" -}}
- apiGroups:
  - admissionregistration.k8s.io
  resources:
  - validatingwebhookconfigurations
  resourceNames:
  - {{ include "tfdist.name" . }}-webhook.{{ .Release.Namespace }}
  verbs:
  - get
  - patch
{{- end }}
{{- define "tfdist.rules.view" -}}
- apiGroups:
  - tfdist.dev
  resources:
  - tfdistjobs
  - tfdistjobs/scale
  - tfdistsweeps
  - tfdistjobs/status
  - tfdistsweeps/status
  verbs:
  - get
  - list
  - watch
{{- end }}
{{- define "tfdist.rules.edit" -}}
- apiGroups:
  - tfdist.dev
  resources:
  - tfdistjobs
  - tfdistjobs/scale
  - tfdistsweeps
  verbs:
  - create
  - delete
  - deletecollection
  - patch
  - update
{{- end }}
