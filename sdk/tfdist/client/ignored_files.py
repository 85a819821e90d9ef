"""Which files of a folder are not code: ignored ones, with the rules of Git, and those that may contain credentials."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from tfdist.client.errors import CodeError

NEVER_CODE: Final = frozenset({".git", "__pycache__", ".venv", ".tfdist"})
_FILES: Final = (".gitignore", ".tfdistignore")
"""The later one has the last word."""

_SECRET_NAMES: Final = GitIgnoreSpec.from_lines(
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
_SECRET_CONTENT: Final = re.compile(
    rb'-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----\s+[A-Za-z0-9+/=]{16}|"private_key"\s*:\s*"-----BEGIN|'
    rb'^\s{0,80}"?client-key-data"?\s*:|^apiVersion:\s*v1\s[\s\S]{0,4096}^kind:\s*Config\s*$',
    re.MULTILINE,
)
"""A private key, a service account's key, and a kubeconfig."""
_LONGEST: Final = 256 << 10
"""Bytes of a file whose content is read: files of credentials are small."""


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns that apply in a folder: its own patterns, and those in the folders above it."""

    levels: tuple[tuple[Path, GitIgnoreSpec], ...] = ()
    """Folder and patterns, from the outermost to the innermost."""

    @classmethod
    def above(cls, folder: Path) -> "IgnoreRules":
        """Return the patterns of the folders above `folder` that belong to the same Git repository."""
        rules = cls()
        if (folder / ".git").exists():
            return rules
        root = next((parent for parent in folder.parents if (parent / ".git").exists()), None)
        if root is None:
            return rules
        for parent in reversed([parent for parent in folder.parents if parent.is_relative_to(root)]):
            rules = rules.within(parent)
        return rules

    def within(self, folder: Path) -> "IgnoreRules":
        """Return the patterns that apply in a folder below.

        Raises:
            CodeError: a file of patterns cannot be read, or has an invalid one.
        """
        lines: list[str] = []
        for file in (folder / name for name in _FILES):
            if not file.is_file():
                continue
            try:
                lines += file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is not UTF-8"
                raise CodeError(f"{file}: cannot be read: {reason}") from None
        if not lines:
            return self
        try:
            spec = GitIgnoreSpec.from_lines(lines)
        except ValueError as error:
            raise CodeError(f"{folder}: .gitignore or .tfdistignore has an invalid pattern: {error}") from None
        return IgnoreRules((*self.levels, (folder, spec)))

    def ignore(self, path: Path, *, is_folder: bool) -> bool:
        """Return whether a file or folder is not code; the innermost pattern that matches it decides."""
        if path.name in NEVER_CODE:
            return True
        for folder, spec in reversed(self.levels):
            name = path.relative_to(folder).as_posix() + ("/" if is_folder else "")
            included = spec.check_file(name).include
            if included is not None:
                return included
        return False


def is_secret(path: Path, name: str) -> bool:
    """Return whether a file, with its path in the folder of code, may contain credentials.

    Raises:
        OSError: the file cannot be read.
    """
    if _SECRET_NAMES.match_file(name.lower()):
        return True
    if path.is_symlink() or path.stat().st_size > _LONGEST:
        return False
    return _SECRET_CONTENT.search(path.read_bytes()) is not None
