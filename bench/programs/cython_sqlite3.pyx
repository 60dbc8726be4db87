# cython: language_level=3
"""SQLite in Cython: rows of text and an integer."""

cdef extern from "sqlite3.h":
    ctypedef struct sqlite3
    ctypedef struct sqlite3_stmt
    int SQLITE_ROW
    int sqlite3_open(const char *, sqlite3 **)
    int sqlite3_close(sqlite3 *)
    int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **)
    int sqlite3_step(sqlite3_stmt *)
    int sqlite3_finalize(sqlite3_stmt *)
    const unsigned char *sqlite3_column_text(sqlite3_stmt *, int)
    int sqlite3_column_int(sqlite3_stmt *, int)


cdef class Database:
    """A database in memory."""
    cdef sqlite3 *database

    def __cinit__(self):
        if sqlite3_open(":memory:", &self.database) != 0:
            raise MemoryError

    def __dealloc__(self):
        sqlite3_close(self.database)

    def rows(self, str sql not None):
        return Rows(self, sql.encode())


cdef class Rows:
    """The rows of a query."""
    cdef Database database
    cdef sqlite3_stmt *statement

    def __cinit__(self, Database database not None, bytes sql not None):
        self.database = database
        if sqlite3_prepare_v2(database.database, sql, -1, &self.statement, NULL) != 0:
            raise ValueError(sql)

    def __dealloc__(self):
        sqlite3_finalize(self.statement)

    def __iter__(self):
        return self

    def __next__(self):
        if sqlite3_step(self.statement) != SQLITE_ROW:
            raise StopIteration
        text = (<const char *>sqlite3_column_text(self.statement, 0)).decode()
        return text, sqlite3_column_int(self.statement, 1)
