"""The page and its plots: complete, well formed, and in need of nothing from outside."""

import json
import re
import xml.etree.ElementTree
from html.parser import HTMLParser

import made_up
import pytest
from loop.claims import claims
from loop.measures import measure
from loop.plots import Plot, Series, ticks
from loop.report import Account, as_html, write_report
from loop.view import duration
from report import size

VOID = {"meta", "br"}


@pytest.fixture
def account():
    figures = measure(made_up.history(), made_up.islands(), made_up.WAY)
    judged = claims(figures, 3, made_up.GOOD)
    return Account("a <model>", 0.0, 400.0, "behind 20 Mbit/s & 40 ms", made_up.WAY, figures, judged)


class Balanced(HTMLParser):
    """Collects what is wrong with the nesting, and every attribute."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_the_page_is_well_formed_and_asks_nobody_for_anything(account):
    page = as_html(account)
    parsed = Balanced()
    parsed.feed(page)
    assert parsed.wrong == parsed.open == []
    assert not [pair for pair in parsed.attributes if pair[0] in ("src", "href", "srcset", "action")]
    assert not re.search(r"https?://|url\(|@import|<script", page)


def test_the_page_has_every_claim_island_and_version_and_escapes_names(account):
    page = as_html(account)
    for claim in account.claims:
        assert claim.name.replace("'", "&#x27;") in page
    for name in ("north", "south", "west", "v3", "a &lt;model&gt;", "20 Mbit/s &amp; 40 ms"):
        assert name in page
    assert "a <model>" not in page


def test_each_plot_is_xml_with_a_dot_for_each_point(account):
    for text in re.findall(r"<svg.*?</svg>", as_html(account), re.S):
        xml.etree.ElementTree.fromstring(text)
    points = [(1.0, 5.0, "one"), (2.0, 7.5, "two <&>")]
    drawn = xml.etree.ElementTree.fromstring(Plot("t", "x", "y", [Series("s", "c1", points)]).svg())
    assert [dot.find("title").text for dot in drawn.iter("circle")] == ["one", "two <&>"]


def test_higher_values_are_drawn_higher_and_all_within_the_picture():
    points = [(float(x), float(y), "") for x, y in ((1, 0), (2, 10), (3, 1234))]
    drawn = xml.etree.ElementTree.fromstring(Plot("t", "x", "y", [Series("s", "c1", points)]).svg())
    places = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in drawn.iter("circle")]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    _, _, width, height = map(float, drawn.get("viewBox").split())
    assert all(0 < x < width and 0 < y < height for x, y in places)


def test_a_plot_without_points_can_be_drawn():
    xml.etree.ElementTree.fromstring(Plot("t", "x", "y", [Series("s", "c1", [])]).svg())


@pytest.mark.parametrize(
    "low, high", [(0, 1), (0, 0), (3, 3), (1, 16), (0, 0.00031), (-0.3, -0.1), (0, 272_584_905), (99, 100.5)]
)
@pytest.mark.parametrize("most", [5, 9])
@pytest.mark.parametrize("whole", [False, True])
def test_ticks_are_few_round_and_embrace_the_values(low, high, most, whole):
    found = ticks(low, high, most, whole=whole)
    assert 2 <= len(found) <= most + 1
    assert found[0] <= low and found[-1] >= high
    steps = {round(b - a, 9) for a, b in zip(found, found[1:], strict=False)}
    assert len(steps) == 1
    if whole:
        assert all(tick == int(tick) for tick in found)


def test_the_json_has_the_same_numbers_and_no_nan(account, tmp_path):
    page = write_report(account, tmp_path / "new" / "folder")
    assert page.read_text() == as_html(account)
    told = json.loads((page.parent / "report.json").read_text(), parse_constant=pytest.fail)
    assert told["kept"] is True and len(told["claims"]) == len(account.claims)
    assert [step["reward"] for step in told["steps"]] == [step.reward for step in account.figures.steps]
    assert told["versions"][0]["arrivals"][0]["bound"] == account.figures.versions[0].arrivals[0].bound
    assert told["requests"][0]["behind"] == 0


@pytest.mark.parametrize(
    "count, words", [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (272_584_905, "272.6 MB"), (3.2e9, "3.20 GB")]
)
def test_sizes_are_for_people(count, words):
    assert size(count) == words


@pytest.mark.parametrize(
    "seconds, words", [(0.041, "41 ms"), (0.9996, "1.0 s"), (3.24, "3.2 s"), (64, "1:04"), (119.96, "2:00")]
)
def test_durations_are_for_people(seconds, words):
    assert duration(seconds) == words


def test_a_trace_has_everything_in_the_order_of_time(tmp_path):
    made_up.north().write_trace(tmp_path / "trace")
    lines = [json.loads(line) for line in (tmp_path / "trace").read_text().splitlines()]
    times = [line["exchange"]["began"] if "exchange" in line else line["live"] for line in lines]
    assert times == sorted(times)
    assert [line["version"] for line in lines if "version" in line] == [0, 1, 2, 3]
    assert len(lines) == 4 + 2 + 9 + 4
