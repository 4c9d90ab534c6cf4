/* Tasks that move all the time, and send each other numbered messages with checksums meanwhile.

   wander TASKS MILLISECONDS [HOST ...]
     spawns the tasks, moves them to these hosts at random, and has them stop after that time. Prints a line for each end of a task that was
     not asked for, and at last what has come: an error, or "ok".

   A task checks that what each other sends comes whole, once and in order, wherever the two are. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <pvm3.h>
#include <pvm3x.h>

enum { TASKS_MAX = 32, LONGEST = 40000 };
enum { BEGIN = 1, DATA, STOP, END, DONE, LOST };

/* What a task takes along. */
static struct {
    int index, count, parent, is_stopped;
    int tids[TASKS_MAX];
    int sent[TASKS_MAX], received[TASKS_MAX], expected[TASKS_MAX], is_over[TASKS_MAX];
    int moves;
    unsigned random;
} own;

static unsigned draw(unsigned below)
{
    own.random = own.random * 1103515245u + 12345u;
    return (own.random >> 8) % below;
}

static int save(void)
{
    return pvm_pkbyte((char *)&own, sizeof own, 1);
}

static int restore(void)
{
    return pvm_upkbyte((char *)&own, sizeof own, 1);
}

/* What comes next of a task: messages that are late come then, and lost ones do not. */
static void print_next(int from)
{
    struct timeval while_ = { 2, 0 };
    int number, i;
    printf("task %d: next of task %d come", own.index, from);
    for (i = 0; i < 60 && pvm_trecv(own.tids[from], DATA, &while_) > 0; i++) {
        pvm_upkint(&number, 1, 1);
        printf(" %d", number);
    }
    printf("\n");
}

static void fail(const char *what, int from, int number)
{
    printf("task %d: %s of task %d, number %d, after %d messages and %d moves\n", own.index, what, from, number,
           from >= 0 && from < own.count ? own.received[from] : -1, own.moves);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&own.index, 1, 1);
    pvm_pkstr((char *)what);
    pvm_send(own.parent, LOST);
    pvm_exit();
    exit(1);
}

static int index_of(int tid)
{
    int i;
    for (i = 0; i < own.count; i++)
        if (own.tids[i] == tid)
            return i;
    return -1;
}

static void send_data(int to)
{
    static char bytes[LONGEST];
    int number = own.sent[to]++, length = draw(4) ? (int)draw(200) : (int)draw(LONGEST), i;
    unsigned sum = 0;
    for (i = 0; i < length; i++) {
        bytes[i] = (char)(number * 31 + i * 7 + own.index);
        sum = sum * 33 + (unsigned char)bytes[i];
    }
    pvm_initsend(draw(2) ? PvmDataDefault : PvmDataRaw);
    pvm_pkint(&number, 1, 1);
    pvm_pkint(&length, 1, 1);
    pvm_pkuint(&sum, 1, 1);
    pvm_pkbyte(bytes, length, 1);
    pvm_send(own.tids[to], DATA);
}

static void check_data(int from)
{
    static char bytes[LONGEST];
    int number, length, i;
    unsigned sum, is = 0;
    pvm_upkint(&number, 1, 1);
    pvm_upkint(&length, 1, 1);
    pvm_upkuint(&sum, 1, 1);
    if (number != own.received[from]) {
        print_next(from);
        fail("message out of order", from, number);
    }
    if (length < 0 || length > LONGEST || pvm_upkbyte(bytes, length, 1) < 0)
        fail("message that is not whole", from, number);
    for (i = 0; i < length; i++)
        is = is * 33 + (unsigned char)bytes[i];
    if (is != sum)
        fail("message with a wrong sum", from, number);
    own.received[from]++;
}

/* Nothing more is sent to the others; each is told how much it was. */
static void stop(void)
{
    int i, alive[TASKS_MAX];
    pvm_upkint(alive, own.count, 1);
    own.is_stopped = 1;
    for (i = 0; i < own.count; i++) {
        if (!alive[i])
            own.is_over[i] = 1;
        else if (i != own.index) {
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&own.sent[i], 1, 1);
            pvm_send(own.tids[i], END);
        }
    }
    own.is_over[own.index] = 1;
}

static int is_complete(void)
{
    int i;
    for (i = 0; i < own.count; i++)
        if (!own.is_over[i])
            return 0;
    return own.is_stopped;
}

