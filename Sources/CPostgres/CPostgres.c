#include "CPostgres.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const convoy_pg_functions *convoy_pg_open(const char *name, const char **missing) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        *missing = dlerror();
        return NULL;
    }
    convoy_pg_functions *functions = calloc(1, sizeof *functions);
    if (functions == NULL) return NULL;
    const struct {
        const char *name;
        void *function;
    } table[] = {
        {"PQconninfoParse", &functions->conninfoParse},
        {"PQconninfoFree", &functions->conninfoFree},
        {"PQconnectStartParams", &functions->connectStartParams},
        {"PQconnectPoll", &functions->connectPoll},
        {"PQstatus", &functions->status},
        {"PQsocket", &functions->socket},
        {"PQerrorMessage", &functions->errorMessage},
        {"PQserverVersion", &functions->serverVersion},
        {"PQsetnonblocking", &functions->setnonblocking},
        {"PQsetNoticeProcessor", &functions->setNoticeProcessor},
        {"PQfinish", &functions->finish},
        {"PQsendPrepare", &functions->sendPrepare},
        {"PQsendQueryPrepared", &functions->sendQueryPrepared},
        {"PQflush", &functions->flush},
        {"PQconsumeInput", &functions->consumeInput},
        {"PQisBusy", &functions->isBusy},
        {"PQgetResult", &functions->getResult},
        {"PQnotifies", &functions->notifies},
        {"PQfreemem", &functions->freemem},
        {"PQresultStatus", &functions->resultStatus},
        {"PQresultErrorField", &functions->resultErrorField},
        {"PQcmdTuples", &functions->cmdTuples},
        {"PQntuples", &functions->ntuples},
        {"PQnfields", &functions->nfields},
        {"PQgetisnull", &functions->getisnull},
        {"PQgetlength", &functions->getlength},
        {"PQgetvalue", &functions->getvalue},
        {"PQclear", &functions->clear},
    };
    for (size_t index = 0; index < sizeof table / sizeof *table; index++) {
        void *address = dlsym(library, table[index].name);
        if (address == NULL) {
            *missing = table[index].name;
            free(functions);
            return NULL;
        }
        memcpy(table[index].function, &address, sizeof address);
    }
    void *enter = dlsym(library, "PQenterPipelineMode");
    void *leave = dlsym(library, "PQexitPipelineMode");
    void *sync = dlsym(library, "PQpipelineSync");
    if (enter != NULL && leave != NULL && sync != NULL) {
        memcpy(&functions->enterPipelineMode, &enter, sizeof enter);
        memcpy(&functions->exitPipelineMode, &leave, sizeof leave);
        memcpy(&functions->pipelineSync, &sync, sizeof sync);
    }
    return functions;
}
