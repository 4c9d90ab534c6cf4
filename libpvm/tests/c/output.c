/* Output of children, collected: lines put together, marked and unmarked, and waited for at the end. */
#include "show.h"

int main(int argc, char **argv)
{
	char *args[] = {"child", NULL}, program[4096];
	double begun;
	int tid;

	begin();
	if (argc > 1 && !strcmp(argv[1], "child")) {
		/* The parent shall have returned from its spawn by then. */
		usleep(500000);
		printf("a line\nin ");
		sleep(1);
		printf("parts\n\nthe one above is empty\n  and the last has no end");
		fprintf(stderr, ", errors come with it");
		return 0;
	}
	ID(pvm_mytid());
	if (!realpath(argv[0], program))
		return 1;
	SHOW(pvm_catchout(stdout));
	printf("to me: %d, context %x, tag %x\n", pvm_getopt(PvmOutputTid) == pvm_mytid(),
		(unsigned)pvm_getopt(PvmOutputContext), (unsigned)pvm_getopt(PvmOutputCode));
	pvm_export("LD_LIBRARY_PATH");
	SHOW(pvm_spawn(program, args, PvmTaskDefault, NULL, 1, &tid));
	SHOW(pvm_exit());
	ID(pvm_mytid());
	SHOW(pvm_catchout(stdout));
	SHOW(pvm_setopt(PvmShowTids, 0));
	SHOW(pvm_spawn(program, args, PvmTaskDefault, NULL, 1, &tid));
	SHOW(pvm_exit());
	ID(pvm_mytid());
	SHOW(pvm_catchout(stdout));
	SHOW(pvm_spawn(program, args, PvmTaskDefault, NULL, 1, &tid));
	SHOW(pvm_catchout(NULL));
	SHOW(pvm_getopt(PvmOutputTid));
	begun = now();
	SHOW(pvm_exit());
	printf("not waited for: %d\n", now() - begun < 0.8);
	return 0;
}
