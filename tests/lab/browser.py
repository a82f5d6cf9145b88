# SPDX-License-Identifier: GPL-2.0-only
"""Open HTML pages in headless Chromium, and report the drawn charts and the errors."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

# A script for the head of a page. It reports errors and charts to the parent page.
PROBE = """<script>
const wrong = [];
window.addEventListener("error", event => wrong.push("error: " + event.message), true);
window.addEventListener("unhandledrejection", event => wrong.push("rejected: " + event.reason));
document.addEventListener("securitypolicyviolation", event => wrong.push(event.blockedURI));
for (const kind of ["error", "warn"])
  console[kind] = (...said) => wrong.push(kind + ": " + said.join(" "));
const later = (milliseconds, what) => setTimeout(what, milliseconds);
const ids = query => [...document.querySelectorAll(query)].map(element => element.id);
window.addEventListener("load", () => later(500, () => {
  const closed = ids("details .drawing"), atFirst = ids(".drawing.js-plotly-plot");
  for (const kind of ["beforeprint", "afterprint"]) window.dispatchEvent(new Event(kind));
  for (const part of document.querySelectorAll("details")) part.open = true;
  later(500, () => {
    const shown = element => [...element.querySelectorAll("path[d], image")].some(drawn =>
      drawn.getBoundingClientRect().width > 0);
    const wide = drawing => drawing.querySelector(".main-svg").getBoundingClientRect().width;
    window.parent.postMessage({
      wrong, closed, atFirst,
      fetched: performance.getEntriesByType("resource").map(entry => entry.name),
      overflow: document.documentElement.scrollWidth - window.innerWidth,
      drawings: Object.fromEntries([...document.querySelectorAll(".drawing")].map(drawing => [
        drawing.id, [...drawing.querySelectorAll(".trace, .hm")].filter(shown).length])),
      misfits: [...document.querySelectorAll(".drawing")].filter(drawing =>
        Math.abs(wide(drawing) - drawing.clientWidth) > 1).map(drawing => drawing.id),
    }, "*");
  });
}));
</script>"""
# The page that shows the tested pages in frames: a Chromium window cannot be as narrow as a phone.
# The frames overlap, because Chromium delays the drawing of frames that are out of sight.
FRAMES = """<pre id="seen"></pre>
<script>
const found = {};
window.addEventListener("message", event => {
  const frame = [...frames()].find(frame => frame.contentWindow === event.source);
  found[frame.name] = event.data;
  seen.textContent = JSON.stringify(found);
});
const frames = () => document.querySelectorAll("iframe");
</script>
"""
FRAME = """<iframe name="{name}" src="{page}"
  style="position: absolute; top: 0; left: 0; border: 0; width: {width}px; height: 900px">
</iframe>
"""

Seen = dict[str, dict[str, Any]]


def look(pages: Mapping[str, tuple[str, int]], folder: Path) -> Seen:
    """Return PROBE's record of each page. `pages`: name -> HTML and the frame's width in pixels."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium: apt install chromium")
    frames = FRAMES
    for index, (name, (page, width)) in enumerate(pages.items()):
        (folder / f"{index}.html").write_text(page.replace("<head>", "<head>" + PROBE, 1))
        frames += FRAME.format(name=name, width=width, page=f"{index}.html")
    (folder / "frames.html").write_text(frames)
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000",
        "--virtual-time-budget=60000", "--dump-dom", (folder / "frames.html").as_uri(),
    ]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    found = re.search(r'<pre id="seen">(.+?)</pre>', dom, re.DOTALL)
    assert found, f"no page finished loading:\n{dom[-2000:]}"
    loaded: Seen = json.loads(html.unescape(found[1]))
    assert set(loaded) == set(pages)
    return loaded


def assert_readable(seen: Mapping[str, Any]) -> None:
    """Assert that a page has no errors, fetched nothing, fits its frame, and drew each chart."""
    assert seen["wrong"] == []
    assert seen["fetched"] == []
    assert seen["overflow"] <= 0
    assert seen["misfits"] == []
    assert all(seen["drawings"].values())
