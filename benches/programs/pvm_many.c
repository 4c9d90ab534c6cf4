/* What many tasks of PVM reach, by its C interface. For the arguments see pvm_bench.h; WHAT is a function at the end. */
#include "pvm_bench.h"

#define MOST_TASKS 4096
#define GROUP "benchmark"

/* Values in a reduction: 1 KiB. */
#define VALUES 128

static int tids[MOST_TASKS], count;

/* multicast, fanin: this many children of one task. */
#define CHILDREN 15

static void multicast(long size, long times)
{
    order_all(tids, count, size, times);
    for (long i = 0; i < times; i++) {
        pack(out, size);
        MUST(pvm_mcast(tids, count, DATA));
        for (int n = 0; n < count; n++) MUST(pvm_recv(-1, ANSWER));
    }
}

static void answer_multicasts(int parent)
{
    long size, times;
    while (ordered(parent, &size, &times)) {
        for (long i = 0; i < times; i++) {
            MUST(pvm_recv(parent, DATA));
            unpack(in, size);
            empty_message(parent, ANSWER);
        }
        verify_once(in, size, 5);
    }
}

static void fan_in(long size, long times)
{
    order_all(tids, count, size, times);
    for (long i = 0; i < times * count; i++) {
        MUST(pvm_recv(-1, DATA));
        unpack(in, size);
    }
    verify_once(in, size, 5);
}

static void send_all_at_once(int parent)
{
    long size, times;
    while (ordered(parent, &size, &times)) {
        fill(out, size, 5);
        for (long i = 0; i < times; i++) {
            pack(out, size);
            MUST(pvm_send(parent, DATA));
        }
    }
}

static void one_and_children(const char *what, char **x)
{
    int fans_in = !strcmp(what, "fanin"), parent = pvm_parent();
    make_room(x);
    if (parent > 0) {
        if (fans_in) send_all_at_once(parent);
        else answer_multicasts(parent);
        return;
    }
    count = CHILDREN;
    spawn_tasks(count, tids);
    for (; *x; x++) {
        long size = atol(*x);
        fill(out, size, 5);
        if (fans_in) report(size, timed(fan_in, size, seconds) / count);
        else report(size, timed(multicast, size, seconds));
    }
    order_all(tids, count, 0, 0);
}

/* barrier, broadcast, reduce, gather, scatter: a group of x tasks. Each member is the root in its turn, so that none can
 * run ahead. */

static int instance;
static const char *operation;

/* The arrays of all members. */
static double *all;

static void sum_up(int turn, int tag)
{
    double values[VALUES];
    for (int n = 0; n < VALUES; n++) values[n] = n + 1;
    MUST(pvm_reduce(PvmSum, values, VALUES, PVM_DOUBLE, tag, GROUP, turn));
    if (turn == instance && values[VALUES - 1] != (double)VALUES * count) fail("the sum is wrong");
}

static void collect(int turn, int tag)
{
    double values[VALUES];
    for (int n = 0; n < VALUES; n++) values[n] = n + instance;
    MUST(pvm_gather(all, values, VALUES, PVM_DOUBLE, tag, GROUP, turn));
    if (turn == instance && all[VALUES * count - 1] != VALUES - 1 + count - 1) fail("what was gathered is wrong");
}

static void distribute(int turn, int tag)
{
    double values[VALUES];
    MUST(pvm_scatter(values, all, VALUES, PVM_DOUBLE, tag, GROUP, turn));
    if (values[VALUES - 1] != VALUES * (instance + 1) - 1) fail("what was scattered is wrong");
}

static void rotate(long x, long times)
{
    (void)x;
    for (long i = 0; i < times * count; i++) {
        int turn = i % count, tag = 1000 + i % 1024;
        if (!strcmp(operation, "reduce")) sum_up(turn, tag);
        else if (!strcmp(operation, "gather")) collect(turn, tag);
        else if (!strcmp(operation, "scatter")) distribute(turn, tag);
        else if (turn == instance) {
            pack(out, VALUES * 8);
            MUST(pvm_bcast(GROUP, tag));
        } else {
            MUST(pvm_recv(-1, tag));
            unpack(in, VALUES * 8);
        }
    }
    MUST(pvm_barrier(GROUP, count));
}

static void meet(long x, long times)
{
    (void)x;
    for (long i = 0; i < times; i++) MUST(pvm_barrier(GROUP, count));
}

