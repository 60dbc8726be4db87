"""libass reports what is wrong in subtitles to a Python function: with cffi.

It has no `va_list`: where that is passed as a pointer, `void *` is the same.
"""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct ass_library ASS_Library;
    typedef struct ass_track ASS_Track;
    typedef void (*Log)(int level, const char *format, void *values, void *data);
    ASS_Library *ass_library_init(void);
    void ass_library_done(ASS_Library *);
    void ass_set_message_cb(ASS_Library *library, Log, void *data);
    ASS_Track *ass_read_memory(ASS_Library *, char *text, size_t size, const char *codepage);
    void ass_free_track(ASS_Track *);
    int vsnprintf(char *, size_t, const char *, void *values);
""")
ass = ffi.dlopen("libass.so.9")
SUBTITLES = """
[Script Info]
ScriptType: v4.00+
[Events]
Format: Layer, Start, End, Style, Text
Dialogue: 0,0:00:00.00,0:00:01.00,Grün,one
Dialogue: 0,first,last,Default,two
"""


def warnings(text):
    """What libass finds wrong in subtitles."""
    found, buffer, text = [], ffi.new("char[1000]"), text.encode()

    @ffi.callback("Log")
    def log(level, format, values, data):
        # The length bounds what is written. A va_list arrives as a pointer.
        ass.vsnprintf(buffer, len(buffer), format, values)
        if level < 4:
            found.append(ffi.string(buffer).decode())

    library = ass.ass_library_init()
    ass.ass_set_message_cb(library, log, ffi.NULL)
    track = ass.ass_read_memory(library, ffi.new("char[]", text), len(text), ffi.NULL)
    ass.ass_free_track(track)
    ass.ass_library_done(library)
    return found


def main():
    for warning in warnings(SUBTITLES):
        print(warning.rpartition("]: ")[2])


if __name__ == "__main__":
    main()
