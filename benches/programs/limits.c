/* What this machine could do at best, without any message passing system. limits WHAT SECONDS [ARGUMENT] X... */
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *out, *in;

/* Two processes flip a word in turn. */

static _Atomic long *word;

/* The other process flips from odd to even, this one from even to odd. */
static void flip(long x, long times)
{
    (void)x;
    for (long i = 0; i < times; i++) {
        long mine = atomic_load_explicit(word, memory_order_relaxed) + 1;
        atomic_store_explicit(word, mine, memory_order_release);
        while (atomic_load_explicit(word, memory_order_acquire) == mine);
    }
}

static void flip_back(void)
{
    for (;;) {
        long seen = atomic_load_explicit(word, memory_order_acquire);
        if (seen < 0) exit(0);
        if (seen % 2) atomic_store_explicit(word, seen + 1, memory_order_release);
    }
}

/* Two processes on one core would wait for each other's time slices. */
static void stay_on(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void *shared(long size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) fail("no shared memory");
    return bytes;
}

static void words(double seconds, char **x)
{
    int last = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    word = shared(4096);
    pid_t other = fork();
    if (other == 0) stay_on(last), flip_back();
    stay_on(0);
    for (; *x; x++) report(atol(*x), timed(flip, atol(*x), seconds) / 2);
    atomic_store(word, -1);
    waitpid(other, NULL, 0);
}

/* In and out of a place between: the two copies that data makes from one program's array into another's. */

static char *between;

static void copy_twice(long size, long times)
{
    for (long i = 0; i < times; i++) {
        memcpy(between, out, size);
        __asm__ volatile("" ::: "memory");
        memcpy(in, between, size);
        __asm__ volatile("" ::: "memory");
    }
}

static void copies(double seconds, char **x)
{
    between = memory(MOST);
    for (; *x; x++) {
        long size = atol(*x);
        fill(out, size, 1);
        report(size, timed(copy_twice, size, seconds));
        verify(in, size, 1);
    }
}

/* The same between two processes: into shared memory, and out of it into the other's array. */

static long *told;
static char *there, *back;

/* As the library does it, since some processors copy between caches slowly by the one instruction that memcpy takes for more. */
static void copy(char *to, const char *from, long size)
{
    long piece = size <= 1 << 20 ? 2048 : size;
    for (long at = 0; at < size; at += piece) memcpy(to + at, from + at, size - at < piece ? size - at : piece);
}

static void copy_there_and_back(long size, long times)
{
    *told = size;
    for (long i = 0; i < times; i++) {
        copy(there, out, size);
        flip(0, 1);
        copy(in, back, size);
    }
}

static void copy_back(void)
{
    for (;;) {
        long seen = atomic_load_explicit(word, memory_order_acquire);
        if (seen < 0) exit(0);
        if (seen % 2 == 0) continue;
        copy(in, there, *told);
        copy(back, in, *told);
        atomic_store_explicit(word, seen + 1, memory_order_release);
    }
}

static void between_processes(double seconds, char **x)
{
    /* As far behind a page's begin as the arrays: some processors copy at a tenth of their speed what moves by less than 32 bytes. */
    long behind = (unsigned long)in % 4096;
    there = (char *)shared(MOST + 4096) + behind;
    back = (char *)shared(MOST + 4096) + behind;
    word = shared(4096);
    told = shared(4096);
    pid_t other = fork();
    if (other == 0) stay_on(sysconf(_SC_NPROCESSORS_ONLN) - 1), copy_back();
    stay_on(0);
    for (; *x; x++) {
        long size = atol(*x);
        fill(out, size, 3);
        report(size, timed(copy_there_and_back, size, seconds) / 2);
        verify(in, size, 3);
    }
    atomic_store(word, -1);
    waitpid(other, NULL, 0);
}

/* A plain connection; the other end, `serve`, tells its port and serves for ever. */

static int connection;

static void transfer(int sends, char *data, long size)
{
    while (size > 0) {
        ssize_t done = sends ? write(connection, data, size) : read(connection, data, size);
        if (done <= 0) exit(sends ? 1 : 0);
        data += done;
        size -= done;
    }
}

/* Tells the other first what will come. */
static void there_and_back(long size, long times)
{
    long order[] = { size, times };
    transfer(1, (char *)order, sizeof order);
    for (long i = 0; i < times; i++) {
        transfer(1, out, size);
        transfer(0, in, size);
    }
}

static void without_delay(void)
{
    int one = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Until the other closes. */
static void echo(void)
{
    for (;;) {
        long order[2];
        transfer(0, (char *)order, sizeof order);
        for (long i = 0; i < order[1]; i++) {
            transfer(0, in, order[0]);
            transfer(1, in, order[0]);
        }
    }
}

static void serve(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof address;
    signal(SIGCHLD, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, length) || listen(listener, 1)) fail("cannot listen");
    getsockname(listener, (void *)&address, &length);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    while ((connection = accept(listener, NULL, NULL)) >= 0) {
        without_delay();
        if (fork() == 0) echo();
        close(connection);
    }
}

