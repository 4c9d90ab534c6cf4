/* One of four tasks: two teams, each with a task on each of two hosts.

   pull FILE NUMBER direct|daemon

   The file says what the tasks are to do, and each reads it again and again:

       SERIAL WHAT WHAT WHAT WHAT TID TID TID TID

   Tasks 0 and 1 are a team, and tasks 2 and 3. WHAT is for each task a letter:

       w  waits
       c  computes
       p  pulls, then waits
       s  pulls, then computes

   To pull is to send to the other task of the team, and to wait for its answer, once for each SERIAL; the SERIAL is then in FILE.NUMBER. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { PULL = 1, ANSWER };

struct order {
    int serial, tids[4];
    char what[4];
};

/* 0 if there is none yet. */
static int read_order(const char *name, struct order *order)
{
    FILE *file = fopen(name, "r");
    int i, found = file && fscanf(file, "%d", &order->serial) == 1;
    for (i = 0; i < 4; i++) found = found && fscanf(file, " %c", &order->what[i]) == 1;
    for (i = 0; i < 4; i++) found = found && fscanf(file, "%d", &order->tids[i]) == 1;
    if (file) fclose(file);
    return found;
}

static void answer(int message)
{
    int bytes, tag, from;
    if (message <= 0 || pvm_bufinfo(message, &bytes, &tag, &from) < 0) return;
    pvm_initsend(PvmDataDefault);
    pvm_send(from, ANSWER);
}

static void pull(int other, int serial, const char *name, const char *number)
{
    char done[4096], made[4100];
    FILE *file;
    pvm_initsend(PvmDataDefault);
    if (pvm_send(other, PULL) < 0 || pvm_recv(other, ANSWER) < 0) exit(1);
    snprintf(done, sizeof done, "%s.%s", name, number);
    snprintf(made, sizeof made, "%s.new", done);
    file = fopen(made, "w");
    if (!file || fprintf(file, "%d\n", serial) < 0 || fclose(file) || rename(made, done)) exit(1);
}

static double now(void)
{
    struct timeval time;
    gettimeofday(&time, NULL);
    return time.tv_sec + time.tv_usec / 1e6;
}

static void compute(double seconds)
{
    double begin = now(), time;
    do time = now();
    while (time >= begin && time < begin + seconds);
}

int main(int argc, char **argv)
{
    struct timeval pause = { 0, 10000 };
    struct order order = { 0 };
    int number, done = 0;
    if (argc < 4 || pvm_mytid() < 0) return 2;
    number = atoi(argv[2]);
    pvm_setopt(PvmRoute, strcmp(argv[3], "direct") ? PvmDontRoute : PvmRouteDirect);
    for (;;) {
        int is_new = read_order(argv[1], &order) && order.serial > done;
        char what = order.what[number];
        if (is_new && (what == 'p' || what == 's')) pull(order.tids[number ^ 1], order.serial, argv[1], argv[2]);
        if (is_new) done = order.serial;
        if (done && (what == 'c' || what == 's')) {
            compute(0.001);
            answer(pvm_nrecv(-1, PULL));
        } else {
            answer(pvm_trecv(-1, PULL, &pause));
        }
    }
}
