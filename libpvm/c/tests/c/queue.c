/* A queued batch in C: queues its second argument's number of copies of the first, and counts what it is told. */

#include <pvm3.h>
#include <pvm3x.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	char *none[] = { "role", "brief", NULL };
	int batch, said[5], started = 0, ended = 0, count = argc > 2 ? atoi(argv[2]) : 0;

	pvm_setopt(PvmAutoErr, 0);
	printf("code %d", pvm_setopt(PvmBatchCode, 9));
	printf(", restarts %d", pvm_setopt(PvmBatchRestarts, 1));
	printf(", %d", pvm_setopt(PvmBatchRestarts, -1));
	printf(", policy %d", pvm_setpolicy("no such policy"));
	printf(", %d", pvm_spawn(argv[1], none, PvmTaskQueued, NULL, count, NULL));
	printf(", %d\n", pvm_setpolicy(NULL));
	batch = pvm_spawn(argv[1], none, PvmTaskQueued, NULL, count, NULL);
	do {
		pvm_recv(-1, 9);
		pvm_upkint(said, 5, 1);
		started += said[0] == PvmBatchStart;
		ended += said[0] == PvmBatchEnd && said[4] == 0;
	} while (said[0] != PvmBatchDone);
	printf("%d started, %d ended, %d done, %d failed, %d cancelled\n", started, ended, said[2], said[3], said[4]);
	printf("it %s the batch\n", said[1] == batch ? "is" : "is not");
	printf("cancel %d\n", pvm_cancelbatch(batch));
	pvm_exit();
	return 0;
}
