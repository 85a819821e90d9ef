"""Configuration of the documentation site that `make docs` builds (docs/adr/0026-documentation-site.md).

The source folder is the root of the repository, so that relative links between pages work on the site and in Git alike.
"""

project = "TFDist"
copyright = "the TFDist authors, Apache-2.0"  # noqa: A001  the name that Sphinx reads
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "examples/README.md",
    "crds/samples/README.md",
    "helm/tfdist-operator/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "RELEASE.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "dist", "**/__pycache__"]  # not read at all: builds and virtual environments

myst_heading_anchors = 4  # the anchors of GitHub, which links between pages use
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]  # a terminal's output is not always valid YAML or shell

html_theme = "furo"
html_title = "TFDist"
html_extra_path = ["site"]  # index.html at the top forwards to the start page
html_static_path = ["static"]
html_css_files = ["tfdist.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
