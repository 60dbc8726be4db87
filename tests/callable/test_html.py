"""`_repr_html_`: what notebooks show of callables and libraries."""

from html.parser import HTMLParser

import nativecall as nc
from nativecall._callable import html


class Reader(HTMLParser):
    """The rows of a table, of which every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.caption = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in ("table", "caption", "thead", "tr", "th", "td")
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["caption"]:
            self.caption += data
        elif self.open[-1:] in (["th"], ["td"]):
            self.rows[-1][-1] += data


HEAD = ["signature", "called by Python", "errors", "GIL", "owner"]


def test_the_entries_of_a_callable():
    c = nc.load(None)
    f = nc.wrap({"i:i": c.address("abs"), "Q:&b": c.address("strlen")}, name="a<b>&c", owner="<me>")
    shown = Reader(f._repr_html_())
    assert shown.caption == "native callable a<b>&c"
    assert shown.rows[0] == HEAD
    entries = [
        [one.signature, one.trampoline, one.errors, one.gil, repr(one.owner)] for one in f.entries
    ]
    assert shown.rows[1:] == entries
    assert "<me>" not in f._repr_html_()
    assert entries[1][0] == "Q:&b"


def test_a_callable_without_an_owner():
    one = nc.wrap(nc.load(None).address("abs"), "i:i")
    assert Reader(one._repr_html_()).rows[1][-1] == ""


def test_the_functions_of_a_library():
    lib = nc.load(None, "int abs(int n); size_t strlen(const char *s); enum { RED, GREEN };")
    shown = Reader(lib._repr_html_())
    assert shown.caption == repr(lib)
    assert shown.rows == [
        ["function", "signature"],
        ["abs", "int abs(int n)"],
        ["strlen", "size_t strlen(const char *s)"],
        ["2 constants"],
    ]
    bare = Reader(nc.load(None)._repr_html_())
    assert bare.rows == [["function", "signature"], ["nothing is declared"]]


def test_a_long_table_ends():
    rows = [[str(n)] for n in range(1000)]
    shown = Reader(html.table("numbers", ["n"], rows))
    assert len(shown.rows) == 202
    assert shown.rows[-1] == ["and 800 more"]
