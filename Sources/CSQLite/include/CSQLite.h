// The part of SQLite that ConvoyQueue and ConvoyCache use, declared by hand. The system's library suffices; its headers
// are not needed.
//
// Names, values and layouts are SQLite's own. They are part of its stable binary interface
// (https://sqlite.org/c3ref/intro.html).
#ifndef CSQLITE_H
#define CSQLITE_H

#include <stdint.h>

/// A connection to a database.
typedef struct sqlite3 sqlite3;
/// A prepared statement.
typedef struct sqlite3_stmt sqlite3_stmt;
/// Releases bound bytes.
typedef void (*sqlite3_destructor_type)(void *);

int sqlite3_libversion_number(void);
const char *sqlite3_libversion(void);

int sqlite3_open_v2(const char *filename, sqlite3 **database, int flags, const char *vfs);
int sqlite3_close_v2(sqlite3 *database);
int sqlite3_busy_timeout(sqlite3 *database, int milliseconds);
int sqlite3_extended_result_codes(sqlite3 *database, int on);
int sqlite3_extended_errcode(sqlite3 *database);
int sqlite3_system_errno(sqlite3 *database);
const char *sqlite3_errmsg(sqlite3 *database);
int sqlite3_changes(sqlite3 *database);
int sqlite3_get_autocommit(sqlite3 *database);
int64_t sqlite3_last_insert_rowid(sqlite3 *database);
int sqlite3_exec(sqlite3 *database, const char *sql, int (*row)(void *, int, char **, char **), void *context, char **error);

int sqlite3_prepare_v2(sqlite3 *database, const char *sql, int byte_count, sqlite3_stmt **statement, const char **tail);
int sqlite3_step(sqlite3_stmt *statement);
int sqlite3_reset(sqlite3_stmt *statement);
int sqlite3_finalize(sqlite3_stmt *statement);

int sqlite3_bind_int64(sqlite3_stmt *statement, int index, int64_t value);
int sqlite3_bind_null(sqlite3_stmt *statement, int index);
int sqlite3_bind_text(
    sqlite3_stmt *statement, int index, const char *text, int byte_count, sqlite3_destructor_type destructor);
int sqlite3_bind_blob(
    sqlite3_stmt *statement, int index, const void *bytes, int byte_count, sqlite3_destructor_type destructor);

int sqlite3_column_type(sqlite3_stmt *statement, int column);
int64_t sqlite3_column_int64(sqlite3_stmt *statement, int column);
const unsigned char *sqlite3_column_text(sqlite3_stmt *statement, int column);
const void *sqlite3_column_blob(sqlite3_stmt *statement, int column);
int sqlite3_column_bytes(sqlite3_stmt *statement, int column);

/// An open file of SQLite.
typedef struct sqlite3_file {
    const struct sqlite3_io_methods *pMethods;
} sqlite3_file;

/// The methods of an open file, as far as version 2 of the structure.
struct sqlite3_io_methods {
    int iVersion;
    int (*xClose)(sqlite3_file *);
    int (*xRead)(sqlite3_file *, void *, int, int64_t);
    int (*xWrite)(sqlite3_file *, const void *, int, int64_t);
    int (*xTruncate)(sqlite3_file *, int64_t);
    int (*xSync)(sqlite3_file *, int);
    int (*xFileSize)(sqlite3_file *, int64_t *);
    int (*xLock)(sqlite3_file *, int);
    int (*xUnlock)(sqlite3_file *, int);
    int (*xCheckReservedLock)(sqlite3_file *, int *);
    int (*xFileControl)(sqlite3_file *, int, void *);
    int (*xSectorSize)(sqlite3_file *);
    int (*xDeviceCharacteristics)(sqlite3_file *);
    int (*xShmMap)(sqlite3_file *, int, int, int, void **);
    int (*xShmLock)(sqlite3_file *, int, int, int);
    void (*xShmBarrier)(sqlite3_file *);
    int (*xShmUnmap)(sqlite3_file *, int);
};

int sqlite3_file_control(sqlite3 *database, const char *name, int operation, void *argument);

#endif
