"""The page about a run in a real browser: no errors, nothing wider than the window, numbers where the mouse is.

`make browser` runs these; they need Chromium, and a run of a few seconds.
"""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from tests.app.report.sweep_rows import look, some_that_failed
from trajens.app import cli
from trajens.app.report import SweepView, load_view, page, sweep_page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on the path; install it to see the page"),
]
WIDTHS = (390, 1400)
# A page inside a frame has exactly the width of it, whatever the smallest window of the browser is.
FRAME = """<!DOCTYPE html><title>frame</title><body style="margin:0">
<iframe id="page" style="border:0;width:{width}px;height:1200px" srcdoc="{content}"></iframe>
<pre id="found"></pre><script>
const frame = document.getElementById("page");
frame.onload = () => {{
  const inner = frame.contentWindow, found = inner.look();
  document.getElementById("found").textContent = JSON.stringify(found);
}};
</script></body>"""
LOOK = """<script>
window.errors = [];
window.onerror = (message) => { window.errors.push(String(message)); };
window.look = () => {
  const wide = document.documentElement.clientWidth, tip = document.getElementById("tip");
  // What scrolls by itself may be wide inside.
  const over = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, #tip, svg"))
    .filter((e) => e.getBoundingClientRect().right > wide + 1).map((e) => `${e.tagName}.${e.className}`);
  const tips = {};
  document.querySelectorAll("figure.panel svg.chart").forEach((svg) => {
    const box = svg.getBoundingClientRect(), name = svg.closest("figure").id;
    const where = { clientX: box.left + box.width * 0.4, clientY: box.top + box.height * 0.4, bubbles: true };
    svg.dispatchEvent(new PointerEvent("pointermove", where));
    tips[name] = tip.classList.contains("shown") ? tip.innerText : "";
    svg.dispatchEvent(new PointerEvent("pointerleave", where));
    if (tip.classList.contains("shown")) window.errors.push(`${name} stays`);
  });
  // A letter that stands beside an axis lies on its side.
  const texts = [...document.querySelectorAll("svg.chart text")].map((t) => t.getBoundingClientRect())
    .map((box) => Math.max(box.height, box.width));
  return { errors: window.errors, over, tips, inner: window.innerWidth, wide: document.documentElement.scrollWidth,
    panels: [...document.querySelectorAll("figure.panel")].filter((f) => f.getBoundingClientRect().height > 40)
      .map((f) => f.id), smallest: Math.min(...texts) };
};
</script>"""


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """Pages of a run with classes, with a start too, of two side by side, and of sweeps over two options and three."""
    folder, rng = tmp_path_factory.mktemp("browser"), np.random.default_rng(0)
    x = rng.standard_normal((200, 3))
    np.savez(folder / "data.npz", x=x, y=(x[:, 0] > 0).astype(int) + (x[:, 1] + x[:, 2] > 1))
    command = ["train", str(folder / "data.npz"), "--hidden", "6", "--tau", "4", "--epochs", "4000", "--chains", "3"]
    out = folder / "a-directory-with-a-name-that-is-longer-than-a-telephone-is-wide-and-has-no-space"
    with pytest.raises(SystemExit):
        cli.app([*command, "--out", str(out)])
    one = load_view(out)
    start = {"data_used": np.tile(np.arange(100, 1100, 100), (3, 1)), "loss": np.geomspace(9.0, 1.0, 30).reshape(3, 10)}
    path = {**one.facts.records, "data_used": one.facts.records["data_used"] + 1000}
    begun = replace(one, facts=replace(one.facts, start=start, records=path, pairs=float(path["data_used"].max())))
    swept = [
        look(tau=tau, s=s, seed=seed, accuracy=0.9) for tau in (1, 2, 4, 64) for s in (5.0, 20.0) for seed in (1, 2)
    ]
    named = [
        look(tau=tau, model=model, acceptance=name)
        for tau in (1, 2, 4, 64)
        for model in ("cnn", "a-network-with-a-name-that-is-longer-than-a-telephone-is-wide-and-has-no-space")
        for name in ("penalty", "paper")
    ]
    pages = {"sweep": some_that_failed(swept), "names": named, "points": [run for run in named if "tau=4" in run.run]}
    of_sweeps = {
        name: sweep_page(SweepView(folder / out.name, tuple(looks)), folder, 7.0) for name, looks in pages.items()
    }
    return {"one": page([one]), "start": page([begun]), "two": page([one, one]), **of_sweeps}


