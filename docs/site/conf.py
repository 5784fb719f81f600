"""Settings of Sphinx for the site that tools/docs.sh builds. Its pages are made by tools/site_pages.py."""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))

project = "Tanada"
html_title = "Tanada"
extensions = ["breathe", "myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_static_path = [str(HERE / "static")]
html_js_files = ["sorted_tables.js"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False

# Links to headings are those of a forge.
myst_heading_anchors = 4

breathe_projects = {"tanada": os.environ["TANADA_DOXYGEN_XML"]}
breathe_default_project = "tanada"
breathe_domain_by_extension = {"h": "c", "cuh": "cpp"}

# The package is read without its compiled parts, and without the packages that it works with.
COMPILED = ["tanada._device", "tanada._native", "tanada._shmem_library"]
autodoc_mock_imports = [*COMPILED, "cuda", "cupy", "fsspec", "numba", "numpy", "torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
