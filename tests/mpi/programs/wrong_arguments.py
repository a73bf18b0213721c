"""A program: calls the functions of MPI with arguments of which some are wrong, by the library, as C does.

    python wrong_arguments.py NOTE each PATTERN
    python wrong_arguments.py NOTE random SEED CALLS

It writes each call into the file NOTE before it makes it, for the case that the process dies in it. It prints what is
not as it shall be, and at the end how many calls it has made. With `each` it replaces each argument of the functions
whose names fit a pattern by each wrong value of its kind; with `random`, several at once, at random.
"""

import ctypes
import os
import random
import re
import resource
import sys
import tempfile
from pathlib import Path

import shmcoll.mpi  # noqa: F401
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.facts import FUNCTIONS

LIBRARY = ctypes.CDLL(os.environ["MPI4PY_LIBMPI"])
ROOM = 1 << 12
IN_PLACE = -1
#: functions that are not called: they begin MPI, or end it, a communicator or the process
LEFT_OUT = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Abort", "MPI_Pcontrol", "MPIX_Comm_revoke"}
#: pointers that may be null, by function (a pattern) and argument
MAY_BE_NULL = [
    ("((Comm|Session)_attach_buffer|Buffer_attach|Win_create|Win_attach|Win_detach)", "buffer|base"),
    (".*", "extra_state|attribute_val|location|status|(array_of_)?statuses|.*_fn|.*_function|array_of_errcodes|argv"),
    ("Abi_get_fortran_booleans", "logical_.*"),
    ("Mrecv", "buf"),  # of a message of nobody
    ("Exscan.*|Iexscan", "recvbuf"),  # of rank 0
    ("File_.*_end|Graph_create|Graph_map", "buf|edges|indx"),
    ("Info_get_string|Session_get_nth_pset", "buflen|value|pset_name"),
    ("Type_get_contents", "array_of_.*"),
    ("Free_mem|Get_address|F_sync_reg", "base|location|buf"),
]
HANDLES = {
    "MPI_Comm": "COMM", "MPI_Group": "GROUP", "MPI_Datatype": "DATATYPE", "MPI_Errhandler": "ERRHANDLER",
    "MPI_Op": "OP", "MPI_Info": "INFO", "MPI_Win": "WIN", "MPI_Request": "REQUEST", "MPI_Session": "SESSION",
    "MPI_Message": "MESSAGE", "MPI_File": "FILE",
}  # fmt: skip
NUMBERS = {
    "int": ctypes.c_int,
    "MPI_Fint": ctypes.c_int,
    "MPI_Aint": ctypes.c_ssize_t,
    "MPI_Count": ctypes.c_longlong,
    "MPI_Offset": ctypes.c_longlong,
    "double": ctypes.c_double,
}
nothing = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
NOTHING = ctypes.cast(nothing, ctypes.c_void_p).value


class Argument:
    """kind: handle, number, array of handles or numbers, text, function, status or memory."""

    def __init__(self, text: str):
        found = re.match(r"(const )?(\w+) (\**) ?(\w*)((?:\[\d*\])*)$", text)
        assert found, text
        self.type, self.name = found[2], found[4]
        self.pointers = len(found[3]) + found[5].count("[")
        self.is_handle = self.type in HANDLES
        self.is_output = self.pointers == 1 and not found[1] and not found[5]
        if not self.pointers:
            self.kind = "handle" if self.is_handle else "number"
        elif "unction" in self.type:
            self.kind = "function"
        else:
            self.kind = {"char": "text", "MPI_Status": "status", "void": "memory"}.get(self.type, "array")

    @property
    def ctype(self):
        if self.pointers or self.type == "MPI_File":
            return ctypes.c_size_t
        return NUMBERS.get(self.type, ctypes.c_int)


