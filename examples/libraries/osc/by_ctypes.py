"""liblo's server calls a Python function in a thread of its own, with a Python object.

With ctypes.
"""

import ctypes as ct
import queue

ARGUMENTS = ct.POINTER(ct.c_void_p)
HANDLER = ct.CFUNCTYPE(
    ct.c_int, ct.c_char_p, ct.c_char_p, ARGUMENTS, ct.c_int, ct.c_void_p, ct.py_object
)
lo = ct.CDLL("liblo.so.7")
lo.lo_server_thread_new.argtypes, lo.lo_server_thread_new.restype = (
    [ct.c_char_p, ct.c_void_p],
    ct.c_void_p,
)
lo.lo_server_thread_get_port.argtypes = [ct.c_void_p]
lo.lo_server_thread_add_method.argtypes = [ct.c_void_p, ct.c_char_p, ct.c_char_p]
lo.lo_server_thread_add_method.argtypes += [HANDLER, ct.py_object]
lo.lo_server_thread_add_method.restype = ct.c_void_p
lo.lo_server_thread_start.argtypes = [ct.c_void_p]
lo.lo_server_thread_free.argtypes, lo.lo_server_thread_free.restype = [ct.c_void_p], None
lo.lo_address_new.argtypes, lo.lo_address_new.restype = [ct.c_char_p] * 2, ct.c_void_p
lo.lo_message_new.restype = ct.c_void_p
lo.lo_message_add_int32.argtypes = [ct.c_void_p, ct.c_int32]
lo.lo_message_add_string.argtypes = [ct.c_void_p, ct.c_char_p]
lo.lo_send_message.argtypes = [ct.c_void_p, ct.c_char_p, ct.c_void_p]
lo.lo_message_free.argtypes, lo.lo_message_free.restype = [ct.c_void_p], None
lo.lo_address_free.argtypes, lo.lo_address_free.restype = [ct.c_void_p], None


@HANDLER
def received(path, types, arguments, count, message, to):
    number = ct.cast(arguments[0], ct.POINTER(ct.c_int32))[0]
    to.put((path.decode(), number, ct.string_at(arguments[1]).decode()))
    return 0


def main():
    arrived = queue.Queue()
    server = lo.lo_server_thread_new(None, None)
    lo.lo_server_thread_add_method(server, b"/tone", b"is", received, arrived)
    lo.lo_server_thread_start(server)
    address = lo.lo_address_new(b"localhost", str(lo.lo_server_thread_get_port(server)).encode())
    message = lo.lo_message_new()
    lo.lo_message_add_int32(message, 440)
    lo.lo_message_add_string(message, "hören".encode())
    lo.lo_send_message(address, b"/tone", message)
    print(*arrived.get(timeout=10))
    lo.lo_message_free(message)
    lo.lo_address_free(address)
    lo.lo_server_thread_free(server)


if __name__ == "__main__":
    main()
