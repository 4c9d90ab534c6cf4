/* A task that adds up what it is sent, and can move.

   settler              the task: it is in the group "settlers", and has subscribed to the end of its parent
   settler ask TID N    sends the numbers 1 to N, and prints the sum that the task has then
   settler watch TID    prints "gone" when the task has ended
   settler group        prints who is in the group */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pvm3.h>
#include <pvm3x.h>

enum { ADD = 1, GONE = 2 };

static struct {
    int sum, moves;
} own;

static int save(void)
{
    pvm_pkint(&own.sum, 1, 1);
    return pvm_pkint(&own.moves, 1, 1);
}

static int restore(void)
{
    pvm_upkint(&own.sum, 1, 1);
    return pvm_upkint(&own.moves, 1, 1);
}

static int tid_of(const char *text)
{
    return (int)strtol(text[0] == 't' ? text + 1 : text, NULL, 16);
}

static int ask(int tid, int count)
{
    int i, sum = 0, moves = 0;
    for (i = 1; i <= count; i++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&i, 1, 1);
        pvm_send(tid, ADD);
    }
    for (i = 1; i <= count; i++) {
        if (pvm_recv(tid, ADD) < 0)
            return 1;
        pvm_upkint(&sum, 1, 1);
        pvm_upkint(&moves, 1, 1);
    }
    printf("sum %d after %d moves\n", sum, moves);
    return 0;
}

static int watch(int tid)
{
    pvm_notify(PvmTaskExit, GONE, 1, &tid);
    printf("watching\n");
    fflush(stdout);
    pvm_recv(-1, GONE);
    printf("gone\n");
    return 0;
}

static int settle(void)
{
    int bytes, tag, from, number, was = pvm_migratable(save, restore);
    if (was < 0)
        return 1;
    if (was)
        own.moves++;
    else
        pvm_joingroup("settlers");
    printf("%s with %d\n", was ? "goes on" : "begins", own.sum);
    fflush(stdout);
    for (;;) {
        if (pvm_bufinfo(pvm_recv(-1, ADD), &bytes, &tag, &from) < 0)
            return 1;
        pvm_upkint(&number, 1, 1);
        own.sum += number;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&own.sum, 1, 1);
        pvm_pkint(&own.moves, 1, 1);
        pvm_send(from, ADD);
    }
}

int main(int argc, char **argv)
{
    int code = pvm_mytid() < 0;
    if (!code && argc < 2)
        code = settle();
    else if (!code && argc > 3 && !strcmp(argv[1], "ask"))
        code = ask(tid_of(argv[2]), atoi(argv[3]));
    else if (!code && argc > 2 && !strcmp(argv[1], "watch"))
        code = watch(tid_of(argv[2]));
    else if (!code)
        printf("%d in the group, t%x the first\n", pvm_gsize("settlers"), pvm_gettid("settlers", 0));
    pvm_exit();
    return code;
}
