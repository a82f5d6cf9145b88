# SPDX-License-Identifier: GPL-2.0-only
"""Test that the manual page and the completion of triagectl match its parser."""

import os
import pty
import select
import subprocess
from pathlib import Path

import pytest
from triagelab.base import tools

from tests.packaging.system import PACKAGING, ROOT, make

GROFF = tools.Tool("groff", "groff-base")

#: A command.py whose parser has each kind of argument that describe.py handles.
COMMAND = """\
import argparse

def minutes(text):
    if text.endswith("s"):
        raise argparse.ArgumentTypeError("too short")

def parser():
    made = argparse.ArgumentParser(prog="triagectl", description="See disks.")
    commands = made.add_subparsers(metavar="COMMAND")
    show = commands.add_parser("show", help="show it", description="Show one disk.")
    show.add_argument("disks", nargs="*", metavar="DISK", help="a disk, 100 %% of them")
    show.add_argument("--into", metavar="FILE", help="write it there (default: %(default)s)")
    show.add_argument("--as", choices=["text", "json"], help=".a dot comes first")
    show.add_argument("--how", choices=["a\\\\b", "a b", "$HOME"], help="C:\\\\x is a folder")
    show.add_argument("--unit", metavar="UNIT", help="a unit")
    show.add_argument("--for", type=minutes, metavar="TIME", help="as long, as 10m")
    show.add_argument("--secret", help=argparse.SUPPRESS)
    commands.add_parser("hidden")
    return made
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "triagectl").mkdir()
    (tmp_path / "triagectl/__init__.py").touch()
    (tmp_path / "triagectl/command.py").write_text(COMMAND)
    return tmp_path


def describe(*arguments: object) -> str:
    done = subprocess.run(
        ["python3", "-B", PACKAGING / "describe.py", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def complete(folder: Path, *words: str) -> list[str]:
    script = folder / "completion"
    script.write_text(describe("bash", folder))
    # Set the variables as bash does for words without a character that breaks words, such as @.
    call = f"""
        . {script}
        compopt() {{ :; }}
        COMP_WORDS=(triagectl "$@") COMP_CWORD={len(words)} COMP_LINE="triagectl $*"
        COMP_POINT=${{#COMP_LINE}}
        _triagectl triagectl "${{@: -1}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-uc", call, "bash", *words],
        cwd=folder,
        env=os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_completes_commands_options_and_values(folder: Path) -> None:
    assert complete(folder, "s") == ["show"]
    assert "hidden" not in complete(folder, "")
    assert complete(folder, "show", "--") == [
        "--help", "--into", "--as", "--how", "--unit", "--for"
    ]  # fmt: skip
    assert complete(folder, "show", "--as", "j") == ["json"]
    assert complete(folder, "show", "--for", "1") == ["10m", "1h"]
    assert complete(folder, "show", "--into", "compl") == ["completion"]
    disks = sorted(path.name for path in Path("/sys/block").iterdir())
    assert sorted(complete(folder, "show", "")) == disks


def unquoted(word: str) -> str:
    """Return the argument that a command gets for a word on the shell's command line."""
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, text=True)
    return done.stdout


def test_a_completed_value_reaches_the_command_as_it_is(folder: Path) -> None:
    """With `compgen -W`, a unit's name would lose its backslash, and a command in it would run."""
    (folder / "bin").mkdir()
    systemctl = folder / "bin/systemctl"
    systemctl.write_text(
        "#!/bin/sh\ncat << 'EOF'\na\\x2db.slice loaded active\n$(touch made).x loaded\nEOF\n"
    )
    systemctl.chmod(0o755)
    for typed in ("a", "a\\\\", "a\\\\x2d"):
        (word,) = complete(folder, "show", "--unit", typed)
        assert word == "a\\\\x2db.slice"
        assert unquoted(word) == "a\\x2db.slice"
    complete(folder, "show", "--unit", "")
    assert not (folder / "made").exists()
    offered = complete(folder, "show", "--how", "")
    assert [unquoted(word) for word in offered] == ["a\\b", "a b", "$HOME"]


UNITS = (
    "a\\x2db.slice",
    "getty@tty1.service",
    "pci0:1.device",
    "it's\"$x`.mount",
    "wow!now!.mount",
)
#: The keys that are typed at a prompt, before Enter -> the words that the command gets.
PRESSED = {
    "show --unit get\t": ["show", "--unit", "getty@tty1.service"],
    "show --unit getty@\t": ["show", "--unit", "getty@tty1.service"],
    "show --unit getty@t\t": ["show", "--unit", "getty@tty1.service"],
    "show --unit getty\\@\t": ["show", "--unit", "getty@tty1.service"],
    "show --unit=getty@\t": ["show", "--unit=getty@tty1.service"],
    'show --unit="get\t': ["show", "--unit=getty@tty1.service"],
    'show --unit "getty@\t': ["show", "--unit", "getty@tty1.service"],
    "show --unit pci0:\t": ["show", "--unit", "pci0:1.device"],
    "show --unit a\t": ["show", "--unit", UNITS[0]],
    'show --unit "a\\x\t': ["show", "--unit", UNITS[0]],
    "show --unit 'a\\x\t": ["show", "--unit", UNITS[0]],
    'show --unit "it\t': ["show", "--unit", UNITS[3]],
    "show --unit 'it\t": ["show", "--unit", UNITS[3]],
    "show --unit it\t": ["show", "--unit", UNITS[3]],
    'show --unit "wo\t': ["show", "--unit", UNITS[4]],
    'show --unit "wow!n\t': ["show", "--unit", UNITS[4]],
    "show --unit 'wo\t": ["show", "--unit", UNITS[4]],
    "show --unit wo\t": ["show", "--unit", UNITS[4]],
    'show --unit="wo\t': ["show", f"--unit={UNITS[4]}"],
    'show --into "yes\t': ["show", "--into", "yes!no"],
    "show  --into  x\\\\\t": ["show", "--into", "x\\y"],
    "show --into x\\ \t": ["show", "--into", "x y"],
    'show --into "x \t': ["show", "--into", "x y"],
    'show --into="x \t': ["show", "--into=x y"],
    "show --into 'x$\t": ["show", "--into", "x$(z)"],
    "show --into x\\$\t": ["show", "--into", "x$(z)"],
    "show --into fo\tf\t": ["show", "--into", "folder/file"],
    "show --into=fo\tf\t": ["show", "--into=folder/file"],
    'show --into "fo\tf\t': ["show", "--into", "folder/file"],
    "show --into ~/compl\t": ["show", "--into", "HOME/completion"],
    "show --as js\t--for 2\t": ["show", "--as", "json", "--for", "2m"],
}


