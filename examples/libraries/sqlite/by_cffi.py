"""SQLite with a function of Python's in SQL, and a callback for rows: with cffi."""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct sqlite3 sqlite3;
    typedef struct sqlite3_context sqlite3_context;
    typedef struct sqlite3_value sqlite3_value;
    int sqlite3_open(const char *, sqlite3 **);
    int sqlite3_close(sqlite3 *);
    const char *sqlite3_errmsg(sqlite3 *);
    int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *,
                     char **);
    int sqlite3_create_function(sqlite3 *, const char *, int, int, void *,
                                void (*)(sqlite3_context *, int, sqlite3_value **), void *, void *);
    double sqlite3_value_double(sqlite3_value *);
    void sqlite3_result_double(sqlite3_context *, double);
    void sqlite3_result_error(sqlite3_context *, const char *, int);
""")
lite = ffi.dlopen("libsqlite3.so")
SQLITE_UTF8, SQLITE_ABORT = 1, 4


class Database:
    """A database in memory."""

    def __init__(self):
        found = ffi.new("sqlite3 **")
        status = lite.sqlite3_open(b":memory:", found)
        self.db = ffi.gc(found[0], lite.sqlite3_close)
        self.kept, self.raised = [], []
        self.check(status)

    def check(self, status):
        if status:
            raise RuntimeError(ffi.string(lite.sqlite3_errmsg(self.db)).decode())

    def define(self, name, function):
        """Call a function of a number by a name in SQL."""

        @ffi.callback("void(sqlite3_context *, int, sqlite3_value **)")
        def call(context, count, values):
            try:
                lite.sqlite3_result_double(context, function(lite.sqlite3_value_double(values[0])))
            except Exception as error:
                lite.sqlite3_result_error(context, str(error).encode(), -1)

        self.kept.append(call)
        null = ffi.NULL
        self.check(
            lite.sqlite3_create_function(
                self.db, name.encode(), 1, SQLITE_UTF8, null, call, null, null
            )
        )

    def execute(self, sql, row=lambda *values: None):
        """Run statements, and have a function called with the texts of each row."""
        self.raised.clear()

        @ffi.callback("int(void *, int, char **, char **)", error=SQLITE_ABORT, onerror=self.note)
        def call(data, count, values, names):
            row(*[ffi.string(values[i]).decode() if values[i] else None for i in range(count)])
            return 0

        status = lite.sqlite3_exec(self.db, sql.encode(), call, ffi.NULL, ffi.NULL)
        if self.raised:
            raise self.raised[0]
        self.check(status)

    def note(self, kind, error, traceback):
        self.raised.append(error)


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
