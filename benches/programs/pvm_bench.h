/* What the measured programs of PVM share: packing, orders, spawning and the arguments,
 *
 *   WHAT SECONDS ENCODING ROUTE TYPE PLACE X...
 *
 * where ENCODING is default, raw or inplace, ROUTE allow or direct, TYPE byte or double, and PLACE a host to spawn on,
 * - for any, or * for all hosts in turn. Spawned tasks get the same arguments. */
#ifndef PVM_BENCH_H
#define PVM_BENCH_H

#include "bench.h"
#include "must.h"

#include <pvm3.h>

enum { ORDER = 1, DATA, DONE, PARTNER, ANSWER };

static int encoding = PvmDataDefault, doubles;
static char *place = "", **spawn_arguments;
static double seconds;
static char *out, *in;

static void begin(int how)
{
    MUST(pvm_initsend(how));
}

static void pack(char *data, long size)
{
    begin(encoding);
    if (doubles) MUST(pvm_pkdouble((double *)data, size / 8, 1));
    else MUST(pvm_pkbyte(data, size, 1));
}

static void unpack(char *data, long size)
{
    if (doubles) MUST(pvm_upkdouble((double *)data, size / 8, 1));
    else MUST(pvm_upkbyte(data, size, 1));
}

/* What others are to do next: how often, and with which x; a count of 0 ends them. */
static void order_all(int *tids, int count, long x, long times)
{
    long both[] = { x, times };
    begin(PvmDataDefault);
    MUST(pvm_pklong(both, 2, 1));
    MUST(pvm_mcast(tids, count, ORDER));
}

/* Whether there is more to do. */
static int ordered(int from, long *x, long *times)
{
    long both[2];
    MUST(pvm_recv(from, ORDER));
    MUST(pvm_upklong(both, 2, 1));
    *x = both[0];
    *times = both[1];
    return *times > 0;
}

static void empty_message(int to, int tag)
{
    begin(PvmDataDefault);
    MUST(pvm_send(to, tag));
}

static int spawn_at(char *host, int count, int *tids)
{
    return pvm_spawn(spawn_arguments[0], spawn_arguments + 1, *host ? PvmTaskHost : PvmTaskDefault, host, count, tids);
}

/* One after the other; how many. */
static int spawn_on_all_hosts(int count, int *tids)
{
    struct pvmhostinfo *hosts;
    int most, n = 0;
    MUST(pvm_config(&most, NULL, &hosts));
    while (n < count && spawn_at(hosts[n % most].hi_name, 1, &tids[n]) == 1) n++;
    return n;
}

static void spawn_tasks(int count, int *tids)
{
    int started = strcmp(place, "*") ? spawn_at(place, count, tids) : spawn_on_all_hosts(count, tids);
    if (started != count) {
        fprintf(stderr, "%d of %d tasks started, first error %d\n", started, count, tids[count - 1]);
        pvm_exit();
        exit(1);
    }
}

static int encoding_of(const char *name)
{
    if (!strcmp(name, "raw")) return PvmDataRaw;
    if (!strcmp(name, "inplace")) return PvmDataInPlace;
    return PvmDataDefault;
}

/* Takes the arguments, becomes a task, and returns where the x begin. */
static char **set_up(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "nothing")) exit(0);
    if (argc < 8) fail("usage: WHAT SECONDS ENCODING ROUTE TYPE PLACE X...");
    spawn_arguments = argv;
    seconds = atof(argv[2]);
    encoding = encoding_of(argv[3]);
    doubles = !strcmp(argv[5], "double");
    if (strcmp(argv[6], "-")) place = argv[6];
    MUST(pvm_mytid());
    if (!strcmp(argv[4], "direct")) pvm_setopt(PvmRoute, PvmRouteDirect);
    if (!strcmp(argv[4], "daemons")) pvm_setopt(PvmRoute, PvmDontRoute);
    return argv + 7;
}

/* Memory for messages of any of these sizes. */
static void make_room(char **sizes)
{
    long most = 8;
    for (; *sizes; sizes++) most = atol(*sizes) > most ? atol(*sizes) : most;
    out = memory(most);
    in = memory(most);
}

#endif
