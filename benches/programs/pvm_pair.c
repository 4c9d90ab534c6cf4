/* What two tasks of PVM reach, by its C interface; which PVM is a matter of the library it is linked with. For the
 * arguments see pvm_bench.h; WHAT is pingpong or rate, or one of them with -siblings; pingpong-psend; rate-polled, or empty-polls. */
#include "pvm_bench.h"

static int other, polled, unpacked;

static void send_data(char *data, long size)
{
    if (unpacked) {
        MUST(pvm_psend(other, DATA, data, size, PVM_BYTE));
        return;
    }
    pack(data, size);
    MUST(pvm_send(other, DATA));
}

static void await_by_polls(void)
{
    int id;
    do id = pvm_nrecv(other, DATA);
    while (id == 0);
    MUST(id);
}

static void receive_data(char *data, long size)
{
    if (unpacked) {
        MUST(pvm_precv(other, DATA, data, size, PVM_BYTE, NULL, NULL, NULL));
        return;
    }
    if (polled) await_by_polls();
    else MUST(pvm_recv(other, DATA));
    unpack(data, size);
}

/* Ping-pong. */

static void there_and_back(long size, long times)
{
    order_all(&other, 1, size, times);
    for (long i = 0; i < times; i++) {
        send_data(out, size);
        receive_data(in, size);
    }
}

static void echo(void)
{
    long size, times;
    while (ordered(other, &size, &times)) {
        for (long i = 0; i < times; i++) {
            receive_data(in, size);
            send_data(in, size);
        }
    }
}

/* Many messages one way, then one back. */

#define FLOOD 64

static void one_way(long size, long times)
{
    order_all(&other, 1, size, times);
    for (long i = 0; i < times; i++) {
        for (int n = 0; n < FLOOD; n++) send_data(out, size);
        MUST(pvm_recv(other, ANSWER));
    }
}

static void drain(void)
{
    long size, times;
    while (ordered(other, &size, &times)) {
        for (long i = 0; i < times; i++) {
            for (int n = 0; n < FLOOD; n++) receive_data(in, size);
            empty_message(other, ANSWER);
        }
        verify_once(in, size, 4);
    }
}

/* Polls that find nothing. */

static void poll_in_vain(long size, long times)
{
    (void)size;
    for (long i = 0; i < times; i++) MUST(pvm_nrecv(other, DATA));
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
        } else if (!strcmp(what, "empty-polls")) {
            tell(report_to, size, timed(poll_in_vain, size, seconds));
        } else {
            check_round_trip(there_and_back, size, out, in);
            tell(report_to, size, timed(there_and_back, size, seconds) / 2);
        }
    }
    order_all(&other, 1, 0, 0);
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

int main(int argc, char **argv)
{
    char **x = set_up(argc, argv);
    make_room(x);
    polled = !strcmp(argv[1], "rate-polled");
    unpacked = !strcmp(argv[1], "pingpong-psend");
    if (strstr(argv[1], "-siblings")) siblings(argv[1], x);
    else parent_and_child(argv[1], x);
    pvm_exit();
    return 0;
}
