"""SQLite gives text as `const unsigned char *`: rows of a table as strings, with cffi."""

from cffi import FFI

ffi = FFI()
ffi.cdef("""
    typedef struct sqlite3 sqlite3;
    typedef struct sqlite3_stmt sqlite3_stmt;
    int sqlite3_open(const char *, sqlite3 **);
    int sqlite3_close(sqlite3 *);
    const char *sqlite3_errmsg(sqlite3 *);
    int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
    int sqlite3_step(sqlite3_stmt *);
    int sqlite3_finalize(sqlite3_stmt *);
    int sqlite3_column_count(sqlite3_stmt *);
    const unsigned char *sqlite3_column_text(sqlite3_stmt *, int);
""")
lite = ffi.dlopen("libsqlite3.so")
SQLITE_ROW = 100


def text(pointer):
    return ffi.string(pointer).decode() if pointer else None


def rows(db, sql):
    """The rows of a query, as texts; None for NULL."""
    made = ffi.new("sqlite3_stmt **")
    if lite.sqlite3_prepare_v2(db, sql.encode(), -1, made, ffi.NULL):
        raise RuntimeError(text(lite.sqlite3_errmsg(db)))
    statement = made[0]
    while lite.sqlite3_step(statement) == SQLITE_ROW:
        columns = range(lite.sqlite3_column_count(statement))
        yield [text(lite.sqlite3_column_text(statement, one)) for one in columns]
    lite.sqlite3_finalize(statement)


def main():
    made = ffi.new("sqlite3 **")
    if lite.sqlite3_open(b":memory:", made):
        raise RuntimeError("no database")
    db = made[0]
    print(*rows(db, "select 'Grüße', 1.5, null union all select '日本', x'41', ''"))
    try:
        print(*rows(db, "select nothing"))
    except RuntimeError as error:
        print(error)
    lite.sqlite3_close(db)


if __name__ == "__main__":
    main()