static void act_together(long x, long times)
{
    if (!strcmp(operation, "barrier")) meet(x, times);
    else rotate(x, times);
}

static void lead(long x, long times)
{
    order_all(tids + 1, count - 1, x, times);
    act_together(x, times);
}

/* The parent's half of an introduction: each task learns of all. */
static void spawn_and_introduce(void)
{
    spawn_tasks(count, tids);
    begin(PvmDataDefault);
    MUST(pvm_pkint(&count, 1, 1));
    MUST(pvm_pkint(tids, count, 1));
    MUST(pvm_mcast(tids, count, PARTNER));
}

/* A task's half. */
static void meet_others(int parent)
{
    MUST(pvm_recv(parent, PARTNER));
    MUST(pvm_upkint(&count, 1, 1));
    MUST(pvm_upkint(tids, count, 1));
}

static void be_member(int parent)
{
    long x, times;
    meet_others(parent);
    instance = MUST(pvm_joingroup(GROUP));
    out = memory(VALUES * 8);
    in = memory(VALUES * 8);
    fill(out, VALUES * 8, 6);
    all = memory(VALUES * 8 * count);
    for (int n = 0; n < VALUES * count; n++) all[n] = n;
    MUST(pvm_barrier(GROUP, count));
    if (tids[0] == pvm_mytid()) {
        double took = timed(lead, count, seconds) / (strcmp(operation, "barrier") ? count : 1);
        order_all(tids + 1, count - 1, 0, 0);
        begin(PvmDataDefault);
        MUST(pvm_pkdouble(&took, 1, 1));
        MUST(pvm_send(parent, DONE));
    } else {
        while (ordered(tids[0], &x, &times)) act_together(x, times);
    }
    if (!strcmp(operation, "broadcast")) verify(in, VALUES * 8, 6);
    MUST(pvm_barrier(GROUP, count));
    MUST(pvm_lvgroup(GROUP));
}

static void group(const char *what, char **x)
{
    double took;
    operation = what;
    if (pvm_parent() > 0) {
        be_member(pvm_parent());
        return;
    }
    count = atoi(*x);
    if (count > MOST_TASKS) fail("too many members");
    spawn_and_introduce();
    MUST(pvm_recv(-1, DONE));
    MUST(pvm_upkdouble(&took, 1, 1));
    report(count, took);
}

/* crowd: x tasks in pairs that all play ping-pong with 4 bytes for a time. */

static void play_for_a_time(int other)
{
    int stop = 0;
    long times = 0;
    double start = now(), end = start + seconds;
    while (!stop) {
        stop = now() >= end;
        begin(encoding);
        MUST(pvm_pkint(&stop, 1, 1));
        MUST(pvm_send(other, DATA));
        MUST(pvm_recv(other, DATA));
        times++;
    }
    double took = (now() - start) / times / 2;
    begin(PvmDataDefault);
    MUST(pvm_pkdouble(&took, 1, 1));
    MUST(pvm_send(pvm_parent(), DONE));
}

static void play_until_stopped(int other)
{
    int stop = 0;
    while (!stop) {
        MUST(pvm_recv(other, DATA));
        MUST(pvm_upkint(&stop, 1, 1));
        begin(encoding);
        MUST(pvm_pkint(&stop, 1, 1));
        MUST(pvm_send(other, DATA));
    }
}

static void play(int parent)
{
    int me = pvm_mytid(), place;
    meet_others(parent);
    for (place = 0; tids[place] != me; place++);
    empty_message(parent, ANSWER);
    MUST(pvm_recv(parent, ORDER));
    if (place % 2) play_until_stopped(tids[place - 1]);
    else play_for_a_time(tids[place + 1]);
}

static void crowd(char **x)
{
    if (pvm_parent() > 0) {
        play(pvm_parent());
        return;
    }
    double took, rate = 0;
    count = atoi(*x);
    spawn_and_introduce();
    for (int n = 0; n < count; n++) MUST(pvm_recv(-1, ANSWER));
    order_all(tids, count, 0, 0);
    for (int n = 0; n < count / 2; n++) {
        MUST(pvm_recv(-1, DONE));
        MUST(pvm_upkdouble(&took, 1, 1));
        rate += 1 / took;
    }
    report(count, count / 2 / rate);
}

/* spawn: tasks that say that they are there, and end. */

