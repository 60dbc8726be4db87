"""A loop of libuv's calls Python functions again and again, until they say no: with ctypes."""

import ctypes as ct

CALLBACK = ct.CFUNCTYPE(None, ct.c_void_p)
uv = ct.CDLL("libuv.so")
uv.uv_default_loop.restype = ct.c_void_p
uv.uv_handle_size.argtypes, uv.uv_handle_size.restype = [ct.c_int], ct.c_size_t
uv.uv_strerror.argtypes, uv.uv_strerror.restype = [ct.c_int], ct.c_char_p
uv.uv_timer_init.argtypes = [ct.c_void_p, ct.c_void_p]
uv.uv_timer_start.argtypes = [ct.c_void_p, CALLBACK, ct.c_uint64, ct.c_uint64]
uv.uv_timer_stop.argtypes = [ct.c_void_p]
uv.uv_run.argtypes = [ct.c_void_p, ct.c_int]
uv.uv_stop.argtypes, uv.uv_stop.restype = [ct.c_void_p], None
UV_RUN_DEFAULT, UV_TIMER = 0, 13


def check(status):
    if status < 0:
        raise RuntimeError(uv.uv_strerror(status).decode())


class Loop:
    def __init__(self):
        self.loop, self.kept, self.raised = uv.uv_default_loop(), [], []

    def every(self, milliseconds, function):
        """Call a function in these intervals, as long as it returns something true."""
        timer = ct.create_string_buffer(uv.uv_handle_size(UV_TIMER))

        @CALLBACK
        def call(timer):
            try:
                if not function():
                    check(uv.uv_timer_stop(timer))
            except Exception as error:
                self.raised.append(error)
                uv.uv_stop(self.loop)

        self.kept += [timer, call]
        check(uv.uv_timer_init(self.loop, timer))
        check(uv.uv_timer_start(timer, call, milliseconds, milliseconds))

    def run(self):
        check(uv.uv_run(self.loop, UV_RUN_DEFAULT))
        if self.raised:
            raise self.raised.pop()


def main():
    loop, seen = Loop(), []

    def tick():
        seen.append("tick")
        return len(seen) < 5

    def tock():
        seen.append("tock")

    loop.every(2, tick)
    loop.every(5, tock)
    loop.run()
    print(seen.count("tick") >= 3, seen.count("tock"))
    loop.every(1, lambda: 1 / 0)
    loop.every(1000, tick)
    try:
        loop.run()
    except ZeroDivisionError as error:
        print(error)


if __name__ == "__main__":
    main()
