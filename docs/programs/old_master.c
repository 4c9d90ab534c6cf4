#include <stdio.h>
#include "pvm3.h"

#define NTASK 3
#define N 12

main()
{
    int tids[NTASK], numt, i, sum, total = 0;
    int data[N];

    for (i = 0; i < N; i++)
        data[i] = i + 1;
    numt = pvm_spawn("old_worker", (char**)0, 0, "", NTASK, tids);
    if (numt < NTASK) {
        printf("Only %d workers started\n", numt);
        pvm_exit();
        return 1;
    }
    for (i = 0; i < NTASK; i++) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(data + i * (N / NTASK), N / NTASK, 1);
        pvm_send(tids[i], 0);
    }
    for (i = 0; i < NTASK; i++) {
        pvm_recv(-1, 1);
        pvm_upkint(&sum, 1, 1);
        total += sum;
    }
    printf("The sum is %d\n", total);
    pvm_exit();
    return 0;
}
