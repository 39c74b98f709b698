"""The site: `make docs` builds it into docs/_build/html, with warnings as errors."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "Waypost"
author = "the Waypost authors"
version = release = installed("waypost")

extensions = ["myst_parser", "sphinx.ext.autodoc", "mathml", "generated", "docstrings"]
exclude_patterns = ["_build", "notebooks"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
add_module_names = False

html_theme = "furo"
html_title = "Waypost"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
smartquotes = False
html_math_renderer = "mathml"
html_theme_options = {"navigation_with_keys": True}
