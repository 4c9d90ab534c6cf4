/* A parallel job: each task sends its number to the first one. Submit it with "pvm submit -n 8 ./jobgroup". */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    char *group = getenv("PVM_JOB_GROUP");
    int own, count, sum;

    if (group == NULL)
        return 1;
    count = atoi(getenv("PVM_JOB_TASKS"));
    own = sum = pvm_getinst(group, pvm_mytid());
    pvm_barrier(group, count);
    pvm_reduce(PvmSum, &sum, 1, PVM_INT, 1, group, 0);
    if (own == 0)
        printf("the sum of all numbers is %d\n", sum);
    pvm_barrier(group, count);
    pvm_exit();
    return 0;
}
