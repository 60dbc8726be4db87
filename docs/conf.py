"""The site, which `nox -s docs` builds; tests/project/test_guides.py follows what pages say."""

import os
import sys
from importlib.metadata import version as version_of

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "_extensions"))

project = "nativecall"
author = "The nativecall developers"
version = release = version_of("nativecall")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["cnames", "gallery", "llms", "pagelinks", "sentences"]  # in _extensions
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_extensions", "_templates"]
# Links to headings of other pages.
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = "nativecall"
html_logo = html_favicon = "_static/logo.svg"
html_show_copyright = html_show_sphinx = False
# Versions whose sites are in directories of these names, beside this site's own.
html_context = {"default_mode": "auto", "versions": [release]}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["tables.js"]
templates_path = ["_templates"]
# All pages stand beside each page: there are few enough.
html_theme_options = {
    "show_prev_next": False,
    "logo": {"text": "nativecall", "alt_text": ""},
    "navbar_center": [],
    "navbar_end": ["version", "theme-switcher"],
    "article_header_start": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"**": ["pages"]}

# Attributes are described where the class is.
napoleon_use_ivar = True
# Options that share a description share it on the page, too.
napoleon_use_param = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# `wrap` in a docstring is a link to it.
default_role = "py:obj"
