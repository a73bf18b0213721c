"""Excerpts of the source in the pages for contributors, which `docs/generate.py` cuts out of the files.

A comment names the file and what is shown; the code block below it is written anew. A function is shown with its
decorators, and with the first line of its docstring only:

    <!-- excerpt: shmcoll/collectives/all_gather.py: all_gather -->
    ```python
    ```
"""

import ast
import re
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "internals"
_EXCERPT = re.compile(r"^( *)<!-- excerpt: (\S+): (\S+) -->\n *```python\n.*?^ *```$", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, str]:
    """Return the pages that have excerpts, with the excerpts as they should be."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
    return {path: _EXCERPT.sub(_filled, text) for path, text in texts.items() if "<!-- excerpt:" in text}


def _filled(place: re.Match[str]) -> str:
    indent, file, name = place.groups()
    lines = [f"<!-- excerpt: {file}: {name} -->", "```python", *cut(ROOT / file, name).splitlines(), "```"]
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def cut(path: Path, name: str) -> str:
    """Return the source of a function, a class, an assignment or an import. name: its last definition of this name,
    with the names of the classes around it. Raises `LookupError` if the file does not define it."""
    source = path.read_text(encoding="utf-8")
    body: list[ast.stmt] = ast.parse(source).body
    *outer, last = name.split(".")
    for around in outer:
        body = _find(body, around, path).body  # type: ignore[attr-defined]
    found = _find(body, last, path)
    lines = source.splitlines()
    begin = min([found.lineno, *(one.lineno for one in getattr(found, "decorator_list", ()))]) - 1
    kept = lines[begin : found.end_lineno]
    first = found.body[0] if isinstance(found, ast.FunctionDef) else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.end_lineno != first.lineno:
        head, rest = lines[begin : first.lineno], lines[first.end_lineno : found.end_lineno]
        kept = [*head, f"{' ' * first.col_offset}...", *rest]
        kept[len(head) - 1] += '"""'
    return dedent("\n".join(kept))


def _find(body: list[ast.stmt], name: str, path: Path) -> ast.stmt:
    for statement in reversed(body):
        assigned = [*getattr(statement, "targets", ()), getattr(statement, "target", None)]
        targets = [target for target in assigned if isinstance(target, ast.Name)]
        names = [one.name for one in getattr(statement, "names", ())] + [target.id for target in targets]
        if name in (*names, getattr(statement, "name", None)):
            return statement
    raise LookupError(f"{path} does not define {name}")
