#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>
#include <pvm3x.h>

enum { NOTICE = 7 };

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[1]) : 0;
	int event[5] = { 0 }; /* what, batch, number or tasks done, tid or tasks failed, status or tasks cancelled */

	if (count < 1) {
		fprintf(stderr, "usage: queue COUNT PROGRAM [ARGUMENTS]\n");
		return 2;
	}
	if (pvm_mytid() < 0)
		return 1;
	pvm_setopt(PvmBatchCode, NOTICE);
	pvm_setopt(PvmBatchRestarts, 2);
	if (pvm_spawn(argv[2], argv + 3, PvmTaskDefault | PvmTaskQueued, "", count, NULL) < 0)
		return 1;
	do {
		pvm_recv(-1, NOTICE);
		pvm_upkint(event, 5, 1);
		if (event[0] == PvmBatchAgain)
			printf("task %d is started again\n", event[2]);
		if (event[0] == PvmBatchFail)
			printf("task %d has failed\n", event[2]);
	} while (event[0] != PvmBatchDone);
	printf("%d done, %d failed, %d cancelled\n", event[2], event[3], event[4]);
	pvm_exit();
	return event[3] > 0;
}
