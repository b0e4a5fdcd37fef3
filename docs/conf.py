"""How the site is built: `make docs` writes build/site/index.html."""

import os
import shutil
from pathlib import Path

import click

import elmfield
from elmfield.cli import cli

HERE = Path(__file__).parent
RUN = HERE.parent / "build" / "scripts"

# Scripts run, and write their files, in a new copy of their folders: some do not overwrite.
shutil.rmtree(RUN, ignore_errors=True)
for folder in ("tutorials", "gallery"):
    shutil.copytree(HERE / folder, RUN / folder, dirs_exist_ok=True)
os.environ.setdefault("MPLBACKEND", "agg")


def help_of(command, name, parent=None):
    """Return the context of a command and its help as a block of Markdown."""
    settings = {**cli.context_settings, "info_name": name, "parent": parent, "terminal_width": 88}
    with click.Context(command, **settings) as context:
        return context, f"```text\n{command.get_help(context).rstrip()}\n```\n"


top, text = help_of(cli, "elmfield")
pages = [
    "# The command line\n",
    "The output of `elmfield --help` and `elmfield COMMAND --help`.\n",
    text,
]
for name in cli.list_commands(top):
    command = cli.get_command(top, name)
    pages += [f"## elmfield {name}\n", help_of(command, name, top)[1]]
MADE = HERE / "made"
MADE.mkdir(exist_ok=True)
(MADE / "commands.md").write_text("\n".join(pages), "utf-8")

project = "elmfield"
author = "The elmfield developers"
copyright = author
version = release = elmfield.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network, when the pages are read too
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["tutorials", "gallery", "made/**/*.ipynb", "made/**/*.py"]
rst_prolog = ".. currentmodule:: elmfield\n"
default_role = "py:obj"  # `name` in a docstring links to its page if there is one

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"elmfield {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "monokai"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # docstrings have them
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False
napoleon_use_ivar = True

sphinx_gallery_conf = {
    "examples_dirs": [str(RUN / folder) for folder in ("tutorials", "gallery")],
    "gallery_dirs": ["made/tutorials", "made/gallery"],
    "filename_pattern": r"\.py$",  # all of them run
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": "matplotlib",
    "image_srcset": ["2x"],
}