class Objects:
    """Good handles, freed ones, and memory for pointers."""

    def __init__(self, folder: str):
        self.path = os.fsencode(Path(folder) / "file")
        self.memory = ctypes.create_string_buffer(20 * ROOM)
        self.good: dict[str, int] = {}
        self.freed = {kind: self._free(kind, self.make(kind)) for kind in HANDLES if kind != "MPI_Message"}
        self.freed["MPI_Message"] = c["MPI_MESSAGE_NULL"] + 5

    def make(self, kind: str) -> int:
        made = (ctypes.c_size_t if kind == "MPI_File" else ctypes.c_int)(0)
        out, own = ctypes.byref(made), c["MPI_COMM_SELF"]
        calls = {
            "MPI_Comm": lambda: LIBRARY.MPI_Comm_dup(own, out),
            "MPI_Group": lambda: LIBRARY.MPI_Comm_group(own, out),
            "MPI_Datatype": lambda: LIBRARY.MPI_Type_dup(c["MPI_INT"], out) or LIBRARY.MPI_Type_commit(out),
            "MPI_Errhandler": lambda: LIBRARY.MPI_Comm_create_errhandler(nothing, out),
            "MPI_Op": lambda: LIBRARY.MPI_Op_create(nothing, 1, out),
            "MPI_Info": lambda: LIBRARY.MPI_Info_create(out),
            "MPI_Win": lambda: LIBRARY.MPI_Win_create(
                self.memory, ctypes.c_ssize_t(64), 1, c["MPI_INFO_NULL"], own, out
            ),
            "MPI_Request": lambda: LIBRARY.MPI_Grequest_start(nothing, nothing, nothing, None, out)
            or LIBRARY.MPI_Grequest_complete(made),
            "MPI_Session": lambda: LIBRARY.MPI_Session_init(c["MPI_INFO_NULL"], c["MPI_ERRORS_RETURN"], out),
            "MPI_File": lambda: LIBRARY.MPI_File_open(
                own, self.path, c["MPI_MODE_RDWR"] | c["MPI_MODE_CREATE"], c["MPI_INFO_NULL"], out
            ),
        }  # fmt: skip
        assert calls[kind]() == 0, kind
        if kind in ("MPI_Comm", "MPI_Win"):
            getattr(LIBRARY, f"{kind}_set_errhandler")(made, c["MPI_ERRORS_RETURN"])
        return made.value

    def _free(self, kind: str, handle: int) -> int:
        place = (ctypes.c_size_t if kind == "MPI_File" else ctypes.c_int)(handle)
        names = {"MPI_Session": "MPI_Session_finalize", "MPI_File": "MPI_File_close", "MPI_Datatype": "MPI_Type_free"}
        assert getattr(LIBRARY, names.get(kind, f"{kind}_free"))(ctypes.byref(place)) == 0, kind
        return handle

    def valid(self, kind: str) -> int:
        """Return a good handle."""
        fixed = {"MPI_Comm": "SELF", "MPI_Message": "NO_PROC"}
        if kind in fixed:
            return c[f"{kind.upper()}_{fixed[kind]}"]
        if kind not in self.good:
            self.good[kind] = self.make(kind)
        return self.good[kind]


def right(argument: Argument, place: int, objects: Objects) -> int:
    """Return a value that may be right. place: the address of memory for it."""
    if argument.kind == "handle":
        return objects.valid(argument.type)
    if argument.kind == "number":
        return 1
    if argument.kind == "function":
        return NOTHING
    data = b"\0" * ROOM
    if argument.kind == "text":
        data = b"name\0"
    elif argument.is_handle and argument.pointers == 1:
        length = 8 if argument.type == "MPI_File" else 4
        data = objects.valid(argument.type).to_bytes(length, "little", signed=True) * 8
    elif re.search("counts|lengths|degrees", argument.name):
        data = (b"\1" + b"\0" * (ctypes.sizeof(NUMBERS[argument.type]) - 1)) * 8
    ctypes.memmove(place, data, len(data))
    return place


def wrong(argument: Argument, objects: Objects, dice: random.Random) -> list[int]:
    """Return values that are wrong, or may be."""
    if argument.kind == "handle":
        null = f"MPI_{HANDLES[argument.type]}_NULL"
        others = [objects.valid(kind) for kind in HANDLES if kind != argument.type]
        pointer = id(objects) & 0x7FFFFFFF  # as Open MPI's handles are
        return [objects.freed[argument.type], c[null], dice.choice(others), pointer, -1, dice.getrandbits(31)]
    if argument.kind == "number":
        bits = 8 * ctypes.sizeof(argument.ctype) - 1
        return [-1, -3, -1 << bits, (1 << bits) - 1, dice.getrandbits(bits) | 1 << (bits - 1)]
    return [0, IN_PLACE] if argument.name in ("sendbuf", "recvbuf") else [0]


