"""SQLite with a function of Python's in SQL, and a callback for rows: with ctypes."""

import ctypes as ct

TEXTS = ct.POINTER(ct.c_char_p)
ROW = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.c_int, TEXTS, TEXTS)
FUNCTION = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_int, ct.POINTER(ct.c_void_p))
lite = ct.CDLL("libsqlite3.so")
lite.sqlite3_open.argtypes = [ct.c_char_p, ct.POINTER(ct.c_void_p)]
lite.sqlite3_close.argtypes = [ct.c_void_p]
lite.sqlite3_errmsg.argtypes, lite.sqlite3_errmsg.restype = [ct.c_void_p], ct.c_char_p
lite.sqlite3_exec.argtypes = [ct.c_void_p, ct.c_char_p, ROW, ct.c_void_p, ct.POINTER(ct.c_char_p)]
lite.sqlite3_create_function.argtypes = [ct.c_void_p, ct.c_char_p, ct.c_int, ct.c_int, ct.c_void_p]
lite.sqlite3_create_function.argtypes += [FUNCTION, ct.c_void_p, ct.c_void_p]
lite.sqlite3_value_double.argtypes, lite.sqlite3_value_double.restype = [ct.c_void_p], ct.c_double
lite.sqlite3_result_double.argtypes = [ct.c_void_p, ct.c_double]
lite.sqlite3_result_double.restype = None
lite.sqlite3_result_error.argtypes = [ct.c_void_p, ct.c_char_p, ct.c_int]
lite.sqlite3_result_error.restype = None
SQLITE_UTF8, SQLITE_ABORT = 1, 4


class Database:
    """A database in memory."""

    def __init__(self):
        self.db, self.kept = ct.c_void_p(), []
        self.check(lite.sqlite3_open(b":memory:", ct.byref(self.db)))

    def __del__(self):
        lite.sqlite3_close(self.db)

    def check(self, status):
        if status:
            raise RuntimeError(lite.sqlite3_errmsg(self.db).decode())

    def define(self, name, function):
        """Call a function of a number by a name in SQL."""

        def call(context, count, values):
            try:
                lite.sqlite3_result_double(context, function(lite.sqlite3_value_double(values[0])))
            except Exception as error:
                lite.sqlite3_result_error(context, str(error).encode(), -1)

        self.kept.append(FUNCTION(call))
        self.check(
            lite.sqlite3_create_function(
                self.db, name.encode(), 1, SQLITE_UTF8, None, self.kept[-1], None, None
            )
        )

    def execute(self, sql, row=lambda *values: None):
        """Run statements, and have a function called with the texts of each row."""
        raised = []

        def call(data, count, values, names):
            try:
                row(*[None if values[i] is None else values[i].decode() for i in range(count)])
                return 0
            except Exception as error:
                raised.append(error)
                return SQLITE_ABORT

        status = lite.sqlite3_exec(self.db, sql.encode(), ROW(call), None, None)
        if raised:
            raise raised[0]
        self.check(status)


def main():
    database = Database()
    database.define("cube", lambda x: x**3)
    database.define("fail", lambda x: 1 / (x - 2))
    database.execute("create table t(x); insert into t values (1), (2), (3), (null)")
    database.execute("select x, cube(x) from t", print)
    for sql in ("select fail(x) from t", "select y from t"):
        try:
            database.execute(sql, print)
        except RuntimeError as error:
            print(error)
    try:
        database.execute("select x from t", lambda x: print(1 / (int(x) - 2)))
    except ZeroDivisionError as error:
        print(error)


if __name__ == "__main__":
    main()
