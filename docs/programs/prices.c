#include <pvm3.h>
#include <stdio.h>

/* Prints what the next task would pay for a place on each host, and what the host has earned, in thousandths of the price of a host that
 * has a task for each slot. */
int main(void) {
    struct pvmmboxinfo *lists;
    int count = 0;
    if (pvm_getmboxinfo("pvm.prices", &count, &lists) < 0 || count == 0) {
        printf("no host has a price yet\n");
        pvm_exit();
        return 1;
    }
    for (int entry = 0; entry < lists[0].mi_nentries; entry++) {
        char host[256];
        int price, last, sold;
        double income;
        /* The index of an entry is the number of its host. A host may have left since the list was made. */
        if (pvm_recvinfo("pvm.prices", lists[0].mi_indices[entry], PvmMboxDefault) < 0)
            continue;
        pvm_upkstr(host);
        pvm_upkint(&price, 1, 1);
        pvm_upkint(&last, 1, 1);
        pvm_upkint(&sold, 1, 1);
        pvm_upkdouble(&income, 1, 1);
        printf("%s: the next place %d, the last one %d; %d sold for %.0f\n", host, price, last, sold, income);
    }
    pvm_exit();
    return 0;
}
