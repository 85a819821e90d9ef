"""Turns TFJob manifests of the Kubeflow training operator into TFDistJobs."""
