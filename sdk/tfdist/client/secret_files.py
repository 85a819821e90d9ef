"""Which files of a folder of code may contain credentials: by their names, and small ones by their content."""

import re
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

_NAMES: Final = GitIgnoreSpec.from_lines(
    (
        # variables and passwords
        *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".htpasswd", ".vault-token"),
        *("secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml", "*.kdbx", "*.tfstate", "*.tfstate.backup"),
        # private keys
        *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk", ".ssh/", ".gnupg/"),
        *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
        # logins of clouds, registries, model hubs and Git
        *(
            ".aws/",
            ".azure/",
            ".gcloud/",
            ".config/gcloud/",
            ".oci/",
            ".kube/",
            ".kaggle/",
            ".huggingface/",
            ".docker/",
        ),
        *("kubeconfig", "kubeconfig.yaml", "kubeconfig.yml", "*.kubeconfig", "kaggle.json", "credentials.json"),
        *("application_default_credentials.json", "client_secret*.json", ".boto", ".s3cfg", ".dockercfg"),
        *("huggingface/token", ".hf_token", ".pypirc", ".npmrc", ".yarnrc.yml", ".git-credentials", ".terraformrc"),
    )
)
_CONTENT: Final = re.compile(
    rb'-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----\s+[A-Za-z0-9+/=]{16}|"private_key"\s*:\s*"-----BEGIN|'
    rb'^\s{0,80}"?client-key-data"?\s*:|^apiVersion:\s*v1\s[\s\S]{0,4096}^kind:\s*Config\s*$',
    re.MULTILINE,
)
"""A private key, a service account's key, and a kubeconfig."""
_LONGEST: Final = 256 << 10
"""Bytes of a file whose content is read: files of credentials are small."""


def is_secret(path: Path, name: str) -> bool:
    """Return whether a file, with its path in the folder of code, may contain credentials.

    Raises:
        OSError: the file cannot be read.
    """
    if _NAMES.match_file(name.lower()):
        return True
    if path.is_symlink() or path.stat().st_size > _LONGEST:
        return False
    return _CONTENT.search(path.read_bytes()) is not None
