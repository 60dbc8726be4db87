"""Call a Python function from SQL, and get the rows of SQLite in a callback."""

import nativecall as nc

lite = nc.load(
    "sqlite3",
    header="sqlite3.h",
    encoding="utf-8",
    out={"sqlite3_open": ["ppDb"]},
    keep={"sqlite3_create_function": "db"},
)


class Database:
    """A database in memory."""

    def __init__(self):
        status, self.db = lite.sqlite3_open(":memory:")
        self.check(status)

    def __del__(self):
        lite.sqlite3_close(self.db)

    def check(self, status):
        if status:
            raise RuntimeError(lite.sqlite3_errmsg(self.db))

    def define(self, name, function):
        """Call a function of a number by a name in SQL."""

        def call(context, count, values):
            try:
                lite.sqlite3_result_double(context, function(lite.sqlite3_value_double(values[0])))
            except Exception as error:
                lite.sqlite3_result_error(context, str(error), -1)

        self.check(
            lite.sqlite3_create_function(self.db, name, 1, lite.SQLITE_UTF8, None, call, None, None)
        )

    def execute(self, sql, row=lambda *values: None):
        """Run statements, and have a function called with the texts of each row."""

        def call(data, count, values, names):
            row(*[nc.string(values[i], "utf-8") for i in range(count)])
            return 0

        self.check(lite.sqlite3_exec(self.db, sql, call, None, None))


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
