#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print the manual page or the bash completion of triagectl, from its own argument parser.

describe.py man FOLDER VERSION SECONDS   FOLDER contains triagectl/, SECONDS since 1970 is the date
describe.py bash FOLDER
"""

import argparse
import datetime
import importlib
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

#: For each metavar, a shell command that prints possible values, one a line. $word is the value
#: typed so far, without its quotes. `command` and `builtin` bypass functions and aliases of the
#: user, such as ls='ls -F'.
VALUES = {
    "DISK": "command ls /sys/block",
    "PID": "builtin cd /proc && builtin printf '%s\\n' [0-9]*",
    "FILE": 'compgen -f -- "$word"',
    "UNIT": "command systemctl list-units --plain --no-legend | command cut -d' ' -f1",
    "NAME": (
        "command cat /sys/block/*/queue/scheduler 2> /dev/null | command tr -d '[]' | "
        "command tr ' ' '\\n'"
    ),
}

#: The durations to offer for an option, except those that it refuses.
TIMES = ("10s", "30s", "2m", "10m", "1h")

#: Shell commands that split the line up to the cursor into words. They set
#: $word      the word typed so far, without its quotes, and without the option in --option=value
#: $prefix    that option with its `=`, or nothing
#: $previous  the option, or else the word before
#: $quote     the quote that is open, or nothing
#: $kept      the start of the word, which readline keeps. readline replaces only the rest ($2),
#:            because for readline a character such as @ or = ends a word
#: COMP_WORDS has only pieces of the word: bash, too, breaks the line at these characters.
TYPED = r"""	local line=${COMP_LINE:0:COMP_POINT} IFS=$' \t\n'
	local word= prefix= previous= quote= kept= at char next start=$((${#line} - ${#2}))
	for ((at = 0; at <= ${#line}; at++)); do
		((at == start)) && kept=$word
		char=${line:at:1} next=${line:at+1:1}
		if [[ $quote && $char == "$quote" ]]; then
			quote=
		elif [[ ! $quote && $char == [\"\'] ]]; then
			quote=$char
		elif [[ $char == \\ && ($quote != [\"\'] || $quote$next == \"[\"\\\$\`]) ]]; then
			word+=$next
			((at++))
		elif [[ ! $quote && $char == [[:blank:]] ]]; then
			previous=${word:-$previous} word=
		else
			word+=$char
		fi
	done
	if [[ $word == --*=* ]]; then
		prefix=${word%%=*}=
		word=${word#"$prefix"} previous=${prefix%=}
	fi"""

#: The shell function that completes $word with lines of its input. `compgen -W` would expand these
#: once more: `a\x2db.slice` would become `ax2db.slice`. The function quotes a completed word as the
#: command line needs it. With `files`, readline quotes the word, and also completes inside folders.
WORDS = r"""	_triagectl_words() {
		COMPREPLY=()
		[[ ${1-} == files ]] && compopt -o filenames
		while IFS= read -r line; do
			[[ $line && $line == "$word"* ]] || continue
			line=$prefix$line
			line=${line#"$kept"}
			case ${1-}$quote in
			files*) ;;
			\")
				line=${line//\\/\\\\} line=${line//\"/\\\"}
				line=${line//\$/\\\$} line=${line//\`/\\\`}
				# In double quotes, a backslash before ! would stay in the word. So end the quotes.
				line=${line//!/\"\\!\"}
				;;
			\') line=${line//\'/\'\\\'\'} ;;
			*) [[ $line ]] && builtin printf -v line %q "$line" ;;
			esac
			COMPREPLY+=("$line")
		done
	}"""


class Commands:
    """The commands that a parser's help shows, each with its own parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        """Read the parser."""
        self.parser = parser
        (self._group,) = (
            action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
        )
        self.help = {action.dest: action.help or "" for action in self._group._choices_actions}

    def of(self, name: str) -> argparse.ArgumentParser:
        """Return the parser of one command."""
        found: argparse.ArgumentParser = self._group.choices[name]
        return found


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments of a command line, without the commands and hidden options."""
    return [
        action
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction) and action.help != argparse.SUPPRESS
    ]


def value_of(action: argparse.Action) -> str:
    """Return the name of an option's or argument's value, empty for a switch."""
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def roff(text: str) -> str:
    """Return a text escaped for a manual page."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


def described(action: argparse.Action) -> list[str]:
    """Return an argument's lines of the manual page."""
    value = value_of(action)
    if action.option_strings:
        names = ", ".join(f"\\fB{roff(name)}\\fR" for name in action.option_strings)
        head = f"{names} \\fI{roff(value)}\\fR" if value else names
    else:
        head = f"\\fI{roff(value)}\\fR"
    return [".TP", head, roff((action.help or "") % vars_of(action))]


def vars_of(action: argparse.Action) -> dict[str, object]:
    """Return the values that a help text may refer to, with argparse's names for them."""
    return {"default": action.default, "metavar": action.metavar, "prog": "triagectl"}


def usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage in one line."""
    return " ".join(parser.format_usage().removeprefix("usage: ").split())


def manual(parser: argparse.ArgumentParser, version: str, seconds: int) -> str:
    """Return the manual page."""
    commands = Commands(parser)
    day = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).date().isoformat()
    summary = (parser.description or "").rstrip(".")
    lines = [
        '.\\" SPDX-License-Identifier: GPL-2.0-only',
        f'.TH TRIAGECTL 8 "{day}" "triage {version}" "System administration"',
        ".SH NAME",
        f"triagectl \\- {roff(summary[:1].lower() + summary[1:])}",
        ".SH SYNOPSIS",
        f".B {roff(usage(parser))}",
        ".SH OPTIONS",
    ]
    for action in arguments(parser):
        lines += described(action)
    lines.append(".SH COMMANDS")
    for name in commands.help:
        command = commands.of(name)
        lines += [f".SS {name}", f".B {roff(usage(command))}", ".PP"]
        lines.append(roff(command.description or commands.help[name]))
        for action in arguments(command):
            lines += described(action)
    lines += [
        ".SH EXIT STATUS",
        "0: done. 1: failed. 2: the request made no sense. 130: interrupted.",
        ".SH SEE ALSO",
        ".BR ionice (1),",
        ".BR udevadm (8),",
        "/usr/share/doc/triage\\-dkms/operate.md",
    ]
    return "\n".join(lines) + "\n"


def offer(command: str, *kind: str) -> str:
    """Return the shell command that completes with the lines that another command prints."""
    return " ".join(["_triagectl_words", *kind, f"< <({command})"])


def offer_value(value: str) -> str:
    """Return the shell command that completes values of the kind `value`, a key of VALUES."""
    return offer(VALUES[value], *(["files"] if value == "FILE" else []))


def offer_words(words: Iterable[object]) -> str:
    """Return the shell command that completes with some words."""
    return offer("builtin printf '%s\\n' " + " ".join(shlex.quote(str(word)) for word in words))


def takes(action: argparse.Action, text: str) -> bool:
    """Return whether an option takes this value."""
    if not callable(action.type):
        return True
    try:
        action.type(text)
    except argparse.ArgumentTypeError:
        return False
    return True


def after(name: str, action: argparse.Action) -> list[str]:
    """Return the branch of a shell's `case` that completes an option's value; [] for a switch."""
    value = value_of(action)
    if not value:
        return []
    pattern = "|".join(f'"{name} {option}"' for option in action.option_strings)
    complete = []
    if action.choices is not None:
        complete = [f"\t\t{offer_words(action.choices)}"]
    elif value == "TIME":
        times = [text for text in TIMES if takes(action, text)]
        complete = [f"\t\t{offer_words(times)}"]
    elif value in VALUES:
        complete = [f"\t\t{offer_value(value)}"]
    return [f"\t{pattern})", *complete, "\t\treturn ;;"]


def completion(parser: argparse.ArgumentParser) -> str:
    """Return the bash completion."""
    commands = Commands(parser)
    values: list[str] = []
    words: list[str] = []
    top = [option for action in arguments(parser) for option in action.option_strings]
    for name in commands.help:
        known = arguments(commands.of(name))
        options = [option for action in known for option in action.option_strings]
        for action in known:
            values += after(name, action) if action.option_strings else []
        words.append(f"\t{name}) {offer_words(options)} ;;")
        for value in dict.fromkeys(value_of(a) for a in known if not a.option_strings):
            if value in VALUES:
                words[-1:] = [
                    f"\t{name})",
                    "\t\tif [[ $word == -* ]]; then",
                    f"\t\t\t{offer_words(options)}",
                    "\t\telse",
                    f"\t\t\t{offer_value(value)}",
                    "\t\tfi ;;",
                ]
    return "\n".join(
        [
            "# SPDX-License-Identifier: GPL-2.0-only",
            "_triagectl() {",
            TYPED,
            WORDS,
            "\tif ((COMP_CWORD == 1)); then",
            f"\t\t{offer_words([*commands.help, *top])}",
            "\t\treturn",
            "\tfi",
            '\tcase "${COMP_WORDS[1]} $previous" in',
            *values,
            "\tesac",
            '\tcase "${COMP_WORDS[1]}" in',
            *words,
            "\tesac",
            "}",
            "complete -F _triagectl triagectl",
            "",
        ]
    )


def main(given: list[str]) -> int:
    """Run the program; return its exit status."""
    match given:
        case ["man", folder, version, seconds]:
            print(manual(loaded(folder), version, int(seconds)), end="")
        case ["bash", folder]:
            print(completion(loaded(folder)), end="")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


def loaded(folder: str) -> argparse.ArgumentParser:
    """Import triagectl from its parent folder, and return its argument parser."""
    sys.path.insert(0, str(Path(folder).resolve()))
    parser: argparse.ArgumentParser = importlib.import_module("triagectl.command").parser()
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
