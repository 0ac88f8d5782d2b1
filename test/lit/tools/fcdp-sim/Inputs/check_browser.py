# SPDX-License-Identifier: Apache-2.0
"""Opens pages in a headless browser. Usage: check_browser.py SCRIPTS BROWSER PAGE...

SCRIPTS is the folder of browser.py. Each page is shown on a desk and on a phone, in light and in dark: it has no
errors, no part of it is cut off, the first screen answers what a user asks first, and all text can be read.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from browser import Browser  # noqa: E402

SCREENS = {"desk": (1400, 900), "phone": (390, 844)}
QUESTIONS = ["How long is a step?", "What does it wait for?", "Does it fit?", "What should I change?"]

# The sRGB luminance and contrast of WCAG 2.2, for all text that is shown, and for the bars beside their background.
LOOK = """(() => {
  const shade = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (a, b) => (Math.max(shade(a), shade(b)) + .05) / (Math.min(shade(a), shade(b)) + .05);
  const background = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return color === 'rgba(0, 0, 0, 0)' ? background(element.parentElement) : color;
  };
  const page = document.documentElement, texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const faint = [];
  let shown = 0;
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.matches('script, style')) continue;
    ++shown;
    if (contrast(getComputedStyle(element).color, background(element)) < 4.5) faint.push(element.outerHTML);
  }
  for (const bar of document.querySelectorAll('.bar span, .legend i'))
    if (contrast(getComputedStyle(bar).backgroundColor, background(bar.parentElement)) < 3) faint.push(bar.outerHTML);
  const canvas = document.querySelector('canvas'), style = getComputedStyle(page);
  canvas.style.color = style.getPropertyValue('--quiet');
  if (contrast(getComputedStyle(canvas).color, background(canvas)) < 4.5) faint.push('labels of the timeline');
  const cut = [...document.body.querySelectorAll(':not(.scroll, .scroll *, #answers-heading)')]
    .filter((element) => element.checkVisibility() && element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== 'inline');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return {
    overflow: page.scrollWidth - page.clientWidth, shown, faint, cut: cut.map((element) => element.outerHTML.slice(0, 200)),
    questions: [...document.querySelectorAll('#answers dt')].map((element) => element.textContent),
    answers: [...document.querySelectorAll('#answers dd')].map((element) => element.textContent),
    bottom: document.getElementById('answers').getBoundingClientRect().bottom,
    rows: document.querySelectorAll('#buckets tbody tr').length,
    colors: new Set(new Uint32Array(pixels.buffer)).size, isDark: shade(background(document.body)) < .2,
  };
})()"""


def check_look(browser: Browser, page: Path, screen: str, scheme: str) -> None:
    width, height = SCREENS[screen]
    browser.open(page, width, height, scheme)
    assert browser.errors() == [], (page.name, browser.errors())
    look = browser.evaluate(LOOK)
    where = (page.name, screen, scheme, look)
    assert look["isDark"] == (scheme == "dark") and look["colors"] > 5, where
    assert look["overflow"] == 0 and look["cut"] == [], where
    assert look["shown"] > 50 and look["faint"] == [], where
    assert look["questions"] == QUESTIONS and all(look["answers"]) and look["bottom"] <= height, where


def press(browser: Browser, key: str) -> None:
    text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9, "Enter": 13}.get(key, 0), **text)


def check_keys(browser: Browser, page: Path) -> None:
    """The answers are about the fastest strategy, and a key shows another one. Keys zoom and move the timeline."""
    browser.open(page, *SCREENS["desk"], "light")
    steps = json.loads(browser.evaluate("document.getElementById('data').textContent"))["steps"]
    best = min(steps, key=lambda step: step["seconds"])
    pressed = "document.querySelector('[aria-pressed=true]').textContent"
    assert browser.evaluate(pressed) == best["strategy"]
    first = browser.evaluate("document.getElementById('answers').textContent")
    press(browser, "Tab")
    assert browser.evaluate("document.activeElement.textContent") == steps[0]["strategy"] != best["strategy"]
    press(browser, "Enter")
    assert browser.evaluate(pressed) == steps[0]["strategy"]
    assert browser.evaluate("document.getElementById('answers').textContent") != first
    browser.evaluate("document.querySelector('canvas').focus()")
    images = [browser.evaluate("document.querySelector('canvas').toDataURL()")]
    for key in "+", "ArrowRight":
        press(browser, key)
        images.append(browser.evaluate("document.querySelector('canvas').toDataURL()"))
    assert len(set(images)) == 3


def check_print(browser: Browser, page: Path) -> None:
    """Paper is white, and has the buckets of all strategies."""
    browser.open(page, *SCREENS["desk"], "dark")
    browser.call("Page.printToPDF")
    assert browser.evaluate("[...document.querySelectorAll('details')].every((part) => part.open)")
    browser.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


with Browser(sys.argv[2]) as browser:
    pages = [Path(name) for name in sys.argv[3:]]
    for page in pages:
        for screen in SCREENS:
            for scheme in ("light", "dark"):
                check_look(browser, page, screen, scheme)
        print(page.name, browser.evaluate("document.querySelectorAll('#buckets tbody tr').length"), "rows of buckets")
    check_keys(browser, pages[0])
    check_print(browser, pages[0])
