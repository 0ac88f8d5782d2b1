#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the README's picture of one bucket's way in a step, in light and in dark colours.

example: scripts/draw_bucket.py docs
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 330
TITLE = "The way of one bucket's parameters through a training step"
DESCRIPTION = (
    "In the forward pass one gather brings the bucket over the network to the device, and the node's slice is stored "
    "in host memory. In the backward pass the slice is loaded from host memory. ZeRO-3 would gather over the network "
    "again. Then the gradients are reduced over the network."
)
# Left edges of the phases of a step, with the right edge of the last one.
FORWARD, LATER, BACKWARD, END = 170, 375, 550, 840


@dataclass(frozen=True)
class Theme:
    background: str
    text: str
    muted: str
    line: str
    network: str
    host: str
    device: str


THEMES = {
    "light": Theme("#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#0550ae", "#8a4600", "#116329"),
    "dark": Theme("#0d1117", "#f0f6fc", "#9198a1", "#3d444d", "#79c0ff", "#ffa657", "#7ee787"),
}


@dataclass(frozen=True)
class Lane:
    name: str
    detail: str
    top: int

    @property
    def middle(self) -> int:
        return self.top + 32


NETWORK = Lane("network", "between machines", 50)
DEVICE = Lane("device memory", "of each rank", 140)
HOST = Lane("host memory", "of the machine", 230)


class Picture:
    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self.parts: list[str] = []

    def text(self, x: int, y: int, words: str, colour: str, anchor: str = "start", size: int = 13) -> None:
        where = f'x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
        self.parts.append(f"<text {where}>{escape(words)}</text>")

    def box(self, lane: Lane, left: int, right: int, words: str, colour: str, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        where = f'x="{left}" y="{lane.top + 12}" width="{right - left}" height="40" rx="6"'
        self.parts.append(
            f'<rect {where} fill="{colour}" fill-opacity="0.12" stroke="{colour}" stroke-width="1.5"{dash}/>'
        )
        self.text((left + right) // 2, lane.middle + 5, words, self.theme.text, "middle")

    def arrow(self, x: int, begin: Lane, end: Lane, words: str, colour: str) -> None:
        down = end.top > begin.top
        first, last = (begin.top + 52, end.top + 10) if down else (begin.top + 12, end.top + 54)
        back = -7 if down else 7
        path = f"M{x} {first}V{last}M{x - 5} {last + back}L{x} {last}L{x + 5} {last + back}"
        self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        self.text(x + 10, (first + last) // 2 + 5, words, self.theme.muted, size=12)

    def lanes(self) -> None:
        for lane in (NETWORK, DEVICE, HOST):
            self.text(20, lane.middle, lane.name, self.theme.text, size=14)
            self.text(20, lane.middle + 17, lane.detail, self.theme.muted, size=12)
        for x, name in ((FORWARD, "forward pass"), (LATER, "other layers"), (BACKWARD, "backward pass")):
            self.text(x, 32, name, self.theme.text, size=14)
        for x in (FORWARD - 12, LATER - 12, BACKWARD - 12):
            self.parts.append(f'<path d="M{x} 18V{HOST.top + 60}" stroke="{self.theme.line}" stroke-width="1"/>')

    def svg(self) -> str:
        size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"'
        lines = [
            "<!-- SPDX-License-Identifier: Apache-2.0; made by scripts/draw_bucket.py -->",
            f'{head} font-family="system-ui, Helvetica, Arial, sans-serif">',
            f"<title>{escape(TITLE)}</title>",
            f"<desc>{escape(DESCRIPTION)}</desc>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{self.theme.background}"/>',
            *self.parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def draw(theme: Theme) -> str:
    picture = Picture(theme)
    picture.lanes()
    picture.box(NETWORK, FORWARD, LATER - 30, "one gather", theme.network)
    picture.box(DEVICE, FORWARD, LATER - 30, "layer runs, copy is freed", theme.device)
    picture.box(HOST, FORWARD, BACKWARD + 110, "the node's slice of the bucket stays in host memory", theme.host)
    picture.box(NETWORK, BACKWARD, BACKWARD + 130, "no second gather", theme.muted, dashed=True)
    picture.box(NETWORK, BACKWARD + 145, END, "reduction", theme.network)
    picture.box(DEVICE, BACKWARD, END, "gradients of the layer", theme.device)
    picture.arrow(FORWARD + 30, NETWORK, DEVICE, "parameters", theme.network)
    picture.arrow(FORWARD + 30, DEVICE, HOST, "store", theme.host)
    picture.arrow(BACKWARD + 30, HOST, DEVICE, "reload", theme.host)
    picture.arrow(BACKWARD + 190, DEVICE, NETWORK, "gradients", theme.network)
    picture.text(
        20,
        HEIGHT - 12,
        "ZeRO-3 and FSDP's full shard gather the bucket over the network again where the dashed box is.",
        theme.muted,
        size=12,
    )
    return picture.svg()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder for bucket-light.svg and bucket-dark.svg")
    args = parser.parse_args()
    for name, theme in THEMES.items():
        (args.folder / f"bucket-{name}.svg").write_text(draw(theme))


if __name__ == "__main__":
    main()
