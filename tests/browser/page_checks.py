"""Checks that hold for every page: no overflow, no errors, no layout shift, enough contrast."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

WIDTHS, SCHEMES = (1200, 390), ("light", "dark")
LEAST_CONTRAST = 4.5  # WCAG AA for text of normal size

RECORD_SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map(({ node }) => node?.id || node?.className || node?.nodeName);
    if (!entry.hadRecentInput) window.shifts.push([entry.value, ...moved]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""

# Every visible text whose contrast with the background behind it is too small.
LOW_CONTRAST = """
least => {
  const parse = color => {
    const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number);
    return { rgb: [r, g, b], a };
  };
  const over = (top, below) => below.map((value, i) => top.rgb[i] * top.a + value * (1 - top.a));
  const background = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement)
      layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const luminance = rgb => {
    const linear = v => (v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map(linear);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), low = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility() || element.closest("script, style, svg, option"))
      continue;
    const behind = background(element), ink = over(parse(getComputedStyle(element).color), behind);
    const [high, deep] = [luminance(ink), luminance(behind)].sort((a, b) => b - a);
    const contrast = (high + .05) / (deep + .05);
    if (contrast < least) low.push([contrast.toFixed(2), element.className, text.slice(0, 40)]);
  }
  return low;
}
"""


@contextmanager
def checked_page(chromium: Browser, width: int, scheme: str) -> Iterator[Page]:
    """Open a tab of the given width and colour scheme; fail on errors in its console."""
    context = chromium.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.add_init_script(RECORD_SHIFTS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda entry: errors.append(entry.text))
    yield page
    context.close()
    assert errors == []


def check_page(page: Page, picture: Path) -> None:
    """Take a picture of the page as it is now and check what can be measured."""
    page.wait_for_timeout(200)  # transitions
    page.screenshot(path=picture, full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate("window.shifts") == []
    assert page.evaluate(LOW_CONTRAST, LEAST_CONTRAST) == []
    assert page.evaluate("document.documentElement.lang") == "en"
    unnamed = "[...document.querySelectorAll('input, select, textarea, button')].filter(one => "
    unnamed += "!one.labels?.length && !one.textContent.trim() && !one.ariaLabel).length"
    assert page.evaluate(unnamed) == 0
