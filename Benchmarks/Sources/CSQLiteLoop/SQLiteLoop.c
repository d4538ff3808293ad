// For Linux only. Elsewhere the target is empty, because SwiftPM builds every target of a package.
#ifdef __linux__
#include "CSQLiteLoop.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

// The part of SQLite that is used, declared by hand: names and values are part of its stable binary interface.
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;

int sqlite3_open_v2(const char *filename, sqlite3 **database, int flags, const char *vfs);
int sqlite3_close_v2(sqlite3 *database);
const char *sqlite3_errmsg(sqlite3 *database);
int sqlite3_exec(sqlite3 *database, const char *sql, int (*row)(void *, int, char **, char **), void *context, char **error);
int sqlite3_prepare_v2(sqlite3 *database, const char *sql, int byte_count, sqlite3_stmt **statement, const char **tail);
int sqlite3_step(sqlite3_stmt *statement);
int sqlite3_reset(sqlite3_stmt *statement);
int sqlite3_finalize(sqlite3_stmt *statement);
int sqlite3_bind_int64(sqlite3_stmt *statement, int index, int64_t value);
int sqlite3_bind_text(sqlite3_stmt *statement, int index, const char *text, int byte_count, void (*destructor)(void *));

enum { READ_WRITE = 2, NO_MUTEX = 0x8000, DONE = 101, STATEMENTS = 4 };

// Fills the same columns as the queue. The triggers of the database count these jobs too.
static const char *const texts[STATEMENTS] = {
    "BEGIN IMMEDIATE",
    "INSERT INTO job(position, id, kind, state, priority, due_clock, missing, behind, method, url, body, idempotency_key, added)"
    " VALUES(?1, ?2, 'order', 0, 0, 0, 0, 0, 'POST', ?3, ?1, ?2, 1)",
    "INSERT INTO body VALUES(?1, CAST(?2 AS BLOB), NULL)",
    "COMMIT",
};

long convoy_bench_sqlite_add(
    const char *file, long count, const char *url, const char *body, char *error, size_t error_size) {
    sqlite3 *database = NULL;
    sqlite3_stmt *statements[STATEMENTS] = {NULL};
    long added = 0;
    int code = sqlite3_open_v2(file, &database, READ_WRITE | NO_MUTEX, NULL);
    if (code == 0) code = sqlite3_exec(database, "PRAGMA synchronous = FULL; PRAGMA cache_size = -8192", NULL, NULL, NULL);
    for (int index = 0; code == 0 && index < STATEMENTS; index++)
        code = sqlite3_prepare_v2(database, texts[index], -1, &statements[index], NULL);
    while (code == 0 && added < count) {
        char id[64];
        snprintf(id, sizeof id, "00000000-0000-4000-8000-%012ld", added);
        sqlite3_bind_int64(statements[1], 1, added + 1);
        sqlite3_bind_text(statements[1], 2, id, -1, NULL);
        sqlite3_bind_text(statements[1], 3, url, -1, NULL);
        sqlite3_bind_int64(statements[2], 1, added + 1);
        sqlite3_bind_text(statements[2], 2, body, -1, NULL);
        for (int index = 0; code == 0 && index < STATEMENTS; index++) {
            int step = sqlite3_step(statements[index]);
            sqlite3_reset(statements[index]);
            if (step != DONE) code = step;
        }
        if (code == 0) added++;
    }
    if (code != 0 && error_size > 0)
        snprintf(error, error_size, "%s (%d)", database ? sqlite3_errmsg(database) : "no memory", code);
    for (int index = 0; index < STATEMENTS; index++) sqlite3_finalize(statements[index]);
    sqlite3_close_v2(database);
    return added;
}
#endif
