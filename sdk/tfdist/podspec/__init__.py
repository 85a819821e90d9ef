"""Knowledge of Kubernetes' pod template: which fields there are, and how two templates merge."""