def looked(tmp_path, text, width, *flags):
    """What a script finds on the page in a window so wide, and what the browser complains of."""
    inside = text.replace("<head>", f"<head>{LOOK}", 1)
    assert inside != text
    file = tmp_path / "frame.html"
    file.write_text(FRAME.format(width=width, content=html.escape(inside)), encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=4000", "--window-size=1500,1300"]
    result = subprocess.run(
        [BROWSER, *options, *flags, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120
    )
    [found] = re.findall(r'<pre id="found">(.*?)</pre>', result.stdout, re.DOTALL)
    assert found, result.stderr[-2000:]
    complaints = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found)), complaints


@pytest.mark.parametrize("which", ["one", "start", "two", "sweep", "names", "points"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_its_window_and_shows_numbers_where_the_mouse_is(tmp_path, content, which, width):
    found, complaints = looked(tmp_path, content[which], width)
    assert found["inner"] == width
    assert found["errors"] == complaints == []
    assert found["over"] == []
    assert found["wide"] <= width
    assert found["smallest"] >= 9
    expected = set(re.findall(r'<figure class="panel[^"]*" id="([\w-]+)"', content[which]))
    assert set(found["panels"]) == expected
    assert found["tips"]
    for name, text in found["tips"].items():
        assert re.search(r"\d", text), name
    if which == "one":
        assert re.match(r"epoch [\d,]+\nchain 0: [\d.]+", found["tips"]["panel-loss"])
        assert re.match(r"members \d and \d: agree on [\d.]+ % of inputs", found["tips"]["panel-similarity"])
    if which == "start":
        assert found["panels"][0] == "panel-learning"
        assert re.match(r"pairs of losses evaluated [\d,]+\nchain 0: [\d.]+", found["tips"]["panel-learning"])
    if which == "sweep":
        assert re.match(r"tau \d+\ns = 5: [\d.]+ ± [\d.]+\ns = 20: ", found["tips"]["panel-loss"])
        assert re.match(
            r"tau = 2, s = 20: 25 ± 9.2 \(2 seeds\)", found["tips"]["panel-loss-map"].replace("\u00a0", " ")
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_drawn_in_light_and_in_dark(tmp_path, content, scheme):
    """Its first pixel, which is paper, is light or dark."""
    pixels = pytest.importorskip("matplotlib.image")
    file, picture = tmp_path / "page.html", tmp_path / "page.png"
    file.write_text(content["one"], encoding="utf-8")
    flags = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path}/p"]
    command = [BROWSER, *options, *flags, "--window-size=800,600", f"--screenshot={picture}", file.as_uri()]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    paper = float(pixels.imread(picture)[2, 2, :3].mean())
    assert paper < 0.2 if scheme == "dark" else paper > 0.9


def test_without_its_script_a_page_has_its_curves(tmp_path, content):
    text = re.sub(r"<script>.*?</script>", "", content["one"], flags=re.DOTALL)
    count = text.replace(
        "</head>",
        "<script>onload = () => { document.title = [...document.querySelectorAll("
        "'.curve')].filter((c) => c.getTotalLength() > 20).length; }</script></head>",
        1,
    )
    file = tmp_path / "page.html"
    file.write_text(count, encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000"]
    command = [BROWSER, *options, f"--user-data-dir={tmp_path}/p", "--dump-dom", file.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert int(re.findall(r"<title>(\d+)</title>", result.stdout)[0]) > 15
