/* Workers answer each job with DATA, then READY. The master polls for one, then for the other, and counts how often it gets READY while
 * DATA of the same worker still waits. PVM promises no order across tags, but programs live by the one that polling calls show.
 *
 * poll_order nrecv|probe|trecv|select WORKERS JOBS MICROSECONDS [direct]; prints "early N of JOBS". With select the master waits at the
 * descriptors itself when both calls have found nothing, and ends with a failure if they stay silent for five seconds. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>

enum { JOB = 1, DATA, READY };

#define MAX_WORKERS 64

static const char *call;
static struct timeval limit;

/* Waits for something to read, at the descriptors that the library names. */
static void await_descriptors(void)
{
    struct timeval patience = {5, 0};
    int *list, count = pvm_getfds(&list), most = 0, i;
    fd_set set;
    FD_ZERO(&set);
    for (i = 0; i < count; i++) {
        FD_SET(list[i], &set);
        most = list[i] > most ? list[i] : most;
    }
    if (select(most + 1, &set, NULL, NULL, &patience) == 0) {
        printf("nothing to read\n");
        exit(1);
    }
}

/* A message with this tag if the polling call finds one. */
static int poll_for(int tag)
{
    int id;
    if (!strcmp(call, "nrecv") || !strcmp(call, "select"))
        return pvm_nrecv(-1, tag);
    if (!strcmp(call, "trecv"))
        return pvm_trecv(-1, tag, &limit);
    id = pvm_probe(-1, tag);
    return id > 0 ? pvm_recv(-1, tag) : id;
}

static void send_empty(int tid, int tag)
{
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, tag);
}

static int work(int parent)
{
    int last;
    for (;;) {
        pvm_recv(parent, JOB);
        pvm_upkint(&last, 1, 1);
        if (last)
            break;
        send_empty(parent, DATA);
        send_empty(parent, READY);
    }
    pvm_exit();
    return 0;
}

static void give(int tid, int last)
{
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&last, 1, 1);
    pvm_send(tid, JOB);
}

/* Which worker the message is from. */
static int sender_of(int id, const int *tids, int count)
{
    int length, tag, tid, i;
    pvm_bufinfo(id, &length, &tag, &tid);
    for (i = 0; i < count && tids[i] != tid; i++)
        ;
    return i;
}

int main(int argc, char **argv)
{
    int tids[MAX_WORKERS], data[MAX_WORKERS] = {0}, ready[MAX_WORKERS] = {0};
    int parent = pvm_parent(), direct = argc > 1 && !strcmp(argv[argc - 1], "direct");
    int workers, jobs, given, done = 0, early = 0, found = 1, i, id;
    if (direct)
        pvm_setopt(PvmRoute, PvmRouteDirect);
    if (parent > 0)
        return work(parent);
    if (argc < 5)
        return 2;
    call = argv[1];
    workers = atoi(argv[2]);
    jobs = atoi(argv[3]);
    limit.tv_usec = atoi(argv[4]);
    if (pvm_spawn(argv[0], argv + argc - direct, PvmTaskDefault, "", workers, tids) != workers)
        return 1;
    for (given = 0; given < workers; given++)
        give(tids[given], 0);
    while (done < jobs) {
        if (!found && !strcmp(call, "select"))
            await_descriptors();
        found = 0;
        if ((id = poll_for(READY)) > 0) {
            found = 1;
            i = sender_of(id, tids, workers);
            early += ++ready[i] > data[i];
            done++;
            if (given++ < jobs)
                give(tids[i], 0);
        }
        if ((id = poll_for(DATA)) > 0) {
            found = 1;
            data[sender_of(id, tids, workers)]++;
        }
    }
    for (i = 0; i < workers; i++)
        give(tids[i], 1);
    printf("early %d of %d\n", early, jobs);
    pvm_exit();
    return 0;
}
