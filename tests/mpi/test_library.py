"""The shared library that our writer makes, read as the dynamic linker reads it, for both architectures."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shmcoll.mpi.abi import library, loaded
from shmcoll.mpi.abi.facts import NAMES
from shmcoll.mpi.abi.machine import CALLED, STUB
from tests.mpi import elf
from tests.mpi.aarch64_steps import Outside, Processor

HOST = library.Host("/opt/python/lib/libpython3.99.so.1.0", "/opt/python", "import sys")
MACHINES = {"x86_64": (62, 8, 6), "aarch64": (183, 1027, 1025)}  # in ELF; R_RELATIVE; R_GLOB_DAT


@pytest.fixture(params=[(machine, host) for machine in MACHINES for host in (None, HOST)], ids=str)
def made(request: pytest.FixtureRequest) -> tuple[str, elf.Elf, library.Host | None]:
    machine, host = request.param
    return machine, elf.Elf(library.image(machine=machine, host=host)), host


def test_segments_can_be_mapped_and_no_memory_is_written_and_executed(made) -> None:
    machine, image, _ = made
    assert (image.kind, image.machine) == (3, MACHINES[machine][0])
    loaded = [one for one in image.segments if one.kind == elf.LOAD]
    assert [one.flags for one in loaded] == [
        elf.READABLE,
        elf.READABLE | elf.EXECUTABLE,
        elf.READABLE | elf.WRITABLE,
    ]
    for one, following in zip(loaded, [*loaded[1:], None], strict=True):
        assert one.alignment == library.PAGE and one.offset % library.PAGE == one.address % library.PAGE
        assert one.length == one.memory and one.offset + one.length <= len(image.data)
        assert following is None or -(-(one.address + one.memory) // library.PAGE) * library.PAGE <= following.address
    stack = [one.flags for one in image.segments if one.kind == elf.STACK]
    assert stack == [elf.READABLE | elf.WRITABLE]  # without it, the stacks of the process become executable


def test_every_name_is_found_and_no_other(made) -> None:
    _, image, host = made
    assert image.name(elf.SONAME) == "libmpi.so.12"
    assert [image.text(image.tags[elf.STRTAB] + at) for tag, at in image.entries if tag == elf.NEEDED] == (
        [host.library] if host else []
    )
    code = next(one for one in image.segments if one.kind == elf.LOAD and one.flags & elf.EXECUTABLE)
    for name in NAMES:
        one, same = image.find(name), image.find(f"P{name}")
        assert one and same and one.address == same.address and one.is_defined and not one.is_weak
        assert code.address <= one.address < one.address + STUB <= code.address + code.length
    for name in CALLED:
        one = image.find(name)
        assert one and one.is_weak and not one.is_defined
    assert image.find("MPI_") is None and image.find("") is None and image.find("QMPI_Send") is None


def test_slots_and_pointers_have_relocations(made) -> None:
    machine, image, _ = made
    _, relative, symbol = MACHINES[machine]
    found = image.relocations()
    first = image.tags[elf.RELACOUNT]
    assert {kind for _, kind, _, _ in found[:first]} == {relative}
    assert {kind for _, kind, _, _ in found[first:]} == {symbol}
    assert sorted(image.symbol(number).name for _, _, number, _ in found[first:]) == sorted(CALLED)
    targets = {at: addend for at, _, _, addend in found[:first]}
    table = image.find(library.TABLE)
    assert table and table.length == 8 * len(NAMES)
    code = next(one for one in image.segments if one.kind == elf.LOAD and one.flags & elf.EXECUTABLE)
    later = [targets[table.address + 8 * i] for i in range(len(NAMES))]
    assert len(set(later)) == len(NAMES)
    for at in (*later, targets[image.find(library.RESOLVER).address]):  # type: ignore[union-attr]
        assert code.address <= at < code.address + code.length
    words = next(one for one in image.segments if one.kind == elf.LOAD and one.flags & elf.WRITABLE)
    assert all(words.address <= at < at + 8 <= words.address + words.length for at, *_ in found)


def _slot_of_x86(image: elf.Elf, at: int) -> int:
    assert image.word(at, "<H") == 0x25FF  # jmp *x(%rip)
    return at + 6 + image.word(at + 2, "<i")


def _number_of_x86(image: elf.Elf, at: int) -> tuple[int, int]:
    assert (image.word(at, "<B"), image.word(at + 5, "<B")) == (0x68, 0xE9)  # push; jmp
    return image.word(at + 1, "<I"), at + 10 + image.word(at + 6, "<i")


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _slot_of_arm(image: elf.Elf, at: int) -> int:
    load, branch = image.word(at, "<I"), image.word(at + 4, "<I")
    assert load & 0xFF00001F == 0x58000010 and branch == 0xD61F0200  # ldr x16, x; br x16
    return at + 4 * _signed(load >> 5 & 0x7FFFF, 19)


def _number_of_arm(image: elf.Elf, at: int) -> tuple[int, int]:
    number, branch = image.word(at, "<I"), image.word(at + 4, "<I")
    assert number & 0xFFE0001F == 0x52800011 and branch >> 26 == 5  # mov w17, #number; b
    return number >> 5 & 0xFFFF, at + 4 + 4 * _signed(branch & 0x3FFFFFF, 26)


_READERS: dict[str, tuple[Callable[..., int], Callable[..., tuple[int, int]]]] = {
    "x86_64": (_slot_of_x86, _number_of_x86),
    "aarch64": (_slot_of_arm, _number_of_arm),
}


def test_a_function_goes_to_its_slot_and_the_slot_to_the_resolver_with_its_number(made) -> None:
    machine, image, _ = made
    slot, number = _READERS[machine]
    table = image.find(library.TABLE)
    targets = {at: addend for at, _, _, addend in image.relocations()}
    resolvers = set()
    for i, name in enumerate(NAMES):
        at = slot(image, image.find(name).address)  # type: ignore[union-attr]
        assert at == table.address + 8 * i  # type: ignore[union-attr]
        told, resolver = number(image, targets[at])
        assert told == i
        resolvers.add(resolver)
    assert len(resolvers) == 1


class _Process:
    """A process of AArch64 that has loaded the image, with a CPython of the test's."""

    def __init__(self, has_python: bool = True, is_running: bool = False, can_import: bool = True):
        self.image = elf.Elf(library.image(machine="aarch64", host=HOST))
        self.calls: list[tuple[str, str]] = []
        words = {at: addend for at, kind, _, addend in self.image.relocations() if kind == 1027}
        self.resolver = self.image.find(library.RESOLVER).address  # type: ignore[union-attr]
        outside: dict[int, Outside] = {_FUNCTION: lambda *_: 0, _RESOLVE: self.fill}
        results = {"Py_IsInitialized": int(is_running), "PyGILState_Ensure": 7, "PyRun_SimpleString": 0}
        for number, (at, kind, symbol, _) in enumerate(self.image.relocations()):
            if kind == 1025:
                name = self.image.symbol(symbol).name
                words[at] = _OTHERS + number if has_python or not name.startswith("Py") else 0
                outside[_OTHERS + number] = self._called(name, results.get(name, 0), can_import)
        self.processor = Processor(self.image, words, outside)

    def fill(self, slot: int, _: int) -> int:
        """Be the resolver."""
        self.processor.words[self.image.find(library.TABLE).address + 8 * slot] = _FUNCTION  # type: ignore[union-attr]
        return 0

    def _called(self, name: str, result: int, can_import: bool) -> Outside:
        def call(first: int, second: int) -> int:
            is_text = name in ("putenv", "PyRun_SimpleString")
            self.calls.append((name, self.image.text(first) if is_text else str(first)))
            if name == "errx":
                raise ChildProcessError(self.image.text(second))
            if name == "PyRun_SimpleString" and "shmcoll.mpi" in self.calls[-1][1]:
                self.processor.words[self.resolver] = _RESOLVE
                return 0 if can_import else (1 << 32) - 1
            return result

        return call

    def call(self, name: str) -> int:
        """Call a function of MPI with eight arguments. Returns where that goes; everything is as the caller left it."""
        before = list(self.processor.registers)
        to = self.processor.run(self.image.find(name).address)  # type: ignore[union-attr]
        kept = [*range(8), *range(19, 32)]
        assert [self.processor.registers[i] for i in kept] == [before[i] for i in kept]
        return to


