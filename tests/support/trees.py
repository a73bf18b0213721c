"""Syntax trees of sources for tests that look at many of them: each file is parsed once in a process, and each tree
walked once."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the tree of a file. The garbage collector would look at all trees again and again meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_bytes())
    finally:
        if collects:
            gc.enable()


@cache
def walk(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree, as `ast.walk` does."""
    return tuple(ast.walk(tree))
