/* A master and N workers (its argument): every 50 ms it sends each a number, tag 7, and gets it back, tag 8, until it is killed. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORKERS_MAX 64

static void worker(void) {
    int number, parent = pvm_parent();
    for (;;) {
        pvm_recv(parent, 7);
        pvm_upkint(&number, 1, 1);
        usleep(10000);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&number, 1, 1);
        pvm_send(parent, 8);
    }
}

int main(int argc, char **argv) {
    int tids[WORKERS_MAX], count, number, i;
    if (pvm_parent() > 0)
        worker();
    count = argc > 1 ? atoi(argv[1]) : 1;
    if (count < 1 || count > WORKERS_MAX || pvm_spawn("pulse", NULL, PvmTaskDefault, "", count, tids) != count)
        return 1;
    printf("pulse %x\n", pvm_mytid());
    fflush(stdout);
    for (number = 0;; number++) {
        for (i = 0; i < count; i++) {
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&number, 1, 1);
            pvm_send(tids[i], 7);
        }
        for (i = 0; i < count; i++)
            pvm_recv(-1, 8);
        usleep(50000);
    }
}