_FUNCTION, _RESOLVE, _OTHERS = 0xA0000, 0xB0000, 0xC0000


def test_on_aarch64_the_resolver_gets_the_number_and_the_function_its_arguments() -> None:
    process = _Process()
    asked: list[int] = []
    process.processor.words[process.resolver] = _RESOLVE

    def resolve(slot: int, more: int) -> int:
        asked.append(slot)
        return process.fill(slot, more) if len(asked) > 1 else 0  # the first time it is kept from it

    process.processor.outside[_RESOLVE] = resolve
    assert process.call("MPI_Send") == process.call("PMPI_Wtime") == process.call("MPI_Send") == _FUNCTION
    send, wtime = (NAMES.index(f"MPI_{name}") for name in ("Send", "Wtime"))
    assert asked == [send, send, wtime]


def test_on_aarch64_the_first_call_begins_an_interpreter() -> None:
    process = _Process()
    assert process.call("MPI_Init") == _FUNCTION
    names = [name for name, _ in process.calls]
    assert names == [
        *("Py_IsInitialized", "putenv", "Py_InitializeEx", "PyRun_SimpleString", "PyEval_SaveThread"),
        *("PyGILState_Ensure", "PyRun_SimpleString", "PyGILState_Release"),
    ]
    given = [given for _, given in process.calls]
    assert given[1:4] == ["PYTHONHOME=/opt/python", "0", "import sys"] and given[-1] == "7"
    assert process.call("MPI_Comm_rank") == _FUNCTION and len(process.calls) == len(names)


