// Links a program once, and forks a process of it for each start. For Linux.
//
// Linking a program with Foundation and libcurl takes more processor time than most of the tests' short runs. Fuzzers
// save this time in the same way, with a fork server. Tests compile this file with
// `clang -shared -fPIC -Wl,-z,initfirst` and load it into the program by LD_PRELOAD. The dynamic linker then calls
// `serve` after it has linked all libraries and before it initialises the first one, libc included. A forked process
// returns from `serve`, so its libraries and its program begin as in any new process.
//
// The server has FORK_SERVER in its environment, and a sequenced socket as its standard input. A message on this socket
// starts a process. The message has four descriptors: standard input, output and error, and a socket for answers. Its
// bytes are the number of arguments (4 bytes), the number of variables (4), the arguments and variables, each with a
// NUL, and the working directory with a NUL. On the socket for answers, the server writes the process identifier (4
// bytes), or -1. When the process has ended, the server writes the status of waitpid(2) (4 bytes). A message without
// descriptors has the identifier of a process (4 bytes), and a signal for the process (4). The server ends when its
// socket is closed, and its processes end with it.
//
// A forked process stores its arguments in the space of the server's arguments. The server's last argument is therefore
// long, and its other arguments are empty. The process stores its arguments twice: libc reads them at the end of the
// stack, and Swift's runtime searches for them backwards from the environment.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { streamCount = 3, fileCount = 4, mostChildren = 512, mostBytes = 100 * 1024 };

// The processes whose end has not been seen, and their sockets.
static struct {
    pid_t identifier;
    int answers;
} children[mostChildren];
static int childCount;

static union {
    struct {
        uint32_t argumentCount, variableCount;
        char text[mostBytes];
    };
    struct {
        int32_t receiver, signal;
    };
} message;

static void answer(int file, int32_t number) {
    // The write fails if the tests have closed their end of the socket.
    ssize_t written = write(file, &number, sizeof number);
    (void)written;
}

static void reap(void) {
    int status;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int index = 0; index < childCount; index++) {
            if (children[index].identifier != ended) continue;
            answer(children[index].answers, status);
            close(children[index].answers);
            children[index] = children[--childCount];
            break;
        }
    }
}

/// Receives a message; returns the length of its text, 0 for a signal, or -1 if there are no more messages.
static ssize_t receive(int requests, int files[fileCount]) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * fileCount)];
    } control;
    struct iovec piece = {&message, sizeof message};
    struct msghdr head = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t length = recvmsg(requests, &head, MSG_CMSG_CLOEXEC);
    if (length == offsetof(__typeof__(message), text)) return 0;
    struct cmsghdr *rights = length > 0 ? CMSG_FIRSTHDR(&head) : NULL;
    if (rights == NULL || rights->cmsg_len != CMSG_LEN(sizeof(int) * fileCount)) return -1;
    memcpy(files, CMSG_DATA(rights), sizeof(int) * fileCount);
    return length - (ssize_t)(sizeof message - sizeof message.text);
}

/// Sends the signal of the message to its process, unless the server has seen the end of the process. After the end,
/// another process may have the identifier.
static void signalChild(void) {
    for (int index = 0; index < childCount; index++)
        if (children[index].identifier == message.receiver) kill(message.receiver, message.signal);
}

/// Whether the arguments and variables of the message fit into the space of the server's own.
static int hasRoom(int argumentCount, int variableCount, const char *place, ssize_t length) {
    return length > 0 && 2 * message.argumentCount + 2 <= (uint32_t)argumentCount
        && message.variableCount <= (uint32_t)variableCount && (size_t)length <= strlen(place);
}

/// Gives this forked process the arguments, variables, directory and streams of the message.
static void become(char **arguments, char **variables, char *place, ssize_t length, const int files[fileCount]) {
    memcpy(place, message.text, (size_t)length);
    char **copy = variables - 1 - message.argumentCount;
    arguments[-1] = copy[-1] = (char *)(uintptr_t)message.argumentCount;
    for (uint32_t index = 0; index < message.argumentCount; index++, place += strlen(place) + 1)
        arguments[index] = copy[index] = place;
    for (uint32_t index = 0; index < message.variableCount; index++, place += strlen(place) + 1)
        variables[index] = place;
    arguments[message.argumentCount] = variables[-1] = variables[message.variableCount] = NULL;
    if (chdir(place) != 0) _exit(1);
    for (int index = 0; index < childCount; index++) close(children[index].answers);
    for (int index = 0; index < streamCount; index++) dup2(files[index], index);
    for (int index = 0; index < fileCount; index++) close(files[index]);
}

__attribute__((constructor)) static void serve(int argumentCount, char **arguments, char **variables) {
    int variableCount = 0, isServer = 0;
    for (; variables[variableCount] != NULL; variableCount++)
        isServer |= strncmp(variables[variableCount], "FORK_SERVER=", 12) == 0;
    if (!isServer) return;
    pid_t server = getpid();
    sigset_t ending, before;
    sigemptyset(&ending);
    sigaddset(&ending, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ending, &before);
    // A write to a closed pipe must not end the server.
    sigset_t closed;
    sigemptyset(&closed);
    sigaddset(&closed, SIGPIPE);
    sigprocmask(SIG_BLOCK, &closed, NULL);
    // The descriptors 0 to 2 become the streams of the processes, so the server moves its socket.
    int requests = dup(STDIN_FILENO), endings = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
    for (;;) {
        struct pollfd polled[] = {{requests, POLLIN, 0}, {endings, POLLIN, 0}};
        if (poll(polled, 2, -1) < 0 && errno != EINTR) _exit(1);
        struct signalfd_siginfo information;
        while (read(endings, &information, sizeof information) > 0) {}
        reap();
        if (polled[0].revents == 0) continue;
        int files[fileCount];
        ssize_t length = receive(requests, files);
        if (length < 0) _exit(0);
        if (length == 0) {
            signalChild();
            continue;
        }
        char *place = arguments[argumentCount - 1];
        int isPossible = childCount < mostChildren && hasRoom(argumentCount, variableCount, place, length);
        pid_t identifier = isPossible ? fork() : -1;
        // Both processes set the group, so that it exists whichever process runs first.
        if (identifier >= 0) setpgid(identifier, 0);
        if (identifier == 0) {
            // Only the server can end this process, so the process must end with the server. If the server has ended
            // before the call, this process has another parent.
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != server) _exit(1);
            sigprocmask(SIG_SETMASK, &before, NULL);
            close(requests);
            close(endings);
            return become(arguments, variables, place, length, files);
        }
        answer(files[streamCount], identifier);
        for (int index = 0; index < streamCount; index++) close(files[index]);
        if (identifier < 0) {
            close(files[streamCount]);
        } else {
            children[childCount].identifier = identifier;
            children[childCount++].answers = files[streamCount];
        }
    }
}