static void tcp(double seconds, const char *host, const char *port, char **x)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
    inet_pton(AF_INET, host, &address.sin_addr);
    connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection, (void *)&address, sizeof address)) fail("cannot connect");
    without_delay();
    for (; *x; x++) {
        long size = atol(*x);
        fill(out, size, 2);
        there_and_back(size, 1);
        verify(in, size, 2);
        report(size, timed(there_and_back, size, seconds) / 2);
    }
}

/* Processes that are started, end, and are waited for, several at the same time. */

static char *program;

static void wait_for_one(void)
{
    int status;
    if (wait(&status) < 0 || status != 0) fail("a process did not end well");
}

static void start(long batch, long times)
{
    char *arguments[] = { program, "nothing", NULL };
    const long most = 4 * sysconf(_SC_NPROCESSORS_ONLN);
    for (long i = 0; i < times; i++) {
        long running = 0;
        for (long n = 0; n < batch; n++) {
            if (posix_spawn(&(pid_t){ 0 }, program, NULL, NULL, arguments, environ)) fail("cannot start a process");
            if (++running == most) wait_for_one(), running--;
        }
        for (; running > 0; running--) wait_for_one();
    }
}

static void spawn(double seconds, char **x)
{
    for (; *x; x++) report(atol(*x), timed(start, atol(*x), seconds) / atol(*x));
}

/* A console, given as the program, starts the machine that there is not, and halts it. */
static void start_and_halt(long hosts, long times)
{
    char *arguments[] = { program, NULL };
    (void)hosts;
    for (long i = 0; i < times; i++) {
        int ends[2], status;
        posix_spawn_file_actions_t actions;
        if (pipe2(ends, O_CLOEXEC) < 0 || write(ends[1], "halt\n", 5) != 5) fail("no pipe");
        close(ends[1]);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
        for (int n = 1; n < 3; n++) posix_spawn_file_actions_addopen(&actions, n, "/dev/null", O_WRONLY, 0);
        if (posix_spawn(&(pid_t){ 0 }, program, &actions, NULL, arguments, environ)) fail("cannot start the console");
        close(ends[0]);
        /* The original's console is terminated by its daemon. */
        if (wait(&status) < 0 || (status != 0 && WTERMSIG(status) != SIGTERM)) fail("a machine was not halted");
        posix_spawn_file_actions_destroy(&actions);
    }
}

static void machine(double seconds, char **x)
{
    for (; *x; x++) report(atol(*x), timed(start_and_halt, atol(*x), seconds));
}

/* How long two processes wait for each other at a socket while others are started as above, or nothing happens. */

static void pass(int socket, int sends)
{
    char byte = 0;
    if ((sends ? write(socket, &byte, 1) : read(socket, &byte, 1)) != 1) exit(!sends ? 0 : 1);
}

static void start_for_a_time(long batch)
{
    for (double begin = now(); now() - begin < LASTS;) start(batch, 1);
    exit(0);
}

static double wait_for_answers(int socket)
{
    double *each = memory(MOST_TIMES * sizeof *each);
    long n = 0;
    for (double begin = now(); now() - begin < LASTS && n < MOST_TIMES;) {
        double asked = now();
        pass(socket, 1);
        pass(socket, 0);
        each[n++] = now() - asked;
        pause_between();
    }
    double result = percentile(each, n);
    free(each);
    return result;
}

static void answers(int idle, char **x)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) fail("no sockets");
    pid_t other = fork();
    if (other == 0) {
        close(ends[0]);
        for (;;) pass(ends[1], 0), pass(ends[1], 1);
    }
    close(ends[1]);
    for (; *x; x++) {
        pid_t load = idle ? 0 : fork();
        if (!idle && load == 0) close(ends[0]), start_for_a_time(atol(*x));
        report(atol(*x), wait_for_answers(ends[0]));
        if (!idle) waitpid(load, NULL, 0);
    }
    close(ends[0]);
    waitpid(other, NULL, 0);
}

int main(int argc, char **argv)
{
    if (argc < 3) fail("usage: limits words|copies|processes|serve|tcp|spawn|machine|answers|answers-idle SECONDS ...");
    const char *what = argv[1];
    double seconds = atof(argv[2]);
    out = memory(MOST);
    in = memory(MOST);
    if (!strcmp(what, "words")) words(seconds, argv + 3);
    else if (!strcmp(what, "copies")) copies(seconds, argv + 3);
    else if (!strcmp(what, "processes")) between_processes(seconds, argv + 3);
    else if (!strcmp(what, "serve")) serve();
    else if (!strcmp(what, "tcp") && argc > 4) tcp(seconds, argv[3], argv[4], argv + 5);
    else if (!strcmp(what, "spawn") && argc > 3) program = argv[3], spawn(seconds, argv + 4);
    else if (!strcmp(what, "machine") && argc > 3) program = argv[3], machine(seconds, argv + 4);
    else if (!strncmp(what, "answers", 7) && argc > 3) program = argv[3], answers(strstr(what, "idle") != NULL, argv + 4);
    else fail("no such measurement");
    return 0;
}
