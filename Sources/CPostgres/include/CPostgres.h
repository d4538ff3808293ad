// libpq, PostgreSQL's client library, loaded at run time. The program also starts without it.
//
// The used types and functions are declared by hand. They are a stable binary interface since PostgreSQL 9.3, unless
// stated otherwise.
#ifndef CONVOY_CPOSTGRES_H
#define CONVOY_CPOSTGRES_H

#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

/// A connection and a result: `PGconn` and `PGresult`.
typedef struct convoy_pg_connection convoy_pg_connection;
typedef struct convoy_pg_result convoy_pg_result;

/// `PGnotify` of libpq-fe.h.
typedef struct {
    char *channel;
    int process;
    char *payload;
    void *next;
} convoy_pg_notification;

/// The used values of `ConnStatusType` and `PostgresPollingStatusType`.
enum { CONVOY_PG_CONNECTION_OK = 0, CONVOY_PG_CONNECTION_BAD = 1 };
enum {
    CONVOY_PG_POLLING_FAILED = 0,
    CONVOY_PG_POLLING_READING = 1,
    CONVOY_PG_POLLING_WRITING = 2,
    CONVOY_PG_POLLING_OK = 3,
};
/// The used values of `ExecStatusType`.
enum {
    CONVOY_PG_EMPTY_QUERY = 0,
    CONVOY_PG_COMMAND_OK = 1,
    CONVOY_PG_TUPLES_OK = 2,
    CONVOY_PG_PIPELINE_SYNC = 10,
    CONVOY_PG_PIPELINE_ABORTED = 11,
};
/// Fields of an error: postgres_ext.h.
enum { CONVOY_PG_DIAG_SQLSTATE = 'C', CONVOY_PG_DIAG_MESSAGE = 'M' };

typedef void (*convoy_pg_notice_processor)(void *_Nullable context, const char *message);

/// The functions of libpq by the names of libpq-fe.h without their `PQ`.
typedef struct {
    /// All parameters, or NULL with a reason, which the caller frees with `freemem`.
    void *_Nullable (*_Nonnull conninfoParse)(const char *conninfo, char *_Nullable *_Nonnull reason);
    void (*_Nonnull conninfoFree)(void *_Nullable list);
    convoy_pg_connection *_Nullable (*_Nonnull connectStartParams)(
        const char *_Nullable const *_Nullable keywords, const char *_Nullable const *_Nullable values,
        int expandsDatabaseName);
    int (*_Nonnull connectPoll)(convoy_pg_connection *connection);
    int (*_Nonnull status)(const convoy_pg_connection *connection);
    int (*_Nonnull socket)(const convoy_pg_connection *connection);
    char *_Nullable (*_Nonnull errorMessage)(const convoy_pg_connection *connection);
    int (*_Nonnull serverVersion)(const convoy_pg_connection *connection);
    int (*_Nonnull setnonblocking)(convoy_pg_connection *connection, int value);
    convoy_pg_notice_processor _Nullable (*_Nonnull setNoticeProcessor)(
        convoy_pg_connection *connection, convoy_pg_notice_processor processor, void *_Nullable context);
    void (*_Nonnull finish)(convoy_pg_connection *connection);

    int (*_Nonnull sendPrepare)(
        convoy_pg_connection *connection, const char *name, const char *statement, int count,
        const uint32_t *_Nullable types);
    int (*_Nonnull sendQueryPrepared)(
        convoy_pg_connection *connection, const char *name, int count,
        const char *_Nullable const *_Nullable values, const int *_Nullable lengths, const int *_Nullable formats,
        int resultFormat);
    int (*_Nonnull flush)(convoy_pg_connection *connection);
    int (*_Nonnull consumeInput)(convoy_pg_connection *connection);
    int (*_Nonnull isBusy)(convoy_pg_connection *connection);
    convoy_pg_result *_Nullable (*_Nonnull getResult)(convoy_pg_connection *connection);
    convoy_pg_notification *_Nullable (*_Nonnull notifies)(convoy_pg_connection *connection);
    void (*_Nonnull freemem)(void *_Nullable memory);

    int (*_Nonnull resultStatus)(const convoy_pg_result *_Nullable result);
    char *_Nullable (*_Nonnull resultErrorField)(const convoy_pg_result *_Nullable result, int field);
    char *_Nullable (*_Nonnull cmdTuples)(convoy_pg_result *result);
    int (*_Nonnull ntuples)(const convoy_pg_result *result);
    int (*_Nonnull nfields)(const convoy_pg_result *result);
    int (*_Nonnull getisnull)(const convoy_pg_result *result, int row, int column);
    int (*_Nonnull getlength)(const convoy_pg_result *result, int row, int column);
    char *_Nullable (*_Nonnull getvalue)(const convoy_pg_result *result, int row, int column);
    void (*_Nonnull clear)(convoy_pg_result *_Nullable result);

    /// Functions for several statements in one round trip.
    ///
    /// All are NULL before PostgreSQL 14.
    int (*_Nullable enterPipelineMode)(convoy_pg_connection *connection);
    int (*_Nullable exitPipelineMode)(convoy_pg_connection *connection);
    int (*_Nullable pipelineSync)(convoy_pg_connection *connection);
} convoy_pg_functions;

/// Loads a library and finds all functions; NULL when something is missing.
///
/// `missing` is then the name of the function, or the system's message, which must be copied at once. If no memory is
/// left, `missing` is not set.
///
/// Loaded libraries are never unloaded. The function may be called on any thread.
const convoy_pg_functions *_Nullable convoy_pg_open(const char *name, const char *_Nullable *_Nonnull missing);

#pragma clang assume_nonnull end
#endif
