"""The part of a trampoline that takes buffers: their addresses for C, and their release.

It does what the core does (csrc/values/pointers.c) for an object that exports the usual format of
what is wanted, contiguous and aligned; the core does all others, and every error.
"""

from __future__ import annotations

from .shape import layout
from .writer import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .frame import Place


class PointerCode(Writer):
    """Writes conversions and releases of pointers, whose owners are at the start of the frame."""

    def __init__(self) -> None:
        super().__init__()
        self.later: list[str] = []  # what stands after the usual way
        self.failures: list[str] = []  # blocks that go to the end with an exception set

    @staticmethod
    def owned(owner: int, part: str) -> int:
        """Where in the frame a part of an owner is."""
        return owner * layout["pointer_bytes"] + layout[part]

    def convert_pointers(self, places: Sequence[Place]) -> None:
        """Pointers, one after the other; `places` are all that have owners."""
        for place in places:
            for part in ("pointer_object", "pointer_keep"):
                self.store("ptr", "null", "%frame", self.owned(place.owner, part))
        for place in places:
            self.convert_pointer(place)

    def convert_pointer(self, place: Place) -> None:
        """The address of a buffer with the usual format of what is wanted; the core does others."""
        index, value, rest, ready = place.index, f"%a{place.index}", self.label(), self.label()

        def part(name: str) -> int:
            return self.owned(place.owner, name)

        type = self.load("ptr", value, layout["object_type"])
        exporter = self.load("ptr", type, layout["type_as_buffer"])
        self.require(self.new(f"icmp ne ptr {exporter}, null"), rest)
        export = self.load("ptr", exporter, layout["getbuffer"])
        self.require(self.new(f"icmp ne ptr {export}, null"), rest)
        spec = self.load("ptr", "%self", layout["callable_spec"])
        wanted = self.load("ptr", spec, layout["spec_arguments"])
        wanted = self.at(wanted, index * layout["argument_bytes"])
        flags = self.load("i32", wanted, layout["argument_flags"], 4)
        self.require(self.new(f"icmp ne i32 {flags}, 0"), rest)
        buffer = self.at("%frame", part("pointer_buffer"))
        status = self.new(f"call i32 {export}(ptr {value}, ptr {buffer}, i32 {flags})")
        self.require(self.new(f"icmp eq i32 {status}, 0"), rest)
        format = self.load("ptr", "%frame", part("pointer_format"))
        self.require(self.new(f"icmp ne ptr {format}, null"), rest)
        usual = self.load("i8", wanted, layout["argument_format"], 1)
        first = self.load("i8", format, 0, 1)
        self.require(self.new(f"icmp eq i8 {first}, {usual}"), rest)
        second = self.new(f"zext i8 {self.load('i8', format, 1, 1)} to i64")
        size = self.load("i64", "%frame", part("pointer_itemsize"))
        other = self.new(f"xor i64 {size}, {self.load('i64', wanted, layout['argument_size'])}")
        wrong = self.new(f"or i64 {second}, {other}")
        start = self.load("i64", "%frame", part("pointer_start"))
        mask = self.load("i64", wanted, layout["argument_mask"])
        wrong = self.new(f"or i64 {wrong}, {self.new(f'and i64 {start}, {mask}')}")
        # An owner of its own has what Python code returned as a buffer.
        object = self.new(f"ptrtoint ptr {value} to i64")
        other = self.new(f"xor i64 {self.load('i64', '%frame', part('pointer_object'))}, {object}")
        wrong = self.new(f"or i64 {wrong}, {other}")
        # Classes of Python's may be masked arrays.
        kind = self.load(f"i{8 * layout['long_bytes']}", type, layout["type_flags"])
        if layout["long_bytes"] < 8:
            kind = self.new(f"zext i32 {kind} to i64")
        other = self.new(f"and i64 {kind}, {layout['heap_type']}")
        wrong = self.new(f"or i64 {wrong}, {other}")
        self.require(self.new(f"icmp eq i64 {wrong}, 0"), rest)
        self.go(ready)
        usually, self.lines = self.lines, self.later
        self.begin(rest)
        owner = self.at("%frame", part("pointer_address"))
        values = ("ptr %self", f"i64 {index}", f"ptr {value}", f"ptr {owner}", f"i64 {place.owner}")
        status = self.call("nc_convert_pointer_on", "i32", *values)
        succeeded = self.new(f"icmp sge i32 {status}, 0")
        self.failures.append(rest)
        self.line(f"br i1 {succeeded}, label %{ready}, label %end, !prof !0")
        self.lines = usually
        self.begin(ready)

    def release_buffer(self, place: Place) -> None:
        """What PyBuffer_Release does, inline for an argument that needs no more than a decref.

        The caller has a reference to it as well, so this is never the last one.
        """
        rest, released = self.label(), self.label()
        owner = self.load("ptr", "%frame", self.owned(place.owner, "pointer_object"))
        self.require(self.new(f"icmp eq ptr {owner}, %a{place.index}"), rest)
        type = self.load("ptr", owner, layout["object_type"])
        exporter = self.load("ptr", type, layout["type_as_buffer"])
        release = self.load("ptr", exporter, layout["releasebuffer"])
        self.require(self.new(f"icmp eq ptr {release}, null"), rest)
        if layout["has_immortals"]:
            low = self.load("i32", owner, layout["object_refcount"])
            self.require(self.new(f"icmp sge i32 {low}, 0"), rest)
        count = self.load("i64", owner, layout["object_refcount"])
        fewer = self.new(f"sub i64 {count}, 1")
        self.store("i64", fewer, owner, layout["object_refcount"])
        self.go(released)
        usual, self.lines = self.lines, self.later
        self.begin(rest)
        buffer = self.at("%frame", self.owned(place.owner, "pointer_buffer"))
        self.call("PyBuffer_Release", "void", f"ptr {buffer}")
        self.go(released)
        self.lines = usual
        self.begin(released)
