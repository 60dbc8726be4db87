"""Get the messages of libass in a Python function, which receives a ``va_list``."""

import nativecall as nc

DECLARED = """
    typedef struct ass_library ASS_Library;
    typedef struct ass_track ASS_Track;
    typedef void (*Log)(int level, const char *format, va_list values, void *data);
    ASS_Library *ass_library_init(void);
    void ass_library_done(ASS_Library *);
    void ass_set_message_cb(ASS_Library *library, Log, void *data);
    ASS_Track *ass_read_memory(ASS_Library *, char *text, size_t size, const char *codepage);
    void ass_free_track(ASS_Track *);
    int vsnprintf(char *, size_t, const char *, void *values);
"""
ass = nc.load("ass", DECLARED, encoding="utf-8", keep={"ass_set_message_cb": "library"})
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
    found, buffer, text = [], bytearray(1000), bytearray(text, "utf-8")

    def log(level, format, values, data):
        # The length bounds what is written. A va_list arrives as a pointer.
        ass.vsnprintf(buffer, len(buffer), format, values)
        if level < 4:
            found.append(nc.string(buffer, "utf-8"))

    library = ass.ass_library_init()
    ass.ass_set_message_cb(library, log, None)
    track = ass.ass_read_memory(library, text, len(text), None)
    ass.ass_free_track(track)
    ass.ass_library_done(library)
    return found


def main():
    for warning in warnings(SUBTITLES):
        print(warning.rpartition("]: ")[2])


if __name__ == "__main__":
    main()
