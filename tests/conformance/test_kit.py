"""`python -m nativecall.conformance`: the foreign modules pass it, and each of their broken
variants fails with the rules that it breaks named, and no others."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nativecall.conformance import __main__, _rules
from support import forkserver

ROOT = Path(__file__).resolve().parents[2]
#: Rules that start processes.
COSTLY = {"late-runtime", "newcomer"}


@pytest.fixture(scope="module")
def folder(builder):
    """Where the foreign modules are."""
    made = builder.directory / "foreign"
    made.mkdir(exist_ok=True)
    return made


@pytest.fixture(scope="module")
def command(folder):
    """Runs the command."""

    def command(*arguments, first=""):
        assert first == "" or not hasattr(os, "fork")  # it only makes waits shorter
        return subprocess.run(
            [sys.executable, "-m", "nativecall.conformance", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=folder,
            check=False,
        )

    return command


@pytest.fixture(scope="module")
def servers():
    """Forks the process in which rules are checked: one without nativecall for runtimes, which are
    imported first."""
    if not hasattr(os, "fork"):
        return None
    without = forkserver.ForkServer(("ctypes", "cffi", "pycparser.c_parser", "threading"))
    yield {"provider": forkserver.shared(), "consumer": forkserver.shared(), "runtime": without}
    without.close()


@pytest.fixture
def kit(command, servers, folder, monkeypatch):
    """Runs the command in this process, and the rules in a fork that runs `first` before them."""
    if servers is None:
        return command

    def kit(*arguments, first=""):
        errors = io.StringIO()

        def status_of(words):
            code = words[2].replace("_child.main", f"{first}\n_child.main")
            ended = servers[words[4]].run(code, words[3:], folder, 120)
            errors.write(ended.stderr + ended.stdout)
            return ended.returncode

        monkeypatch.setattr(__main__, "_status_of", status_of)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            try:
                status = __main__.main(arguments)
            except SystemExit as ended:
                status = ended.code
        told = printed.getvalue(), errors.getvalue()
        return subprocess.CompletedProcess(arguments, status, *told)

    return kit


def verdicts_of(kit, role, place, *options, **given):
    """What the kit says of each rule: {name: (status, found)}."""
    done = kit(f"--{role}", place, "--json", *options, **given)
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)
    assert told[role] == place
    broken = [one for one in told["rules"] if one["status"] == "broken"]
    assert told["broken"] == len(broken)
    assert done.returncode == (1 if broken else 0)
    assert all([one["requirements"] for one in told["rules"]])
    return {one["rule"]: (one["status"], one["found"]) for one in told["rules"]}


@pytest.fixture
def verdicts(kit):
    """The same, for tests that judge one module."""
    return lambda *arguments: verdicts_of(kit, *arguments)


def absent(found):
    return {name for name, (status, _) in found.items() if status == "absent"}


def broken(found):
    return {name: text for name, (status, text) in found.items() if status == "broken"}


# -- who keeps the rules ---------------------------------------------------------------------------

NO_API = {"api-struct", "api-find", "api-without-gil"}
NO_SLOTS = {"slot-table", "offset", "subclass-objects"}
NO_CALLS = {"call-table", "interned", "packed"}


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("callable", NO_API), ("view", NO_API), ("tier2", NO_SLOTS | NO_CALLS)],
)
def test_a_foreign_provider_passes(foreign, verdicts, name, lacks):
    foreign("provider", "foreign_provider")
    found = verdicts("provider", f"foreign_provider:{name}")
    assert broken(found) == {}
    assert absent(found) == lacks


def test_a_foreign_consumer_passes(foreign, verdicts):
    foreign("consumer", "foreign_consumer")
    found = verdicts("consumer", "foreign_consumer:find")
    assert broken(found) == {}
    assert absent(found) == set()


ONLY_TIER2 = """
import foreign_consumer

def find(obj, signature, refuse):
    metaclasses = type(type(obj)).__mro__
    if type(obj) is type(len) or not any([one.__name__ == "extensibletype" for one in metaclasses]):
        return foreign_consumer.find(obj, signature, refuse) if type(obj) is not type(len) else None
    if "__nativecall_api__" in vars(type(obj)) and signature == "f:f":
        return foreign_consumer.find(obj, signature, refuse)