static void spawn_and_hear(long batch, long times)
{
    for (long i = 0; i < times; i++) {
        spawn_tasks(batch, tids);
        for (long n = 0; n < batch; n++) MUST(pvm_recv(-1, DONE));
    }
}

/* So that what is measured next is not disturbed. */
static void wait_until_alone(void)
{
    struct pvmtaskinfo *tasks;
    struct timespec pause = { .tv_nsec = 10000000 };
    int running;
    do {
        nanosleep(&pause, NULL);
        MUST(pvm_tasks(0, &running, &tasks));
        int children = 0;
        for (int n = 0; n < running; n++) children += tasks[n].ti_ptid == pvm_mytid();
        running = children;
    } while (running > 0);
}

static void spawn(char **x)
{
    if (pvm_parent() > 0) {
        empty_message(pvm_parent(), DONE);
        return;
    }
    for (; *x; x++) {
        long batch = atol(*x);
        if (batch > MOST_TASKS) fail("too many tasks");
        report(batch, timed(spawn_and_hear, batch, seconds) / batch);
        wait_until_alone();
    }
}

/* answers, requests: how long two other tasks wait for each other, or one of them for the daemon, while batches of x tasks
 * are spawned; with "idle" behind, while nothing happens. Of many times the 99th percentile. */

#define STOP ORDER

static void take_times(int parent, int other, int asks)
{
    double *each = memory(MOST_TIMES * sizeof *each);
    long n = 0;
    while (pvm_probe(parent, STOP) == 0 && n < MOST_TIMES) {
        double start = now();
        if (asks) {
            MUST(pvm_pstat(other));
        } else {
            empty_message(other, DATA);
            MUST(pvm_recv(other, DATA));
        }
        each[n++] = now() - start;
        pause_between();
    }
    double result = percentile(each, n);
    MUST(pvm_recv(parent, STOP));
    begin(PvmDataDefault);
    MUST(pvm_pkdouble(&result, 1, 1));
    MUST(pvm_send(parent, ANSWER));
}

static void echo_until_stopped(void)
{
    for (;;) {
        int from, tag, length;
        MUST(pvm_bufinfo(MUST(pvm_recv(-1, -1)), &length, &tag, &from));
        if (tag == STOP) return;
        empty_message(from, DATA);
    }
}

/* The first of the two is told of the second, and what to do. */
static void be_one_of_two(int parent)
{
    int asks, other;
    MUST(pvm_setopt(PvmRoute, PvmDontRoute));
    MUST(pvm_recv(parent, PARTNER));
    MUST(pvm_upkint(&other, 1, 1));
    MUST(pvm_upkint(&asks, 1, 1));
    if (other > 0) take_times(parent, other, asks);
    else echo_until_stopped();
}

static void tell_partner(int to, int other, int asks)
{
    begin(PvmDataDefault);
    MUST(pvm_pkint(&other, 1, 1));
    MUST(pvm_pkint(&asks, 1, 1));
    MUST(pvm_send(to, PARTNER));
}

static void answer_times(const char *what, char **x)
{
    if (pvm_parent() > 0) {
        be_one_of_two(pvm_parent());
        return;
    }
    struct timespec rest = { .tv_sec = LASTS };
    int two[2], asks = !strncmp(what, "requests", 8), idle = strstr(what, "idle") != NULL;
    double result;
    spawn_tasks(2, two);
    tell_partner(two[1], 0, asks);
    tell_partner(two[0], two[1], asks);
    spawn_arguments[1] = "spawn";
    if (idle) nanosleep(&rest, NULL);
    else for (double start = now(); now() - start < LASTS;) spawn_and_hear(atol(*x), 1);
    empty_message(two[0], STOP);
    MUST(pvm_recv(two[0], ANSWER));
    MUST(pvm_upkdouble(&result, 1, 1));
    report(atol(*x), result);
    empty_message(two[1], STOP);
    wait_until_alone();
}

int main(int argc, char **argv)
{
    char **x = set_up(argc, argv);
    const char *what = argv[1];
    if (!strcmp(what, "multicast") || !strcmp(what, "fanin")) one_and_children(what, x);
    else if (!strcmp(what, "crowd")) crowd(x);
    else if (!strcmp(what, "spawn")) spawn(x);
    else if (!strncmp(what, "answers", 7) || !strncmp(what, "requests", 8)) answer_times(what, x);
    else group(what, x);
    pvm_exit();
    return 0;
}
