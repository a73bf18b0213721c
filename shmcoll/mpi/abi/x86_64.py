"""The machine code of the library for x86-64 (`machine.py` says what the parts do)."""

import struct

from shmcoll.mpi.abi.machine import Machine, Places


class _X86Code(bytearray):
    """Instructions, one after the other, from an address on."""

    def __init__(self, at: int):
        self._at = at

    def put(self, code: str) -> None:
        self += bytes.fromhex(code)

    def put_to(self, code: str, target: int) -> None:
        """Write an instruction that ends with the distance of its target."""
        self.put(code)
        self += struct.pack("<i", target - (self._at + len(self) + 4))


_CALL, _ARGUMENT = "ff15", "488d3d"  # call *x(%rip); lea x(%rip), %rdi


class X86(Machine):
    number, relative, symbol = 62, 8, 6

    def jump(self, at: int, slot: int) -> bytes:
        code = _X86Code(at)
        code.put_to("ff25", slot)  # jmp *slot(%rip)
        return bytes(code)

    def later(self, at: int, number: int, resolve: int) -> bytes:
        code = _X86Code(at)
        code += b"\x68" + struct.pack("<I", number)  # push
        code.put_to("e9", resolve)  # jmp
        return bytes(code)

    def succeed(self, _at: int, _places: Places) -> bytes:
        return bytes.fromhex("31c0 c3")  # xor %eax, %eax; ret

    def store_1(self, _at: int, _places: Places) -> bytes:
        return bytes.fromhex("c70701000000 31c0 c3")  # movl $1, (%rdi); xor %eax, %eax; ret

    def copy_attribute(self, _at: int, _places: Places) -> bytes:
        return bytes.fromhex("498908 41c70101000000 31c0 c3")  # mov %rcx, (%r8); movl $1, (%r9); xor %eax, %eax; ret

    def resolve(self, at: int, places: Places) -> bytes:
        code = _X86Code(at)
        code.put("57 56 52 51 4150 4151")  # push %rdi, %rsi, %rdx, %rcx, %r8, %r9
        code.put("8b7c2430")  # mov 48(%rsp), %edi
        code.put_to(_CALL, places["resolver"])
        code.put("4159 4158 59 5a 5e 5f 58")  # pop them, and %rax
        code.put_to("4c8d1d", places["table"])  # lea table(%rip), %r11
        code.put("41ff24c3")  # jmp *(%r11, %rax, 8)
        return bytes(code)

    def fail(self, at: int, places: Places) -> bytes:
        code = _X86Code(at)
        code.put("bf01000000")  # mov $1, %edi
        code.put_to("488d35", places["failure"])  # lea failure(%rip), %rsi
        code.put("31c0")  # xor %eax, %eax
        code.put_to(_CALL, places["errx"])
        return bytes(code)

    def start(self, at: int, places: Places) -> bytes:
        code = _X86Code(at)
        code.put("50")  # push %rax
        code.put_to(_ARGUMENT, places["home"])
        code.put_to(_CALL, places["putenv"])
        code.put("31ff")  # xor %edi, %edi
        code.put_to(_CALL, places["Py_InitializeEx"])
        code.put_to(_ARGUMENT, places["beginning"])
        code.put_to(_CALL, places["PyRun_SimpleString"])
        code.put_to(_CALL, places["PyEval_SaveThread"])
        code.put("58 c3")  # pop %rax; ret
        return bytes(code)

    def boot(self, at: int, places: Places) -> bytes:
        code = _X86Code(at)
        code.put("53 55 50 89fb")  # push %rbx, %rbp, %rax; mov %edi, %ebx
        code.put_to("488b05", places["Py_IsInitialized"])  # mov Py_IsInitialized(%rip), %rax
        code.put("4885c0")  # test %rax, %rax
        code.put_to("0f84", places["fail"])  # jz
        code.put("ffd0 85c0 7505")  # call *%rax; test %eax, %eax; jnz behind the next
        code.put_to("e8", places["start"])  # call
        code.put_to(_CALL, places["PyGILState_Ensure"])
        code.put("89c5")  # mov %eax, %ebp
        code.put_to(_ARGUMENT, places["text"])
        code.put_to(_CALL, places["PyRun_SimpleString"])
        code.put("85c0")  # test %eax, %eax
        code.put_to("0f85", places["fail"])  # jnz
        code.put("89ef")  # mov %ebp, %edi
        code.put_to(_CALL, places["PyGILState_Release"])
        code.put("89df 58 5d 5b")  # mov %ebx, %edi; pop %rax, %rbp, %rbx
        code.put_to("ff25", places["resolver"])  # jmp *resolver(%rip)
        return bytes(code)
