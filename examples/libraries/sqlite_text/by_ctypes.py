"""SQLite gives text as `const unsigned char *`: rows of a table as strings, with ctypes."""

import ctypes as ct

lite = ct.CDLL("libsqlite3.so")
lite.sqlite3_open.argtypes = [ct.c_char_p, ct.POINTER(ct.c_void_p)]
lite.sqlite3_errmsg.argtypes, lite.sqlite3_errmsg.restype = [ct.c_void_p], ct.c_char_p
lite.sqlite3_prepare_v2.argtypes = [ct.c_void_p, ct.c_char_p, ct.c_int]
lite.sqlite3_prepare_v2.argtypes += [ct.POINTER(ct.c_void_p), ct.POINTER(ct.c_char_p)]
for name in ("close", "step", "finalize", "column_count"):
    getattr(lite, "sqlite3_" + name).argtypes = [ct.c_void_p]
lite.sqlite3_column_text.argtypes = [ct.c_void_p, ct.c_int]
lite.sqlite3_column_text.restype = ct.c_char_p
SQLITE_ROW = 100


def text(found):
    return None if found is None else found.decode()


def rows(db, sql):
    """The rows of a query, as texts; None for NULL."""
    statement = ct.c_void_p()
    if lite.sqlite3_prepare_v2(db, sql.encode(), -1, ct.byref(statement), None):
        raise RuntimeError(text(lite.sqlite3_errmsg(db)))
    while lite.sqlite3_step(statement) == SQLITE_ROW:
        columns = range(lite.sqlite3_column_count(statement))
        yield [text(lite.sqlite3_column_text(statement, one)) for one in columns]
    lite.sqlite3_finalize(statement)


def main():
    db = ct.c_void_p()
    if lite.sqlite3_open(b":memory:", ct.byref(db)):
        raise RuntimeError("no database")
    print(*rows(db, "select 'Grüße', 1.5, null union all select '日本', x'41', ''"))
    try:
        print(*rows(db, "select nothing"))
    except RuntimeError as error:
        print(error)
    lite.sqlite3_close(db)


if __name__ == "__main__":
    main()
