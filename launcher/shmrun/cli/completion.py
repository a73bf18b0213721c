"""Completion for bash and zsh, written from the tables of options: `shmrun --completion bash`.

A script is printed once and sourced by the shell. Completing starts no process. Libraries write such scripts from a
parser of argparse, which shmrun does not have, and go on to offer flags behind the program. The offers:

    a flag             of the command, or of its subcommand
    the value of one   one of several words; otherwise the name of a file
    the first word     the subcommands, besides files
    words behind       the program: files
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shmrun.cli.settings import SETTINGS, Setting
from shmrun.cli.subcommands import SUBCOMMANDS
from shmrun.cli.values import Wrong

SHELLS = ("bash", "zsh")


@dataclass(frozen=True)
class Flag:
    """A flag. value: the name of its value, empty for a switch. choices: the possible values."""

    names: Sequence[str]
    help: str
    value: str = ""
    choices: Sequence[str] = ()


@dataclass(frozen=True)
class Command:
    """A command. words: the possible words besides flags and files. program: flags that begin the program; None: the
    command runs no program."""

    flags: Sequence[Flag]
    words: Sequence[str] = ()
    subcommands: Mapping[str, "Command"] = field(default_factory=dict)
    program: Sequence[str] | None = None


def shmrun() -> Command:
    """Return the commands of shmrun from its tables."""
    help_flag = Flag(("-h", "--help"), "print the help")
    flags = [_flag(setting) for setting in SETTINGS.values()]
    flags += [
        Flag((f"--no-{setting.name}",), f"not --{setting.name}") for setting in SETTINGS.values() if setting.switch
    ]
    flags += [
        Flag(("-m", "--module"), "run a Python module", "MODULE"),
        Flag(("-c",), "run Python code", "CODE"),
        Flag(("--completion",), "print the completion for a shell", "SHELL", SHELLS),
        Flag(("-V", "--version"), "print the version"),
        help_flag,
    ]
    subcommands = {
        name: Command([*(Flag((flag,), text) for flag, text in entry.flags.items()), help_flag])
        for name, entry in SUBCOMMANDS.items()
    }
    return Command(flags, subcommands=subcommands, program=("-m", "--module", "-c"))


def script(shell: str, name: str, command: Command) -> str:
    """Return the script for a shell. Raises `Wrong` for an unknown shell."""
    if shell not in SHELLS:
        raise Wrong(f"{shell!r} is not one of {', '.join(SHELLS)}")
    return _bash(name, command) if shell == "bash" else _zsh(name, command)


def _flag(setting: Setting) -> Flag:
    choices = setting.metavar.split("|") if "|" in setting.metavar else ()
    names = [name for name in (setting.short, f"--{setting.name}") if name]
    return Flag(names, setting.help, "" if setting.switch else setting.metavar, choices)


# --- bash -------------------------------------------------------------------------------------------------------------

_BASH = """\
# bash completion of {name}; to use it: source <({name} --completion bash)
_{name}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command="" flags words valued i
    COMPREPLY=()
    if [[ $cur == "=" ]]; then cur=""; elif [[ $prev == "=" ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    if ((COMP_CWORD > 1)); then
        case ${{COMP_WORDS[1]}} in {subcommands}) command=${{COMP_WORDS[1]}};; esac
    fi
    case $command in
{tables}
    esac
{program}    case "$command $prev" in
{choices}
    esac
    [[ $valued == *" $prev "* ]] && return
    if [[ $cur == -* ]]; then words=$flags; fi
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o bashdefault -o default -F _{name} {name}
"""

_BASH_PROGRAM = """\
    if [[ -z $command ]]; then
        for ((i = 1; i < COMP_CWORD; i++)); do
            if [[ ${{COMP_WORDS[i]}} == "=" ]]; then ((i++))
            elif [[ " {program} -- " == *" ${{COMP_WORDS[i]}} "* || ${{COMP_WORDS[i]}} != -* ]]; then return
            elif [[ $valued == *" ${{COMP_WORDS[i]}} "* ]]; then
                if [[ ${{COMP_WORDS[i+1]}} == "=" ]]; then ((i++)); fi
                ((i++))
            fi
        done
        if ((COMP_CWORD > 1)); then words=""; fi
    fi
"""


def _bash(name: str, command: Command) -> str:
    everything = {"": command, **command.subcommands}
    tables = [_bash_table(word or '""', one) for word, one in everything.items()]
    choices = [
        f'    "{word} {flag_name}") COMPREPLY=($(compgen -W "{" ".join(flag.choices)}" -- "$cur")); return;;'
        for word, one in everything.items()
        for flag in one.flags
        for flag_name in flag.names
        if flag.choices
    ]
    return _BASH.format(
        name=name,
        subcommands="|".join(command.subcommands),
        tables="\n".join(tables),
        choices="\n".join(choices),
        program="" if command.program is None else _BASH_PROGRAM.format(program=" ".join(command.program)),
    )


def _bash_table(pattern: str, command: Command) -> str:
    flags = " ".join(name for flag in command.flags for name in flag.names)
    valued = " ".join(name for flag in command.flags if flag.value for name in flag.names)
    words = " ".join([*command.words, *command.subcommands])
    return f'    {pattern}) flags="{flags}" valued=" {valued} " words="{words}";;'


# --- zsh --------------------------------------------------------------------------------------------------------------

_ZSH = """\
#compdef {name}
# zsh completion of {name}; to use it: source <({name} --completion zsh), after compinit
_{name}() {{
    if ((CURRENT > 2)); then
        case $words[2] in
{subcommands}
        esac
    fi
    _arguments -S {arguments}
}}
if [[ $funcstack[1] == _{name} ]]; then _{name} "$@"; else compdef _{name} {name}; fi
"""


def _zsh(name: str, command: Command) -> str:
    below = [
        f"        ({word}) shift words; ((CURRENT--)); _arguments -S {_zsh_arguments(one)}; return;;"
        for word, one in command.subcommands.items()
    ]
    return _ZSH.format(name=name, subcommands="\n".join(below), arguments=_zsh_arguments(command))


def _zsh_arguments(command: Command) -> str:
    """Return the words for zsh's `_arguments`: a specification for each flag, then the other words."""
    specifications = [_zsh_flag(flag, name) for flag in command.flags for name in flag.names]
    words = " ".join([*command.words, *command.subcommands])
    offered = f'_alternative "words:word:({words})" "files:file:_files"' if words else "_files"
    if command.program is None:
        specifications.append(f"*:word:{offered}")
    else:  # flags behind the first word are not ours
        specifications += [f"(-)1:program:{offered}", "*::arguments:_files"]
    return " ".join(_quoted(one) for one in specifications)


def _zsh_flag(flag: Flag, name: str) -> str:
    others = f"({' '.join(flag.names)})" if len(flag.names) > 1 else ""
    text = flag.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    if not flag.value:
        return f"{others}{name}[{text}]"
    action = f"({' '.join(flag.choices)})" if flag.choices else "_files"
    joined = "=" if name.startswith("--") else "+"
    return f"{others}{name}{joined}[{text}]:{flag.value.replace(':', ' ')}:{action}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
