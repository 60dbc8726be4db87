"""A loop of libuv's calls Python functions again and again, until they say no: with cffi."""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct uv_loop_s uv_loop_t;
    typedef struct uv_timer_s uv_timer_t;
    typedef struct uv_handle_s uv_handle_t;
    typedef void uv_timer_cb(uv_timer_t *);
    uv_loop_t *uv_default_loop(void);
    size_t uv_handle_size(int);
    const char *uv_strerror(int);
    int uv_timer_init(uv_loop_t *, uv_timer_t *);
    int uv_timer_start(uv_timer_t *, uv_timer_cb *, uint64_t, uint64_t);
    int uv_timer_stop(uv_timer_t *);
    int uv_run(uv_loop_t *, int);
    void uv_stop(uv_loop_t *);
""")
uv = ffi.dlopen("libuv.so")
UV_RUN_DEFAULT, UV_TIMER = 0, 13


def check(status):
    if status < 0:
        raise RuntimeError(ffi.string(uv.uv_strerror(status)).decode())


class Loop:
    def __init__(self):
        self.loop, self.kept, self.raised = uv.uv_default_loop(), [], []

    def every(self, milliseconds, function):
        """Call a function in these intervals, as long as it returns something true."""
        timer = ffi.cast("uv_timer_t *", memory := ffi.new("char[]", uv.uv_handle_size(UV_TIMER)))

        @ffi.callback("uv_timer_cb")
        def call(timer):
            try:
                if not function():
                    check(uv.uv_timer_stop(timer))
            except Exception as error:
                self.raised.append(error)
                uv.uv_stop(self.loop)

        self.kept += [memory, call]
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