"""


def test_a_consumer_of_tier_2_alone_is_excused(foreign, kit):
    folder = foreign("consumer", "foreign_consumer")
    (folder / "only_tier2.py").write_text(ONLY_TIER2)
    assert "finds" in broken(verdicts_of(kit, "consumer", "only_tier2:find"))
    found = verdicts_of(kit, "consumer", "only_tier2:find", "--tier2")
    assert broken(found) == {}
    assert {"finds", "view", "late-runtime", "api-behind"} <= absent(found)
    assert found["api"] == found["plain-objects"] == ("kept", "")


def test_a_foreign_runtime_passes(foreign, verdicts):
    foreign("runtime", "foreign_runtime")
    found = verdicts("runtime", "foreign_runtime")
    assert broken(found) == {}
    assert absent(found) == set()


def test_our_own_callables_pass(foreign, verdicts, builder):
    folder = foreign("provider", "foreign_provider")
    own = """
import nativecall as nc
m = nc.load("m", "double cos(double); double atan2(double, double);")
f = nc.wrap({"d:d": m.cos, "O:O": id(m), "d:dd": m.atan2, "d:" + 14 * "T{dd}": id(m)})
view = f.builtin
class Sub(nc.NativeCallable):
    pass
sub = Sub({"i:i": 1 << 12})
"""
    (folder / "own_provider.py").write_text(own)
    for name in ("f", "view", "sub", "Sub"):
        found = verdicts("provider", f"own_provider:{name}")
        assert broken(found) == {}


def asked(role, left_out):
    """Options that ask for the other rules of a role."""
    names = [one.name for one in _rules.of(role) if one.name not in left_out]
    return [word for name in names for word in ("--rule", name)]


def test_our_own_runtime_passes(kit):
    assert broken(verdicts_of(kit, "runtime", "nativecall")) == {}


WAYS = """
import kit_consumer, kit_look

def entry(obj, signature, refuse, by_slot):
    try:
        found = kit_consumer.entry(obj, signature, refuse, by_slot)
    except AssertionError:  # an entry that came between its look for an entry and for a function
        found = kit_consumer.entry(obj, signature, refuse, by_slot)
    return found and found[1]

def by_offset(obj, signature, refuse):
    return entry(obj, signature, refuse, False)

def by_slot(obj, signature, refuse):
    return entry(obj, signature, refuse, True)

def by_words(obj, signature, refuse):
    from support import packed  # which imports nativecall

    words = packed.pack(signature)
    return kit_consumer.packed(obj, b"".join([w.to_bytes(8, "little") for w in words]), refuse)

def look(obj, signature, refuse):
    found = kit_look.find(obj, signature, refuse)
    if found is None:
        found = kit_look.ask(obj, signature, refuse)
    return found and found[1]
