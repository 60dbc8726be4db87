"""Read rows of SQLite as strings: it returns text as ``const unsigned char *``."""

import nativecall as nc

lite = nc.load(
    "sqlite3",
    header="sqlite3.h",
    encoding="utf-8",
    out={"sqlite3_open": ["ppDb"], "sqlite3_prepare_v2": ["ppStmt"]},
    errors={"sqlite3_open": "nonzero", "sqlite3_prepare_v2": "nonzero"},
)


def rows(db, sql):
    """The rows of a query, as texts; None for NULL."""
    statement = lite.sqlite3_prepare_v2(db, sql, -1, None)
    while lite.sqlite3_step(statement) == lite.SQLITE_ROW:
        columns = range(lite.sqlite3_column_count(statement))
        yield [lite.sqlite3_column_text(statement, one) for one in columns]
    lite.sqlite3_finalize(statement)


def main():
    db = lite.sqlite3_open(":memory:")
    print(*rows(db, "select 'Grüße', 1.5, null union all select '日本', x'41', ''"))
    try:
        print(*rows(db, "select nothing"))
    except nc.NativeFailure:
        print(lite.sqlite3_errmsg(db))
    lite.sqlite3_close(db)


if __name__ == "__main__":
    main()
