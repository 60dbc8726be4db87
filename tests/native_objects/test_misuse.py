"""Use of an object that has ended: programs with NC_OBJECT_CHECKED stop, and say whose it was."""

import re
import signal
import subprocess

import pytest

from support import build, compilecache

PROGRAM = """
#define NC_OBJECT_CHECKED
#include <nativecall/detail/objectcount.h>
#include <stddef.h>

typedef struct { NcObject *next; } Node;

static const NcClass *node;
static int ended;

/* At its end an object is still one. */
static void destroy(void *fields)
{
    NcObject *own = (char *)fields - node->offset;
    void *self;
    if (nc_object_cast(own, node) != fields || nc_object_method(own, "none", &self) != NULL) {
        puts("destroy does not know its object");
    }
    ended++;
}

int main(void)
{
    static NcField fields[] = {{"next", NULL, offsetof(Node, next), NULL}};
    static NcMethod methods[] = {{"sum d:P", NULL, 0, 0}};
    static NcClass cls;
    NcClassProblem problem;
    NcObject *one, *other;
    void *self;
    cls.name = "Node";
    cls.after = 16;
    cls.type_at = 8;
    cls.fields_size = cls.fields_align = sizeof(Node);
    cls.fields = fields;
    cls.field_count = 1;
    cls.destroy = destroy;
    cls.methods = methods;
    cls.method_count = 1;
    methods[0].function = (void *)main;
    if (nc_class_make(&cls, NULL, NULL, 0, &problem) != NC_OK) return 1;
    node = &cls;
    one = nc_object_new(&cls);
    other = nc_object_new(&cls);
    (void)other;
    (void)self;
    %s
    puts("the end");
    return 0;
}
"""
ENDED = "nativecall: {} of the 'Node' object at 0x"


def run(include, tmp_path, statements):
    source = tmp_path / "misuse.c"
    source.write_text(PROGRAM % statements)
    program = tmp_path / "misuse"
    words = ["-std=gnu11", f"-I{include}", str(source), "-o", str(program)]
    compilecache.compiled([*build.compiler(), *words], program)
    return subprocess.run([str(program)], capture_output=True, text=True, check=False)


@pytest.mark.compiler
def test_what_is_right_goes_on(include, tmp_path):
    """Up to the very end, where a class's own destructor looks at its object."""
    statements = """
    nc_object_retain(one);
    nc_object_release(one);
    NC_FIRST_FIELDS(one, Node)->next = other;
    if (nc_object_method(one, methods[0].key, &self) != (void *)main) return 2;
    nc_object_release(one);
    one = nc_objects_new(&cls, 2);
    nc_object_release((char *)one + nc_class_stride(&cls));
    nc_object_release(one);
    if (ended != 4) return 3;
    """
    done = run(include, tmp_path, statements)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("nc_object_release(one); nc_object_release(one);", "release"),
        ("nc_object_release(one); nc_object_retain(one);", "retain"),
        (
            # The field took over the reference, and its object ended with it.
            "nc_reference_give(&NC_FIRST_FIELDS(one, Node)->next, other);"
            " nc_object_release(one); nc_object_release(other);",
            "release",
        ),
        ("nc_object_release(one); nc_reference_set(&other, one);", "retain"),
        ("nc_object_release(one); (void)nc_object_cast(one, &cls);", "cast"),
        (
            "nc_object_release(one); (void)nc_object_method(one, methods[0].key, &self);",
            "method call",
        ),
        (
            "nc_object_release(one); (void)nc_object_method_at(one, methods[0].key,"
            " nc_class_position(&cls, methods[0].key), &self);",
            "method call",
        ),
        (
            "nc_object_release(one); (void)nc_object_super(one, &cls, methods[0].key, &self);",
            "method call",
        ),
        (
            "one = nc_objects_new(&cls, 2); nc_object_release(one); nc_object_retain(one);",
            "retain",
        ),
        (
            "one = nc_objects_new(&cls, 1); nc_object_release(one); nc_object_release(one);",
            "release",
        ),
        (
            "nc_object_release(one); for (int i = 0; i < 4000; i++)"
            " nc_object_release(nc_object_new(&cls)); nc_object_release(one);",
            "release",
        ),
    ],
)
def test_use_after_the_end_is_named(include, tmp_path, wrong, what):
    done = run(include, tmp_path, wrong)
    assert done.returncode == -signal.SIGABRT
    message = re.escape(ENDED.format(what)) + "[0-9a-f]+, which was already destroyed\n"
    assert re.fullmatch(message, done.stderr)
    assert done.stdout == ""
