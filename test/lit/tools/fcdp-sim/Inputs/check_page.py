# SPDX-License-Identifier: Apache-2.0
"""Checks a page against the report of the same steps. Usage: check_page.py PAGE REPORT"""

import html.parser
import json
import sys


class Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.data = ""
        self.open: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        # Nothing is fetched.
        assert not given.keys() & {"src", "href", "srcset", "action"}, (tag, given)
        if "id" in given:
            assert given["id"] not in self.ids
            self.ids.add(given["id"])
        if tag not in ("meta", "link"):
            self.open.append(given.get("id", tag) if tag == "script" else tag)

    def handle_endtag(self, tag: str) -> None:
        opened = self.open.pop()
        assert tag in (opened, "script"), (tag, opened)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "data":
            self.data += data
        elif self.open and self.open[-1] == "h2":
            self.headings.append(data)


with open(sys.argv[1]) as file:
    text = file.read()
reader = Reader()
reader.feed(text)
reader.close()
assert not reader.open
for word in ("@import", "url(", "fetch(", "XMLHttpRequest", "{{"):
    assert word not in text, word
assert "prefers-color-scheme: dark" in text and "width=device-width" in text
steps = json.loads(reader.data)["steps"]
with open(sys.argv[2]) as file:
    reports = json.load(file)["steps"]
for step, report in zip(steps, reports, strict=True):
    timeline = step.pop("timeline")
    assert step == report
    for stream in timeline["streams"]:
        for before, after in zip(stream["spans"], stream["spans"][1:]):
            assert before[1] <= after[0] + 1e-12
        for begin, end, _, label, count in stream["spans"]:
            assert timeline["begin"] <= begin < end <= timeline["end"]
            assert timeline["labels"][label] and count >= 1
    most = max(sum(point[1:]) for point in timeline["memory"]["points"])
    assert most == sum(report["device_memory"]["in_use"].values())
    print(step["strategy"], [stream["name"] for stream in timeline["streams"] if stream["spans"]])
print(reader.headings)