class Calls:
    def __init__(self, note: int, objects: Objects, dice: random.Random):
        self.note, self.objects, self.dice = note, objects, dice
        self.made = 0

    def make(self, name: str, arguments: list[Argument], replaced: dict[int, int]) -> None:
        """Call a function with arguments of which some are replaced."""
        start = ctypes.addressof(self.objects.memory)
        given = [right(one, start + i * ROOM, self.objects) for i, one in enumerate(arguments)]
        is_large = any(arguments[i].kind == "number" and value > 1000 for i, value in replaced.items())
        for i, one in enumerate(arguments):
            if is_large and (one.kind == "memory" or (one.kind == "array" and not one.is_output)):
                given[i] = 0  # an array may not be shorter than the program says
        for i, value in replaced.items():
            given[i] = value
        values = (f"{one.name or one.type}={value:#x}" for one, value in zip(arguments, given, strict=True))
        text = f"{name}({', '.join(values)})"
        os.pwrite(self.note, text.ljust(ROOM).encode(), 0)
        function = LIBRARY[name]  # another one each time
        function.argtypes = [one.ctype for one in arguments]
        code = function(*given)
        self.made += 1
        if FUNCTIONS[name][0] == "int" and not re.search("_(c2f|f2c|toint)$|Aint_|Query_.*support", name):
            self.check(name, text, code, [(arguments[i], value) for i, value in replaced.items()])
        for one in arguments:  # what it may have freed
            if one.is_handle and one.pointers:
                self.objects.good.pop(one.type, None)

    def check(self, name: str, text: str, code: int, replaced: list[tuple[Argument, int]]) -> None:
        if code == 0:
            for one, value in replaced:
                # Nobody's message needs no datatype, and what is in place has none of its own
                is_needed = one.kind == "handle" and not (
                    one.type == "MPI_Datatype" and ("MPI_Mrecv" in name or IN_PLACE in [value for _, value in replaced])
                )
                if is_needed and value == self.objects.freed[one.type]:
                    print("accepted a freed handle:", text)
                if one.pointers and value == 0 and len(replaced) == 1 and not self.may_be_null(name, one):
                    print("accepted a null pointer:", text)
            return
        out, length, kind = ctypes.create_string_buffer(c["MPI_MAX_ERROR_STRING"]), ctypes.c_int(), ctypes.c_int()
        LIBRARY.MPI_Error_string(code, out, ctypes.byref(length))
        LIBRARY.MPI_Error_class(code, ctypes.byref(kind))
        said = out.value.decode()
        names_one = (
            re.match(r"MPIX?_\w+(?<!_c)\b", said) or kind.value == c["MPI_ERR_OTHER"]
        )  # a text of the native interface
        if kind.value in (c["MPI_ERR_INTERN"], 0) or not names_one:
            print(f"code {code} of class {kind.value}, {said!r}: {text}")

    @staticmethod
    def may_be_null(name: str, one: Argument) -> bool:
        return any(
            re.fullmatch(f"MPIX?_({function})(_c)?", name) and re.fullmatch(names, one.name)
            for function, names in MAY_BE_NULL
        )


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    note, *options = sys.argv[1:]
    LIBRARY.MPI_Init(None, None)
    for comm in ("MPI_COMM_WORLD", "MPI_COMM_SELF"):
        LIBRARY.MPI_Comm_set_errhandler(c[comm], c["MPI_ERRORS_RETURN"])
    LIBRARY.MPI_File_set_errhandler(ctypes.c_size_t(0), c["MPI_ERRORS_RETURN"])
    functions = {name: [Argument(one) for one in text[1:]] for name, text in FUNCTIONS.items() if name not in LEFT_OUT}
    with tempfile.TemporaryDirectory() as folder:
        dice = random.Random(options[1])
        calls = Calls(os.open(note, os.O_RDWR | os.O_CREAT), Objects(folder), dice)
        if options[0] == "random":
            names = list(functions)
            for _ in range(int(options[2])):
                name = dice.choice(names)
                arguments = functions[name]
                some = dice.sample(range(len(arguments)), dice.randint(0, min(3, len(arguments))))
                wrongs = {i: dice.choice(wrong(arguments[i], calls.objects, dice)) for i in some}
                calls.make(name, arguments, wrongs)
        else:
            for name, arguments in functions.items():
                for i, one in enumerate(arguments):
                    for value in wrong(one, calls.objects, dice) if re.search(options[1], name) else ():
                        calls.make(name, arguments, {i: value})
    print(calls.made, "calls")


main()
