"""`Cell`, the base of networks: calling it runs `construct`. No graph is made; everything runs as plain Python."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shmcoll.mindspore.common.parameter import Parameter


class Cell:
    """Derive from it, keep primitives, parameters and cells as attributes, define `construct`.

    Settings for gradients, precision and graphs are kept and have no other effect.
    """

    training = False
    requires_grad = False
    phase = ""

    def __init__(self, auto_prefix: bool = True, flags: dict[str, Any] | None = None):
        self._flags = dict(flags or {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.construct(*args, **kwargs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result of a call. The derived class defines it."""
        raise AttributeError("For 'Cell', the method 'construct' is not defined.")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter) and value.is_unnamed:
            value.name, value.is_unnamed = name, False
        if isinstance(value, Cell):
            value.update_parameters_name(f"{name}.")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"The '{type(self).__name__}' object has no attribute '{name}'.")

    # --- cells --------------------------------------------------------------------------------------------------------

    @property
    def cls_name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def name_cells(self) -> dict[str, "Cell"]:
        """Return the cells that are attributes, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Cell)}

    def cells(self) -> Iterable["Cell"]:
        """Return the cells that are attributes."""
        return self.name_cells().values()

    def cells_and_names(self, name_prefix: str = "") -> Iterator[tuple[str, "Cell"]]:
        """Go through this cell and all below it, with their names."""
        yield name_prefix, self
        for name, cell in self.name_cells().items():
            yield from cell.cells_and_names(f"{name_prefix}.{name}" if name_prefix else name)

    def insert_child_to_cell(self, child_name: str, child_cell: "Cell") -> None:
        """Make a cell an attribute."""
        setattr(self, child_name, child_cell)

    def apply(self, fn: Callable[["Cell"], Any]) -> "Cell":
        """Call a function with all cells below and this one, and return this one."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self

    # --- parameters ---------------------------------------------------------------------------------------------------

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Go through the parameters, with their names; `expand`: also those of the cells below."""
        seen = set()
        for prefix, cell in self.cells_and_names(name_prefix) if expand else [(name_prefix, self)]:
            for name, value in vars(cell).items():
                if isinstance(value, Parameter) and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{prefix}.{name}" if prefix else name, value

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """Go through the parameters; `expand`: also those of the cells below."""
        return (parameter for _, parameter in self.parameters_and_names(expand=expand))

    def trainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Return the parameters that require gradients."""
        return [one for one in self.get_parameters(recurse) if one.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Return the other parameters."""
        return [one for one in self.get_parameters(recurse) if not one.requires_grad]

    def parameters_dict(self, recurse: bool = True) -> dict[str, Parameter]:
        """Return the parameters by their own names."""
        return {one.name: one for one in self.get_parameters(recurse)}

    def insert_param_to_cell(self, param_name: str, param: Parameter, check_name_contain_dot: bool = True) -> None:
        """Make a parameter an attribute."""
        setattr(self, param_name, param)

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Put a prefix before the names of the parameters."""
        for parameter in self.get_parameters(recurse):
            parameter.name = prefix + parameter.name

    # --- settings -----------------------------------------------------------------------------------------------------

    def set_train(self, mode: bool = True) -> "Cell":
        """Set `training` here and in the cells below, and return self."""
        for _, cell in self.cells_and_names():
            cell.training = bool(mode)
            cell.phase = "train" if mode else "predict"
        return self

    def set_grad(self, requires_grad: bool = True) -> "Cell":
        """Set `requires_grad` and return self."""
        self.requires_grad = requires_grad
        return self

    def to_float(self, dst_type: Any) -> "Cell":
        """Return self; the element types stay."""
        return self

    def set_comm_fusion(self, fusion_type: int, recurse: bool = True) -> "Cell":
        """Return self; there is nothing to fuse."""
        return self

    def recompute(self, **kwargs: Any) -> None:
        """Do nothing: there is no backward pass."""

    def add_flags(self, **flags: Any) -> "Cell":
        """Keep settings by name, and return self."""
        vars(self).setdefault("_flags", {}).update(flags)
        return self

    def get_flags(self) -> dict[str, Any]:
        """Return the settings that `add_flags` has kept."""
        return dict(vars(self).get("_flags", {}))

    def extend_repr(self) -> str:
        """Return the text between the parentheses of a printed cell. A derived class may define it."""
        return ""

    def __repr__(self) -> str:
        inner = [f"({name}): {cell!r}".replace("\n", "\n  ") for name, cell in self.name_cells().items()]
        if not inner:
            return f"{self.cls_name}({self.extend_repr()})"
        return "\n  ".join([f"{self.cls_name}({self.extend_repr()}", *inner]) + "\n)"


class CellList(Cell):
    """Cells in a list, each an attribute named by its place: `CellList([a, b])`."""

    def __init__(self, *cells: Any):
        super().__init__()
        for cell in cells[0] if len(cells) == 1 and isinstance(cells[0], (list, tuple)) else cells:
            self.append(cell)

    def append(self, cell: Cell) -> "CellList":
        """Add a cell at the end."""
        setattr(self, str(len(self)), cell)
        return self

    def __len__(self) -> int:
        return len(self.name_cells())

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells())

    def __getitem__(self, index: int) -> Cell:
        return list(self.cells())[index]


class SequentialCell(CellList):
    """Cells that are called one after the other: `SequentialCell([a, b])`."""

    def construct(self, x: Any) -> Any:
        """Call each cell with the result of the one before it, and return the last result."""
        for cell in self.cells():
            x = cell(x)
        return x


__all__ = ["Cell", "CellList", "SequentialCell"]