def test_at_a_prompt_the_command_gets_what_was_completed(folder: Path) -> None:
    """Type into a real bash, because it breaks words in its own way before it completes them."""
    (folder / "bin").mkdir()
    systemctl = folder / "bin/systemctl"
    systemctl.write_text(
        "#!/bin/sh\ncat << 'EOF'\n" + "".join(f"{unit}\n" for unit in UNITS) + "EOF\n"
    )
    systemctl.chmod(0o755)
    (folder / "folder").mkdir()
    for name in ("x\\y", "x y", "x$(z)", "folder/file", "yes!no"):
        (folder / name).touch()
    (folder / "completion").write_text(describe("bash", folder))
    (folder / "rc").write_text(
        f"PATH={folder}/bin:$PATH HOME={folder} PS1='ready> '; cd; . ./completion\n"
        "triagectl() { printf '%s\\0' \"$@\" >> got; echo >> got; }\n"
    )
    said = b""
    pid, terminal = pty.fork()
    if not pid:
        os.environ |= {"TERM": "dumb", "INPUTRC": "/dev/null"}
        os.execvp("bash", ["bash", "--rcfile", str(folder / "rc"), "-i"])
    try:
        for typed in (*(f"triagectl {keys}" for keys in PRESSED), "exit"):
            while not said.endswith(b"ready> "):
                assert select.select([terminal], [], [], 60)[0], said
                said += os.read(terminal, 4096)
            said = b""
            os.write(terminal, f"{typed}\n".encode())
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    lines = (folder / "got").read_text().replace(f"{folder}/compl", "HOME/compl").splitlines()
    assert dict(zip(PRESSED, lines, strict=True)) == {
        keys: "".join(f"{word}\0" for word in words) for keys, words in PRESSED.items()
    }


def test_an_alias_or_function_of_the_user_changes_nothing(folder: Path) -> None:
    """An alias such as ls='ls -F' is expanded when the shell reads the completion."""
    (folder / "completion").write_text(describe("bash", folder))
    used = ("ls", "cat", "cd", "cut", "tr", "printf", "systemctl")
    (folder / "rc").write_text(
        "".join(f"alias {name}='echo aliased'; " for name in used)
        + f"\n. {folder}/completion\n"
        + "unalias -a\n"
        + "".join(f"{name}() {{ echo function; }}\n" for name in used)
        + "for words in 'show ' 'show --unit '; do\n"
        + 'COMP_LINE="triagectl $words" COMP_POINT=${#COMP_LINE}\n'
        + "COMP_WORDS=(triagectl $words '')\n"
        + "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _triagectl triagectl '' x\n"
        + 'builtin printf "%s\\n" "${COMPREPLY[@]}"; done; exit\n'
    )
    (folder / "bin").mkdir()
    systemctl = folder / "bin/systemctl"
    systemctl.write_text("#!/bin/sh\necho db.service loaded\n")
    systemctl.chmod(0o755)
    done = subprocess.run(
        ["bash", "--rcfile", folder / "rc", "-i"],
        env=os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    disks = [path.name for path in Path("/sys/block").iterdir()]
    assert sorted(done.stdout.splitlines()) == sorted([*disks, "db.service"]), done.stderr


def test_the_manual_page_has_every_argument_and_no_hidden_one(folder: Path) -> None:
    page = describe("man", folder, "1.2.3", 0)
    assert page.startswith('.\\" SPDX') and '"1970-01-01" "triage 1.2.3"' in page
    assert "\\fB\\-\\-into\\fR \\fIFILE\\fR\nwrite it there (default: None)" in page
    assert "a disk, 100 % of them" in page
    assert "\n\\&.a dot comes first" in page
    assert "C:\\ex is a folder" in page
    assert "secret" not in page and "hidden" not in page


def test_groff_has_nothing_to_complain_of(folder: Path) -> None:
    tools.require([GROFF])
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"],
        input=describe("man", folder, "1.2.3", 0),
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


@pytest.mark.skipif(not (ROOT / "triagectl").exists(), reason="there is no triagectl here")
def test_the_package_has_the_tool_its_page_and_its_completion(tmp_path: Path) -> None:
    make("install", tmp_path, f"DESTDIR={tmp_path}/root")
    link = tmp_path / "root/usr/bin/triagectl"
    assert link.is_symlink() and not link.readlink().is_absolute()
    done = subprocess.run([link, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "triagectl" in done.stdout
    share = tmp_path / "root/usr/share"
    assert (share / "man/man8/triagectl.8").is_file()
    assert (share / "bash-completion/completions/triagectl").is_file()
