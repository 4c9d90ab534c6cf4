/* What a PVM reaches, by its C interface; which PVM is a matter of the library it is linked with.
 *
 * pvm WHAT SECONDS ENCODING ROUTE TYPE PLACE X...
 *
 * WHAT is one of the functions at the end of this file, ENCODING default, raw or inplace, ROUTE allow or direct, TYPE
 * byte or double, and PLACE a host to spawn on, or - for any. Spawned tasks get the same arguments. */
#include "bench.h"

#include <pvm3.h>

enum { ORDER = 1, DATA, DONE, PARTNER, ANSWER };

/* Longer lines of results are not sent. */
#define LINE 80

static int encoding = PvmDataDefault, doubles;
static char *place = "", **spawn_arguments;
static double seconds;
static char *out, *in;
static int other;

static int must(int result, const char *call)
{
    if (result < 0) {
        fprintf(stderr, "%s: error %d\n", call, result);
        pvm_exit();
        exit(1);
    }
    return result;
}

#define MUST(call) must(call, #call)

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

static void send_data(char *data, long size)
{
    pack(data, size);
    MUST(pvm_send(other, DATA));
}

static void receive_data(char *data, long size)
{
    MUST(pvm_recv(other, DATA));
    unpack(data, size);
}

/* What the other end is to do next: so many times with this size. */
static void order(long x, long times)
{
    long both[] = { x, times };
    begin(PvmDataDefault);
    MUST(pvm_pklong(both, 2, 1));
    MUST(pvm_send(other, ORDER));
}

/* Whether there is more to do. */
static int ordered(long *x, long *times)
{
    long both[2];
    MUST(pvm_recv(other, ORDER));
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

/* Ping-pong. */

static void there_and_back(long size, long times)
{
    order(size, times);
    for (long i = 0; i < times; i++) {
        send_data(out, size);
        receive_data(in, size);
    }
}

static void echo(void)
{
    long size, times;
    while (ordered(&size, &times)) {
        for (long i = 0; i < times; i++) {
            receive_data(in, size);
            send_data(in, size);
        }
    }
}

static void check_there_and_back(long size)
{
    fill(out, size, 3);
    memset(in, 0, size);
    there_and_back(size, 1);
    verify(in, size, 3);
}

/* Many messages one way, then one back. */

#define FLOOD 64

static void one_way(long size, long times)
{
    order(size, times);
    for (long i = 0; i < times; i++) {
        for (int n = 0; n < FLOOD; n++) send_data(out, size);
        MUST(pvm_recv(other, ANSWER));
    }
}

static void drain(void)
{
    long size, times;
    while (ordered(&size, &times)) {
        for (long i = 0; i < times; i++) {
            for (int n = 0; n < FLOOD; n++) receive_data(in, size);
            empty_message(other, ANSWER);
        }
        verify(in, size, 4);
    }
}

/* Both halves of a pair, wherever they come from. */

static void answer_pings(const char *what)
{
    if (!strncmp(what, "rate", 4)) drain();
    else echo();
}

/* What one half finds out goes to `report_to`, or to standard output if that is 0. */
static void tell(int report_to, long x, double result)
{
    if (report_to == 0) {
        report(x, result);
        return;
    }
    double both[] = { (double)x, result };
    begin(PvmDataDefault);
    MUST(pvm_pkdouble(both, 2, 1));
    MUST(pvm_send(report_to, DONE));
}

static void measure_pair(const char *what, char **x, int report_to)
{
    for (; *x; x++) {
        long size = atol(*x);
        if (!strncmp(what, "rate", 4)) {
            fill(out, size, 4);
            tell(report_to, size, timed(one_way, size, seconds) / FLOOD);
        } else {
            check_there_and_back(size);
            tell(report_to, size, timed(there_and_back, size, seconds) / 2);
        }
    }
    order(0, 0);
}

static void spawn_tasks(int count, int *tids)
{
    int started = pvm_spawn(spawn_arguments[0], spawn_arguments + 1, *place ? PvmTaskHost : PvmTaskDefault, place, count, tids);
    if (started != count) {
        fprintf(stderr, "%d of %d tasks started, first error %d\n", started, count, tids[count - 1]);
        pvm_exit();
        exit(1);
    }
}

/* pingpong, rate: a task and its child. */
static void parent_and_child(const char *what, char **x)
{
    int parent = pvm_parent();
    if (parent > 0) {
        other = parent;
        answer_pings(what);
        return;
    }
    spawn_tasks(1, &other);
    measure_pair(what, x, 0);
}

static void introduce(int to, int partner, int measures)
{
    int both[] = { partner, measures };
    begin(PvmDataDefault);
    MUST(pvm_pkint(both, 2, 1));
    MUST(pvm_send(to, PARTNER));
}

/* pingpong-siblings, rate-siblings: two children of a task that waits. */
static void siblings(const char *what, char **x)
{
    int parent = pvm_parent(), tids[2], both[2];
    if (parent > 0) {
        MUST(pvm_recv(parent, PARTNER));
        MUST(pvm_upkint(both, 2, 1));
        other = both[0];
        if (both[1]) measure_pair(what, x, parent);
        else answer_pings(what);
        return;
    }
    spawn_tasks(2, tids);
    introduce(tids[1], tids[0], 0);
    introduce(tids[0], tids[1], 1);
    for (; *x; x++) {
        double line[2];
        MUST(pvm_recv(tids[0], DONE));
        MUST(pvm_upkdouble(line, 2, 1));
        report((long)line[0], line[1]);
    }
}

static int encoding_of(const char *name)
{
    if (!strcmp(name, "raw")) return PvmDataRaw;
    if (!strcmp(name, "inplace")) return PvmDataInPlace;
    return PvmDataDefault;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "nothing")) return 0;
    if (argc < 8) fail("usage: pvm WHAT SECONDS ENCODING ROUTE TYPE PLACE X...");
    const char *what = argv[1];
    char **x = argv + 7;
    spawn_arguments = argv;
    seconds = atof(argv[2]);
    encoding = encoding_of(argv[3]);
    doubles = !strcmp(argv[5], "double");
    if (strcmp(argv[6], "-")) place = argv[6];
    long most = 1;
    for (char **each = x; *each; each++) most = atol(*each) > most ? atol(*each) : most;
    out = memory(most < MOST ? most + 8 : MOST);
    in = memory(most < MOST ? most + 8 : MOST);
    MUST(pvm_mytid());
    if (!strcmp(argv[4], "direct")) pvm_setopt(PvmRoute, PvmRouteDirect);
    if (strstr(what, "-siblings")) siblings(what, x);
    else parent_and_child(what, x);
    pvm_exit();
    return 0;
}
