"""Call Python functions from a loop of libuv until they return false."""

import nativecall as nc


def check(status, function, arguments):
    if status < 0:
        raise RuntimeError(uv.uv_strerror(status))


uv = nc.load(
    "uv",
    header="uv.h",
    encoding="utf-8",
    check={"uv_timer_*": check, "uv_run": check},
    keep={"uv_timer_start": "handle"},
)


class Loop:
    def __init__(self):
        self.loop, self.kept = uv.uv_default_loop(), []

    def every(self, milliseconds, function):
        """Call a function in these intervals, as long as it returns something true."""

        def call(timer):
            try:
                if not function():
                    uv.uv_timer_stop(timer)
            except Exception:  # whatever it is: the loop ends, and raises it
                uv.uv_stop(self.loop)
                raise

        timer = uv.new("uv_timer_t")
        self.kept.append(timer)
        uv.uv_timer_init(self.loop, timer)
        uv.uv_timer_start(timer, call, milliseconds, milliseconds)

    def run(self):
        uv.uv_run(self.loop, uv.UV_RUN_DEFAULT)


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
