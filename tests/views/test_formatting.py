from datetime import date

from lamatext.errors import number_range, percent, percent_range, plural
from lamatext.views.formatting import (
    accuracy_comparison,
    day,
    escaped,
    file_size,
    listed_label,
    probability,
    share,
)
from lamatext.views.html_templates import render_template
from lamatext.views.word_shading import StrongWord


def test_numbers_are_formatted_with_their_units() -> None:
    assert plural(1, "text") == "1 text"
    assert plural(2, "class", "classes") == "2 classes"
    assert percent(0.7741) == "77.4 %"
    assert percent_range(0.7533, 0.8) == "75.3 to 80.0 %"
    assert percent_range(0.75, 1, 0) == "75 to 100 %"
    assert number_range(0.7533, 0.8) == "0.753 to 0.800"
    assert file_size(2_900_000) == "2.9 MB"
    assert file_size(12_000) == "12.0 kB"
    assert share(0.00004) == "4e-05"
    assert share(0.0) == "0.000"
    assert [probability(p) for p in (0, 0.0004, 0.0006, 0.9994, 0.9996, 1)] == [
        *("< 0.1 %", "< 0.1 %", "0.1 %", "99.9 %", "> 99.9 %", "> 99.9 %")
    ]
    assert day(date(2026, 3, 5)) == "5 March 2026"


def test_a_comparison_calls_a_tie_a_tie_and_chance_chance() -> None:
    assert accuracy_comparison(("a", 0.9), ("b", 0.8), 1000) == "a is ahead of b by 10.0 points."
    assert accuracy_comparison(("a", 0.8), ("b", 0.9), 1000) == "b is ahead of a by 10.0 points."
    assert accuracy_comparison(("a", 0.9), ("b", 0.9), 1000) == "a and b are equally accurate."
    close = accuracy_comparison(("a", 0.9), ("b", 0.89), 100)
    assert close.endswith("; with 100 texts, this difference can be due to chance.")


def test_escaping_covers_attributes_and_makes_control_characters_visible() -> None:
    assert escaped("<b a=\"'&\x00") == "&lt;b a=&quot;&#x27;&amp;␀"


def test_templates_escape_every_value() -> None:
    html = render_template(
        "notebook.html",
        predicted='<b>"',
        probability=0.5,
        shaded_label="<u>",
        missing_words="",
        strongest=[("for", [StrongWord("<u>", 1, 0.5)])],
        contribution=[("<i>\x1b", 'red"', '"><u>'), ("<s>", "", "")],
        attention=None,
        sums="<p>",
    )

    assert not any(tag in html for tag in ('<b>"', "<i>", "<u>", "<s>", "<p>", "\x1b"))
    assert "&lt;b&gt;&#34;" in html


def test_labels_that_could_be_misread_in_a_list_are_quoted() -> None:
    quoted = ("3", "-1", "2.5", "10 %", "Windows 10", " a", "a, b", "")
    plain = ("pos", "class_372", "4-5 stars", "3rd", "Q3")

    assert [listed_label(label) for label in quoted] == [repr(label) for label in quoted]
    assert [listed_label(label) for label in plain] == [*plain]