static int task(int tid)
{
    struct timeval while_ = { 0, 2000 };
    int bytes, tag, from, i, total = 0, was = pvm_migratable(save, restore);
    if (was < 0)
        return 1;
    if (was)
        own.moves++;
    else {
        own.parent = pvm_parent();
        pvm_recv(own.parent, BEGIN);
        pvm_upkint(&own.index, 1, 1);
        pvm_upkint(&own.count, 1, 1);
        pvm_upkint(own.tids, own.count, 1);
        own.random = 77 + own.index;
    }
    if (own.tids[own.index] != tid)
        fail("another id", own.index, tid);
    while (!is_complete()) {
        int got = pvm_trecv(-1, -1, &while_);
        if (got < 0)
            fail("a failed receive", own.index, got);
        if (!own.is_stopped && (got == 0 || draw(2)))
            for (i = draw(3); i >= 0; i--) {
                int to = draw(own.count);
                if (to != own.index)
                    send_data(to);
            }
        if (got == 0)
            continue;
        pvm_bufinfo(got, &bytes, &tag, &from);
        if (tag == STOP)
            stop();
        else if ((i = index_of(from)) < 0)
            fail("message of a stranger", from, tag);
        else if (tag == DATA)
            check_data(i);
        else if (tag == END) {
            pvm_upkint(&own.expected[i], 1, 1);
            own.is_over[i] = 1;
            if (own.received[i] != own.expected[i])
                fail("a missing message", i, own.received[i]);
        }
    }
    for (i = 0; i < own.count; i++)
        total += own.received[i];
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&own.index, 1, 1);
    pvm_pkint(&total, 1, 1);
    pvm_pkint(&own.moves, 1, 1);
    pvm_send(own.parent, DONE);
    pvm_exit();
    return 0;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Takes in what has come; whether a task has failed. */
static int take_in(int count, int *tids, int *alive, int *left, int *messages, int *moves)
{
    int got, bytes, tag, from, i, tid;
    while ((got = pvm_nrecv(-1, -1)) > 0) {
        pvm_bufinfo(got, &bytes, &tag, &from);
        if (tag == LOST) {
            char what[200];
            pvm_upkint(&i, 1, 1);
            pvm_upkstr(what);
            printf("failed: task %d: %s\n", i, what);
            return 1;
        }
        if (tag == DONE) {
            int of, its;
            pvm_upkint(&i, 1, 1);
            pvm_upkint(&of, 1, 1);
            pvm_upkint(&its, 1, 1);
            *messages += of;
            *moves += its;
            if (!alive[i])
                return printf("failed: task %d was said to have ended, and lives\n", i), 1;
            alive[i] = 0;
            --*left;
        } else {
            pvm_upkint(&tid, 1, 1);
            for (i = 0; i < count; i++)
                if (tids[i] == tid && alive[i]) {
                    printf("task %d has ended\n", i);
                    alive[i] = 0;
                    --*left;
                }
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    int mytid = pvm_mytid(), count, i, left, messages = 0, moves = 0, asked = 0, done = 0;
    int tids[TASKS_MAX], alive[TASKS_MAX];
    double end;
    if (argc < 3)
        return task(mytid);
    setvbuf(stdout, NULL, _IOLBF, 0);
    count = atoi(argv[1]);
    own.random = 5;
    if (count < 2 || count > TASKS_MAX || pvm_spawn(argv[0], NULL, PvmTaskDefault, "", count, tids) != count)
        return printf("failed: not all are spawned\n"), 1;
    for (i = 0; i < count; i++) {
        alive[i] = 1;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_pkint(&count, 1, 1);
        pvm_pkint(tids, count, 1);
        pvm_send(tids[i], BEGIN);
    }
    pvm_notify(PvmTaskExit, 99, count, tids);
    printf("begun\n");
    end = now() + atoi(argv[2]) / 1e3;
    for (left = count; now() < end && left > 0;) {
        int which = draw(count), code;
        if (take_in(count, tids, alive, &left, &messages, &moves))
            return 1;
        if (argc > 3 && alive[which]) {
            asked++;
            code = pvm_move(tids[which], argv[3 + draw(argc - 3)]);
            if (code >= 0)
                done++;
        }
    }
    /* A task that has ended on its own would be waited for by the others. */
    sleep(argc > 3 ? 4 : 0);
    if (take_in(count, tids, alive, &left, &messages, &moves))
        return 1;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(alive, count, 1);
    pvm_mcast(tids, count, STOP);
    for (end = now() + 60; left > 0 && now() < end; usleep(1000))
        if (take_in(count, tids, alive, &left, &messages, &moves))
            return 1;
    printf("%s: %d messages, %d moves asked for, %d made, %d seen\n", left ? "failed" : "ok", messages, asked, done, moves);
    for (i = 0; left && i < count; i++)
        if (alive[i])
            printf("task %d (t%x) has not ended\n", i, tids[i]);
    pvm_exit();
    return left != 0;
}