def test_on_aarch64_an_interpreter_that_runs_is_kept() -> None:
    process = _Process(is_running=True)
    assert process.call("MPI_Init") == _FUNCTION
    names = [name for name, _ in process.calls]
    assert names == ["Py_IsInitialized", "PyGILState_Ensure", "PyRun_SimpleString", "PyGILState_Release"]


@pytest.mark.parametrize("lacks", ["has_python", "can_import"])
def test_on_aarch64_a_program_that_gets_no_python_ends_with_a_line(lacks: str) -> None:
    process = _Process(**{lacks: False})
    with pytest.raises(ChildProcessError, match="got no Python; start it with shmrun --mpi"):
        process.call("MPI_Init")
    assert process.calls[-1] == ("errx", "1")


def test_another_machine_is_refused_in_a_line() -> None:
    with pytest.raises(NotImplementedError, match="run on x86_64 and aarch64, and this machine is a riscv64"):
        library.image(machine="riscv64")


def test_a_file_that_is_damaged_or_open_to_others_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(loaded, "PACKAGED", tmp_path / "none")
    path = loaded.library_file()
    assert path.read_bytes() == loaded.sealed() and loaded.library_file(HOST) != path
    whole, wrong = path.read_bytes(), bytes([path.read_bytes()[0] ^ 1])
    for spoil in (
        lambda: path.write_bytes(wrong + whole[1:]),
        lambda: path.write_bytes(whole[:-1]),
        lambda: path.write_bytes(loaded.sealed(HOST)),  # whole, and of something else
        lambda: path.chmod(0o666),
        lambda: (path.unlink(), path.symlink_to(loaded.library_file(HOST))),
    ):
        spoil()
        assert loaded.library_file() == path and path.read_bytes() == whole
        assert path.stat().st_mode & 0o777 == 0o600 and not path.is_symlink()
    path.parent.chmod(0o777)
    with pytest.raises(PermissionError, match="chmod go-w"):
        loaded.library_file()


LOADED = """
import ctypes, re
import shmcoll.mpi
flags = [line.split()[1] for line in open("/proc/self/maps") if "[stack]" in line or "libmpi" in line]
print(flags)
"""


def test_the_process_has_no_memory_to_write_and_execute_after_loading() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    flags = re.findall(r"'([rwxp-]+)'", done.stdout)
    assert len(flags) >= 4 and not any("w" in one and "x" in one for one in flags), done.stdout
