# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The settings of Sphinx for tools/docs/site.py."""

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "repro-mlir"
copyright = "the authors of repro-mlir, Apache License v2.0 with LLVM Exceptions"
root_doc = "index"
extensions = ["myst_parser"]
myst_heading_anchors = 6
# Pages that mlir-tblgen generates omit levels of headings.
suppress_warnings = ["myst.header"]
html_theme = "furo"
html_title = "repro-mlir"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
highlight_language = "text"
# Two hyphens begin an option, they are not a dash.
smartquotes = False


def setup(app: Sphinx) -> None:
    app.add_lexer("mlir", TextLexer)
