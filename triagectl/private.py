# SPDX-License-Identifier: GPL-2.0-only
"""Remove private data from texts: names, addresses, serial numbers."""

import ipaddress
import os
import re
from collections.abc import Iterator
from typing import Any

from triagectl import sysfs
from triagectl.system import System, names, read

#: Identifiers that are recognised by their form. They are replaced in this order. A form may match
#: the placeholder of an earlier form as part of a longer identifier: `serial <wwn>`.
_FORMS = (
    (r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<uuid>"),
    (r"\b(naa|eui|nvme|t10|uuid)\.\S+", "<wwn>"),
    (r"\b0x[0-9a-fA-F]{16}\b", "<wwn>"),
    # Digits without a letter are a number, such as a sector's.
    (r"\b(?=\d*[a-fA-F])([0-9a-fA-F]{16}|[0-9a-fA-F]{32})\b", "<wwn>"),
    (r"\b[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}\b", "<mac>"),
    (r"[\w.+-]+@[\w-]+(\.[\w-]+)+", "<mail>"),
    (r"/(home|root|srv|mnt|media|run/user|run/media)/[^\s'\"]*", "<path>"),
    # A tuned profile in /etc is the administrator's own.
    (r"(/etc/tuned/(?:profiles/)?)[^/\s]+(?=/)", r"\1<profile>"),
    (r"(?i)(serial(?: number)?\s*[:=]?\s*)\S+", r"\1<serial>"),
)
#: Files below a disk's folder that identify the disk, or contain a name that its owner chose.
_IDENTITIES = (
    "device/serial",
    "device/wwid",
    "device/vpd_pg80",
    "device/unique_id",
    "wwid",
    "serial",
    "nguid",
    "uuid",
    "eui",
    "dm/name",
    "dm/uuid",
    "loop/backing_file",
)
_NAMES = ("dm/name", "loop/backing_file")
#: Mount points that many machines have, so that they identify none: system and standard folders.
_USUAL = re.compile(
    r"/(proc|sys|dev|run)(/.*)?|"
    r"/(boot(/efi)?|efi|tmp|usr(/local)?|home|root|srv|opt|etc|mnt|media|snap|"
    r"var(/(cache|lib|log(/audit)?|spool|tmp))?)?"
)
#: Text that may be an IP address. An IPv6 address may end with the name of an interface.
_ADDRESS = re.compile(
    r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F.]*(?:%\w+)?(?!\w)|"
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"
)


class Scrubber:
    """Replaces, in texts, the names, addresses and numbers that identify a machine or its owner."""

    def __init__(self, system: System) -> None:
        # Replace the longest names first, because one may be a part of another.
        known = sorted(set(_known(system)), key=lambda one: -len(one[0]))
        self._known = [
            (re.compile(rf"(?<!\w){re.escape(word)}(?!\w)"), name) for word, name in known
        ]
        self._forms = [(re.compile(form), name) for form, name in _FORMS]

    def text(self, text: str) -> str:
        """Return a text without private data."""
        for pattern, name in (*self._known, *self._forms):
            text = pattern.sub(name, text)
        return _ADDRESS.sub(_without_address, text)

    def all(self, value: Any) -> Any:
        """Return a value with each text in it scrubbed, also in lists and dictionaries."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.all(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.all(one) for one in value]
        return value


def _without_address(found: re.Match[str]) -> str:
    """Return `<ip>` and the punctuation after the address; the whole match if it has no address."""
    text = found[0]
    ends = [len(text)] + [len(text) - 1] * (text[-1] in ":.")
    for end in ends:
        try:
            address = ipaddress.ip_address(text[:end])
        except ValueError:
            continue
        # "::" and 0.0.0.0 stand for any address, and identify nobody: keep them.
        return text if address.is_unspecified else f"<ip>{text[end:]}"
    return text


def _known(system: System) -> Iterator[tuple[str, str]]:
    """Yield names and numbers that identify this machine, each with its replacement."""
    host = system.read("proc/sys/kernel/hostname") or os.uname().nodename
    for name in {host, host.partition(".")[0]}:
        if len(name) > 2:
            yield name, "<host>"
    for disk in sysfs.all_disks(system):
        for file in _IDENTITIES:
            word = (disk.attribute(file) or "").strip("\0 ")
            if len(word) > 3:
                yield word, "<name>" if file in _NAMES else "<serial>"
            # The kernel's log may have the identifier without `naa.` or `eui.`.
            if bare := re.fullmatch(r"(?:naa|eui)\.([0-9a-f]{16,32})", word):
                yield bare[1], "<wwn>"
    for line in (system.read("proc/self/mounts") or "").splitlines():
        words = line.split(" ")
        if len(words) > 1 and not _USUAL.fullmatch(words[1]):
            # The kernel writes a space as \040.
            yield re.sub(r"\\([0-7]{3})", lambda of: chr(int(of[1], 8)), words[1]), "<path>"
    for name in names(system.path("home")):
        if len(name) > 2:
            yield name, "<user>"
    machine = read(system.path("etc/machine-id"))
    if machine:
        yield machine, "<machine>"
