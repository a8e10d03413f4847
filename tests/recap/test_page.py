# Copyright (c) 2026 the blackwell.inference authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of the recap, written by Ansible and shown by a headless Chromium: `pytest tests/recap`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.blackwell.inference.tests.recap import browser, nodes

HERE = Path(__file__).resolve().parent
RECAPS = {"fleet": nodes.fleet(), "hostile": nodes.hostile(), "crowded": [nodes.crowded()], "none": []}
WIDTHS = (320, 360, 800, 1400)
# What sticks out of the card that it belongs to. Hidden headings are a pixel wide.
STICKS_OUT = """
[...document.querySelectorAll('.top *, article *, footer *')].filter(element => {
  const card = element.closest('.top, article, footer').getBoundingClientRect();
  const box = element.getBoundingClientRect();
  return box.width > 1 && (box.left < card.left - .5 || box.right > card.right + .5);
}).map(element => element.outerHTML.slice(0, 120))
"""
# Labels that leave their chart or lie on each other; a label's box is a little larger than its letters.
CROWDED_LABELS = """
[...document.querySelectorAll('svg.chart')].flatMap(chart => {
  const frame = chart.getBoundingClientRect();
  const labels = [...chart.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
  const outside = labels.filter(([, box]) => box.left < frame.left - 3 || box.right > frame.right + 3
    || box.top < frame.top - 3 || box.bottom > frame.bottom + 3);
  const overlapping = labels.filter(([, a], index) => labels.slice(index + 1).some(([, b]) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4));
  return [...outside, ...overlapping].map(([text]) => text);
})
"""


def write(directories: list[Path]) -> str:
    """Run the play; what it says comes back."""
    ansible = Path(sys.executable).with_name("ansible-playbook")
    command = [
        ansible,
        "-i",
        "localhost,",
        HERE / "render.yml",
        "-e",
        json.dumps({"directories": [str(d) for d in directories]}),
    ]
    settings = {"ANSIBLE_COLLECTIONS_PATH": str(HERE.parents[1] / ".collections"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """The directories of the recaps, by name."""
    directories = {name: tmp_path_factory.mktemp(name) for name in RECAPS}
    for name, recap in RECAPS.items():
        directories[name].joinpath("nodes.json").write_text(json.dumps(recap), encoding="utf-8")
    write([*directories.values()])
    return directories


@pytest.fixture(scope="session")
def shown():
    program = browser.find()
    if program is None:
        pytest.skip("there is no Chromium here; install it, or name one: CHROMIUM=/path/to/chromium")
    with browser.Browser(program) as running:
        yield running


def open_details(shown):
    shown.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", RECAPS)
def test_nothing_is_wider_than_the_window_and_the_console_is_silent(pages, shown, name, scheme):
    for width in WIDTHS:
        shown.open(pages[name] / "recap.html", width, scheme)
        open_details(shown)
        assert shown.complaints() == []
        assert shown.size()[0] == width
        assert shown.evaluate(STICKS_OUT) == []


@pytest.mark.parametrize("name", ["fleet", "crowded"])
@pytest.mark.parametrize("width", WIDTHS)
def test_labels_of_charts_stay_inside_and_apart(pages, shown, name, width):
    shown.open(pages[name] / "recap.html", width)
    assert shown.evaluate("document.querySelectorAll('svg.chart').length") >= 4
    assert shown.evaluate(CROWDED_LABELS) == []


def test_a_label_that_sticks_out_would_be_noticed(pages, shown):
    shown.open(pages["fleet"] / "recap.html", 360)
    shown.evaluate(
        "document.querySelector('svg.chart text').textContent = 'a label that is much too long for its chart'"
    )
    assert len(shown.evaluate(CROWDED_LABELS)) >= 1
    shown.evaluate("document.querySelector('h2').style.width = '400px'")
    assert len(shown.evaluate(STICKS_OUT)) == 1


def test_hostile_texts_are_texts(pages, shown):
    shown.open(pages["hostile"] / "recap.html", 800)
    assert shown.evaluate("document.title") == "Recap of the deployment"
    assert shown.evaluate("document.querySelectorAll('script, img, iframe, object, embed, form, input').length") == 0
    assert shown.evaluate("document.querySelector('h2').textContent").startswith(
        "<script>document.title='owned'</script>"
    )
    assert "{{ 7*7 }}{% raw %}" in shown.evaluate("document.querySelector('h2').textContent")
    links = shown.evaluate("[...document.links].map(link => link.getAttribute('href'))")
    assert links == ["#node-1", "#node-2", "#node-3", "#node-4"]


def test_the_page_may_load_nothing_even_if_a_text_got_through(pages, shown, tmp_path):
    page = pages["fleet"].joinpath("recap.html").read_text(encoding="utf-8")
    attacked = tmp_path / "attacked.html"
    attack = (
        "<script>document.title = 'owned'</script><img src='http://127.0.0.1:9/x' onerror=\"document.title = 'owned'\">"
    )
    attacked.write_text(page.replace("</main>", attack + "</main>"), encoding="utf-8")
    shown.open(attacked, 800)
    assert shown.evaluate("document.title") == "Recap of the deployment"
    assert any("Content Security Policy" in complaint for complaint in shown.complaints())


def test_colours_follow_the_scheme_and_paper_is_white(pages, shown):
    page = pages["fleet"] / "recap.html"
    colours = []
    for scheme, media in (("light", ""), ("dark", ""), ("dark", "print")):
        shown.open(page, 800, scheme, media)
        colours.append(shown.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(246, 246, 243)", "rgb(19, 22, 25)", "rgb(255, 255, 255)"]


def test_everything_is_on_paper(pages, shown):
    shown.open(pages["fleet"] / "recap.html", 800, media="print")
    assert shown.evaluate("document.querySelector('details').open") is False
    assert shown.evaluate("document.querySelector('details table').getBoundingClientRect().height") > 100
    assert shown.pdf().startswith(b"%PDF")


def test_headings_tables_and_charts_say_what_they_are(pages, shown):
    shown.open(pages["fleet"] / "recap.html", 360)
    open_details(shown)
    tree = [node for node in shown.call("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
    charts = [node for node in tree if node["role"]["value"] in ("image", "img")]
    assert len(charts) >= 4
    assert all(node["name"]["value"] and node["description"]["value"] for node in charts)
    roles = [node["role"]["value"] for node in tree]
    # on a phone, tables are laid out as blocks; they have to stay tables
    tables = shown.evaluate("document.querySelectorAll('table').length")
    assert roles.count("table") == tables
    headers = "[...document.querySelectorAll('thead th')].filter(th => getComputedStyle(th).display !== 'none').length"
    assert roles.count("columnheader") == shown.evaluate(headers) > tables
    levels = shown.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(heading => +heading.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    ids = shown.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))


def test_a_second_run_changes_nothing_and_the_files_are_what_they_say(pages):
    assert re.search(r"changed=0 ", write([*pages.values()]))
    for name, directory in pages.items():
        recap = json.loads(directory.joinpath("recap.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
        assert [node["host"] for node in recap["nodes"]] if name != "none" else recap["nodes"] == []


def test_the_terminal_gets_every_node(pages):
    said = write([pages["fleet"]])
    for node in nodes.fleet():
        assert node["host"] in said
