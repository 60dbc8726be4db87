"""libass reports what is wrong in subtitles to a Python function: with ctypes.

It has no `va_list`: where that is passed as a pointer, `c_void_p` is the same.
"""

import ctypes as ct

LOG = ct.CFUNCTYPE(None, ct.c_int, ct.c_void_p, ct.c_void_p, ct.c_void_p)
ass = ct.CDLL("libass.so.9")
ass.ass_library_init.restype = ct.c_void_p
ass.ass_library_done.argtypes, ass.ass_library_done.restype = [ct.c_void_p], None
ass.ass_set_message_cb.argtypes = [ct.c_void_p, LOG, ct.c_void_p]
ass.ass_set_message_cb.restype = None
ass.ass_read_memory.argtypes = [ct.c_void_p, ct.c_char_p, ct.c_size_t, ct.c_char_p]
ass.ass_read_memory.restype = ct.c_void_p
ass.ass_free_track.argtypes, ass.ass_free_track.restype = [ct.c_void_p], None
ass.vsnprintf.argtypes = [ct.c_char_p, ct.c_size_t, ct.c_void_p, ct.c_void_p]
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
    found, buffer = [], ct.create_string_buffer(1000)
    text = ct.create_string_buffer(text.encode())

    @LOG
    def log(level, format, values, data):
        # The length bounds what is written. A va_list arrives as a pointer.
        ass.vsnprintf(buffer, len(buffer), format, values)
        if level < 4:
            found.append(buffer.value.decode())

    library = ass.ass_library_init()
    ass.ass_set_message_cb(library, log, None)
    track = ass.ass_read_memory(library, text, len(text) - 1, None)
    ass.ass_free_track(track)
    ass.ass_library_done(library)
    return found


def main():
    for warning in warnings(SUBTITLES):
        print(warning.rpartition("]: ")[2])


if __name__ == "__main__":
    main()
