# SPDX-License-Identifier: Apache-2.0
"""Opens a page in a headless browser. Usage: check_browser.py BROWSER PAGE FOLDER

Takes screenshots in light and dark, wide and as narrow as a phone, and asks the page for errors and for its width.
"""

import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

browser, page, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
# In a copy of the page, since what the page itself has no use for has no place there.
PROBE = """<script>
window.onload = () => {
  const page = document.documentElement;
  page.dataset.overflow = page.scrollWidth - page.clientWidth;
  page.dataset.panels = document.querySelectorAll('canvas').length;
  page.dataset.cells = document.querySelectorAll('#summary td').length;
};
</script>"""
CATCH = "<script>window.onerror = (error) => { document.documentElement.dataset.error = error; };</script>"


def run(width: int, scheme: str, *arguments: str) -> str:
    profile = folder / f"profile-{scheme}-{width}"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
    # 0 is dark, 1 is light.
    command += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}", f"--window-size={width},900"]
    return subprocess.run([*command, *arguments], check=True, capture_output=True, text=True, timeout=120).stdout


def read_png(path: Path) -> tuple[int, list[bytes]]:
    """Width, and rows of three or four bytes a pixel."""
    data = path.read_bytes()
    chunks, at = b"", 8
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and color in (2, 6)
            size = 3 if color == 2 else 4
        elif kind == b"IDAT":
            chunks += body
        at += length + 12
    raw, rows, before = zlib.decompress(chunks), [], bytes(width * size)
    for y in range(height):
        start = y * (width * size + 1)
        before = unfilter(raw[start], bytearray(raw[start + 1 : start + 1 + width * size]), before, size)
        rows.append(before)
    return size, rows


def unfilter(kind: int, row: bytearray, before: bytes, size: int) -> bytes:
    """The PNG specification's filters, section 9.2."""
    if kind == 2:
        return bytes((x + b) & 255 for x, b in zip(row, before))
    if kind == 1:
        for i in range(size, len(row)):
            row[i] = (row[i] + row[i - size]) & 255
    elif kind == 3:
        for i, b in enumerate(before):
            row[i] = (row[i] + ((row[i - size] if i >= size else 0) + b) // 2) & 255
    elif kind == 4:
        for i, b in enumerate(before):
            row[i] = (row[i] + (paeth(row[i - size], b, before[i - size]) if i >= size else b)) & 255
    return bytes(row)


def paeth(a: int, b: int, c: int) -> int:
    """The one of the three that is nearest to a + b - c, the first of several."""
    to_a, to_b, to_c = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    return a if to_a <= to_b and to_a <= to_c else b if to_b <= to_c else c


def is_dark(path: Path) -> bool:
    size, rows = read_png(path)
    colors = {row[i : i + 3] for row in rows[::4] for i in range(0, len(row), size)}
    assert len(colors) > 20, "nothing is drawn"
    return sum(rows[2][:3]) < 3 * 128


text = page.read_text()
probed = folder / "probed.html"
probed.write_text(text.replace("<head>", "<head>" + CATCH).replace("</body>", PROBE + "</body>"))
assert probed.stat().st_size > page.stat().st_size
for width in 1280, 390:
    found = dict(re.findall(r'data-(\w+)="([^"]*)"', run(width, "light", "--dump-dom", probed.as_uri()).split("<head>")[0]))
    assert "error" not in found, found
    assert found["overflow"] == "0" and int(found["panels"]) == 2 and int(found["cells"]) == 24, found
    for scheme in "light", "dark":
        image = folder / f"{scheme}-{width}.png"
        run(width, scheme, f"--screenshot={image}", page.as_uri())
        assert is_dark(image) == (scheme == "dark")
print("drawn")
