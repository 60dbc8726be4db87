"""The report of a run: tables for people, JSON for programs, the same content in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.goals import Goal
from bench.section import Group, Section

FORMAT = 1
TITLES = {
    "values": "Idioms beside plain numbers",
    "calls": "Calls from Python",
    "first": "First calls of a shape",
    "making": "Making what is called",
    "programs": "Whole programs",
    "lookup": "Find and call from C",
}


def number(value: float) -> str:
    """Return a number with about three significant digits and never an exponent."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def to_json(
    date: str,
    machine: dict[str, Any],
    sections: Sequence[Section],
    goals: Sequence[Goal],
    quick: bool,
) -> dict[str, Any]:
    """Return the whole report as one JSON object."""
    return {
        "format": FORMAT,
        "date": date,
        "quick": quick,
        "machine": machine,
        "sections": [section.to_json() for section in sections],
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals],
    }


def print_machine(console: Console, machine: dict[str, Any]) -> None:
    """Print what the run was made on."""
    table = Table(title="Machine", box=box.SIMPLE_HEAD, show_header=False, title_justify="left")
    for key, value in machine.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{name} {version}" for name, version in value.items())
        else:
            shown = str(value)
        table.add_row(key.replace("_", " "), escape(shown))
    console.print(table)


def calls_table(groups: Sequence[Group]) -> Table:
    """Return the calls as peers by signatures."""
    table = Table(box=box.SIMPLE_HEAD, caption="median (minimum), ns", caption_justify="left")
    table.add_column("", no_wrap=True)
    names = list(dict.fromkeys(name for group in groups for name in group.samples))
    columns = []
    for group in groups:
        table.add_column(group.row, justify="right")
        columns.append(group.summaries())
    for name in names:
        cells = [
            f"{number(s[name].median)} ({number(s[name].minimum)})" if name in s else "absent"
            for s in columns
        ]
        style = "bold" if name.startswith("nativecall") else None
        table.add_row(name, *cells, style=style)
    return table


def ratios_table(groups: Sequence[Group]) -> Table:
    """Return the calls as ratios to the reference, peers by signatures."""
    table = Table(box=box.SIMPLE_HEAD, caption_justify="left")
    table.caption = f"times {groups[0].reference}: median of the rounds' ratios"
    table.add_column("", no_wrap=True)
    for group in groups:
        table.add_column(group.row, justify="right")
    for name in dict.fromkeys(name for group in groups for name in group.samples):
        cells = [
            number(group.ratio(name, group.reference).median) if name in group.samples else "absent"
            for group in groups
        ]
        table.add_row(name, *cells, style="bold" if name.startswith("nativecall") else None)
    return table


def group_table(group: Group) -> Table:
    """Return one group with its subjects as rows, and what each takes over the reference."""
    table = Table(title=f"{group.row}, {group.unit}", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    for heading in ("median", "minimum", "quartiles", f"over {group.reference}"):
        table.add_column(heading, justify="right")
    for name, summary in group.summaries().items():
        own = name == group.reference
        over = "" if own else number(group.difference(name, group.reference).median)
        table.add_row(
            name,
            number(summary.median),
            number(summary.minimum),
            f"{number(summary.lower)} to {number(summary.upper)}",
            over,
            style="bold" if "nativecall" in name else None,
        )
    return table


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested dictionaries as one, the keys joined by spaces."""
    joined: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        joined.update(flat(value, name) if isinstance(value, dict) else {name: value})
    return joined


def text(value: Any) -> str:
    """Return a figure as text."""
    return number(value) if isinstance(value, float) else escape(str(value))


def records_table(title: str, records: Sequence[dict[str, Any]]) -> Table:
    """Return figures that come as a list, one row each."""
    table = Table(title=title.replace("_", " "), box=box.SIMPLE_HEAD, title_justify="left")
    rows = [flat(record) for record in records]
    for heading in rows[0]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*map(text, row.values()))
    return table


def print_figures(console: Console, figures: dict[str, Any]) -> None:
    """Print the plain figures of a section, those that come as lists in tables of their own."""
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    for key, value in flat(figures).items():
        if isinstance(value, list):
            console.print(records_table(key, value))
        else:
            table.add_row(key, text(value))
    if table.row_count:
        console.print(table)


def print_section(console: Console, section: Section) -> None:
    """Print a section: method, tables, and what is absent with the reason."""
    console.rule(f"[bold]{TITLES[section.name]}", align="left")
    console.print(escape(section.method), style="dim")
    if section.name == "calls" and section.groups:
        console.print(calls_table(section.groups))
        console.print(ratios_table(section.groups))
    else:
        for group in section.groups:
            console.print(group_table(group))
    if section.figures:
        print_figures(console, section.figures)
    for name, reason in section.absent.items():
        console.print(f"[yellow]absent:[/] {escape(name)}: {escape(reason)}")


def print_goals(console: Console, goals: Sequence[Goal]) -> None:
    """Print the goals with what was found."""
    table = Table(title="Goals", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("", ratio=1)
    for heading in ("found", "goal"):
        table.add_column(heading, justify="right")
    table.add_column("")
    table.add_column("")
    words = {True: "[green]pass[/]", False: "[red]miss[/]", None: "[yellow]not measured[/]"}
    for goal in goals:
        sign = "≤" if goal.at_most else "≥"
        space = "" if goal.unit == "x" else " "
        found = "" if goal.found is None else f"{number(goal.found)}{space}{goal.unit}"
        table.add_row(
            escape(goal.what),
            found,
            f"{sign} {goal.bound:g}{space}{goal.unit}",
            words[goal.met],
            "" if goal.met is None else escape(goal.detail),
        )
    console.print(table)


def print_report(
    console: Console, machine: dict[str, Any], sections: Sequence[Section], goals: Sequence[Goal]
) -> None:
    """Print everything."""
    print_machine(console, machine)
    for section in sections:
        print_section(console, section)
    print_goals(console, goals)
