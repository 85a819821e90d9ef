"""Takes the tools of the package `tfdist` into the wheel `tfdist-cli`; the distribution `tfdist` leaves them out."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TOOLS = ("cli", "client", "convert", "local")


class Tools(BuildHookInterface[Any]):
    """The files are next to this distribution's folder, where only a hook may take them from."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the tools, except in an editable installation: there `tfdist` is the folder with all of it."""
        if version != "editable":
            build_data["force_include"] |= {f"../tfdist/{name}": f"tfdist/{name}" for name in TOOLS}