"""
NO_TIER2 = {
    *("api", "api-inherited", "api-wrong", "api-behind", "api-raises", "api-view"),
}


@pytest.mark.parametrize(
    ("way", "lacks"),
    [
        ("by_offset", NO_TIER2),
        ("by_slot", NO_TIER2),
        ("by_words", NO_TIER2 | {"late-runtime"}),
        ("look", set()),
    ],
)
def test_our_own_readers_pass(builder, include, kit, way, lacks):
    for source in ("consumer", "look"):
        headers = include if source == "consumer" else include / "nativecall"
        name = f"kit_{source}"
        builder.extension(f"{source}.c", name, include=headers, directory="foreign")
    (builder.directory / "foreign" / "ways.py").write_text(
        f"import sys; sys.path.append({str(ROOT / 'tests')!r})\n{WAYS}"
    )
    found = verdicts_of(kit, "consumer", f"ways:{way}")
    assert broken(found) == {}
    assert absent(found) == lacks


# -- who breaks them -------------------------------------------------------------------------------

#: By role and name: what each macro breaks; "more" stands for all that cannot work without it.
BROKEN = {
    ("provider", "callable"): {
        "GIL_FLAG": "needs-gil",
        "FLAG_BITS": "flags",
        "CONVENTION": "convention",
        "LAST_ARGUMENT": "convention",
        "CANONICAL": "canonical packed",
        "INTERN": "interned",
        "COUNT": "call-table",
        "PACKED_ORDER": "packed",
        "SHIFT": "offset",
        "DEALLOC": "subclass-objects",
    },
    ("provider", "tier2"): {
        "API_SIZE": "api-struct",
        "API_REFUSE": "api-find",
        "API_ADDRESS": "api-find",
        "API_GIL": "api-without-gil",
        "API_CAPSULE": "api-struct",
        "API_RAISES": "api-without-gil api-find",
    },
    ("consumer", "find"): {
        "FIRST": "finds more",
        "SLOT": "slot-only slot-elsewhere view subclass override",
        "REFUSE": "refuse duplicates view unknown-convention api-behind",
        "FLAGS": "later-abi api",
        "VIEW": "view api-view",
        "METHOD": "method",
        "DERIVED": "derived-metaclass",
        "CRASH": "no-slots",
        "RAISES": "plain-objects finds more",
        "API_SIZE": "api-wrong",
        "API_TRUST": "api",
        "BEGINNING": "finds",
        "LOOKS_ONCE": "late-runtime",
        "IMPORTS": "late-runtime",
        "API_REFUSE": "api",
        "API_RAISES": "api-raises",
        "API_FIRST": "api-behind",
        "API_VIEW": "api-view",
    },
    ("runtime", ""): {
        "NAME": "names fields joined",
        "VERSION": "fields joined",
        "HASH": "intern-header registry",
        "NUL": "interns intern-header registry",
        "CELLS": "slot-tables more",
        "EXPECTED": "slot-tables more",
        "ZERO_ROW": "slot-tables more",
        "SHIFT": "ready more",
        "POSITION": "inheritance",
        "OVERRIDE": "inheritance call-assigned old-tables more",
        "CALL_ASSIGNED": "call-assigned old-tables",
        "RETIRED": "old-tables",
        "MUTE": "inheritance",
        "BYPASS": "bases-assigned",
        "RANGE": "refused-slots",
        "PACKED_ALONE": "refused-types",
    },
}
CASES = [
    (role, name, macro, {*rules.split()})
    for (role, name), cases in BROKEN.items()
    for macro, rules in cases.items()
]


def check_broken(kit, foreign, case, left_out):
    """A broken module breaks its rules, and no other one of its role that is checked."""
    role, name, macro, rules = case
    found = broken(judged(kit, foreign, role, name, macro, left_out))
    if "more" in rules:
        assert rules - {"more"} <= {*found}
    else:
        assert {*found} == rules, found


def judged(kit, foreign, role, name, macro, left_out=COSTLY):
    """What the kit says of a broken module."""
    module = f"foreign_{role}_{macro}"
    foreign(role, module, f"BROKEN_{macro}")
    place = f"{module}:{name}" if name else module
    return verdicts_of(kit, role, place, *asked(role, left_out))


def impatient(kit):
    """The kit, whose rules wait for a second at most."""
    first = "from nativecall_conformance import _provider\n_provider._LIMIT = 1"
    return lambda *arguments: kit(*arguments, first=first)


@pytest.mark.compiler
@pytest.mark.parametrize("case", CASES, ids=[case[2] for case in CASES])
def test_a_broken_one_fails_with_its_rules_named(kit, foreign, case):
    check_broken(impatient(kit), foreign, case, COSTLY - case[3])


@pytest.mark.compiler
def test_one_wrong_name_breaks_one_rule_and_a_crash_names_its_cause(kit, foreign):
    found = judged(kit, foreign, "provider", "tier2", "API_CAPSULE")
    assert found["api-find"] == ("absent", "it cannot be queried: see the rule 'api-struct'")
    text = judged(kit, foreign, "provider", "tier2", "API_RAISES")["api-find"][1]
    assert text.endswith(" while this was checked, where 'find' is called without the GIL")


def test_a_type_is_told_from_its_objects(foreign, kit):
    foreign("provider", "foreign_provider")
    found = verdicts_of(kit, "provider", "foreign_provider:tier2.__class__", "--rule", "offers")
    text = "a type with '__nativecall_api__' is checked by an object of it"
    assert found == {"offers": ("broken", text)}


@pytest.mark.compiler
def test_a_crash_is_told_and_the_rest_is_checked(command, foreign):
    found = judged(command, foreign, "consumer", "find", "CRASH")
    assert found["no-slots"] == (
        "broken",
        "the process ended with signal SIGABRT while this was checked, in an object of an "
        "extensible type without slots, at 'd:d'",
    )
    assert found["api-wrong"] == ("kept", "")


# -- the command -----------------------------------------------------------------------------------


def test_one_line_a_rule_with_its_requirements(foreign, command):
    foreign("provider", "foreign_provider_GIL_FLAG", "BROKEN_GIL_FLAG")
    done = command(
        *("--provider", "foreign_provider_GIL_FLAG:callable"),
        *("--rule", "needs-gil", "--rule", "flags", "--rule", "api-find"),
    )
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "",
        "foreign_provider_GIL_FLAG:callable as a provider",
        "  ✓ flags      no bit of a flag is set that version 1 does not have (P38)",
        "  ✗ needs-gil  what handles objects or sets exceptions needs the GIL (P39, P40)",
        "               'O:O' has 'O' and not NC_FLAG_NEEDS_GIL",
        "  · api-find   'find' gives what is asked for, by its characters, or NULL (P6, P8)",
        "               the type has no '__nativecall_api__'",
        "",
        "  1 of 3 rules are kept, 1 broken",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments --provider --consumer --runtime is required"),
        (["--runtime", "no_such_module"], "'no_such_module' cannot be loaded: ModuleNotFoundError"),
        (["--provider", "no_colon"], "the object must be given as MODULE:NAME (got 'no_colon')"),
        (["--provider", "math:"], "the object must be given as MODULE:NAME (got 'math:')"),
        (["--provider", "math:nothing"], "module 'math' has no attribute 'nothing'"),
        (["--consumer", "math:pi"], "'math:pi' cannot be loaded: TypeError: it must be a function"),
        (["--provider", "sys:maxsize", "--tier2"], "a provider has no option --tier2"),
        (["--runtime", "math", "--rule", "no"], "a runtime has no rule 'no'; it has names, fields"),
    ],
)
def test_what_cannot_be_used_is_status_2(kit, arguments, message):
    done = kit(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_brings_nothing_is_no_runtime(kit):
    done = kit("--runtime", "math", "--rule", "names", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert told["rules"][0]["found"] == "importing 'math' puts nothing at '_extensibletype'"


def test_a_function_that_takes_others_arguments_breaks_one_rule(kit):
    found = verdicts_of(kit, "consumer", "math:sin")
    assert broken(found) == {
        "answers": "TypeError: math.sin() takes exactly one argument (3 given); "
        "find(obj, signature, refuse) is called, with a str and an int"
    }
    assert found["finds"] == ("absent", "no call has an answer: see the rule 'answers'")


def test_what_is_said_of_an_object_that_offers_nothing(kit):
    found = verdicts_of(kit, "provider", "sys:maxsize", "--rule", "offers")
    assert found["offers"][1].startswith("an int offers nothing: its metatype is type")


def test_a_module_without_a_runtime_breaks_one_rule(kit):
    done = kit("--runtime", "math", "--json", *RULES_OF_JOINING)
    told = json.loads(done.stdout)
    assert [one["status"] for one in told["rules"]] == ["broken", "absent", "absent"]
    reason = "the module brings no runtime: see the rule 'names'"
    assert [one["found"] for one in told["rules"][1:]] == [reason, reason]


RULES_OF_JOINING = [w for name in ("names", "fields", "joined") for w in ("--rule", name)]


def test_what_the_module_prints_is_no_part_of_the_report(command, folder):
    (folder / "talks.py").write_text("print('{\"rule\": 5}')\ndef find(*given): print('found')\n")
    done = command("--consumer", "talks:find", "--rule", "plain-objects", "--json")
    assert json.loads(done.stdout)["broken"] == 0
    assert "found" in done.stderr
