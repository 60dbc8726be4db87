"""Receive messages of liblo in a Python function, which runs in a thread of the library."""

import queue

import nativecall as nc

DECLARED = """
    typedef void *lo_message, *lo_address, *lo_server_thread;
    typedef union { int32_t i; float f; char s; } lo_arg;
    typedef int (*lo_method_handler)(const char *path, const char *types, lo_arg **arguments,
                                     int count, lo_message message, PyObject *user_data);
    lo_server_thread lo_server_thread_new(const char *port, void *on_error);
    int lo_server_thread_get_port(lo_server_thread);
    void *lo_server_thread_add_method(lo_server_thread server, const char *path,
                                      const char *types, lo_method_handler, const void *data);
    int lo_server_thread_start(lo_server_thread);
    void lo_server_thread_free(lo_server_thread);
    lo_address lo_address_new(const char *host, const char *port);
    lo_message lo_message_new();
    int lo_message_add_int32(lo_message, int32_t);
    int lo_message_add_string(lo_message, const char *);
    int lo_send_message(lo_address, const char *path, lo_message);
    void lo_message_free(lo_message);
    void lo_address_free(lo_address);
"""
KEPT = {"lo_server_thread_add_method": "server"}
WAITS = {"lo_server_thread_free": "release"}
lo = nc.load("lo", DECLARED, encoding="utf-8", keep=KEPT, gil=WAITS)


def received(path, types, arguments, count, message, to):
    text = lo.ffi.cast("char *", arguments[1])
    to.put((path, arguments[0].i, nc.string(text, "utf-8")))
    return 0


def main():
    arrived = queue.Queue()
    server = lo.lo_server_thread_new(None, None)
    lo.lo_server_thread_add_method(server, "/tone", "is", received, nc.handle(arrived))
    lo.lo_server_thread_start(server)
    address = lo.lo_address_new("localhost", str(lo.lo_server_thread_get_port(server)))
    message = lo.lo_message_new()
    lo.lo_message_add_int32(message, 440)
    lo.lo_message_add_string(message, "hören")
    lo.lo_send_message(address, "/tone", message)
    print(*arrived.get(timeout=10))
    lo.lo_message_free(message)
    lo.lo_address_free(address)
    lo.lo_server_thread_free(server)


if __name__ == "__main__":
    main()
