"""How the site is built: `make docs` writes build/site, without network."""

import os
import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two examples run at a time
warnings.filterwarnings("ignore", module="sphinx")

import pages

pages.write_all(HERE)

project = "fairpca"
author = "The fairpca developers"
copyright = "the fairpca developers"
version = release = version_of("fairpca")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/GALLERY_HEADER.rst"]
templates_path = ["templates"]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[\\/]plot_",
    "ignore_pattern": r"^(?!plot_)",
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "plot_gallery": True,
    "parallel": 2,
    "within_subsection_order": "pages.ExampleOrder",
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "fairpca"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "secondary_sidebar_items": {  # pages of wide tables take the whole width
        "**": ["page-toc"],
        **{page: [] for page in pages.WIDE},
    },
    "header_links_before_dropdown": 6,
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system has it
html_sidebars = {"index": [], "faq": [], "citing": []}
suppress_warnings = ["config.cache", "misc.highlighting_failure"]


def setup(app):
    """Lead links to examples, as the repository has them, to their pages in the gallery."""
    app.connect("source-read", pages.to_gallery)
