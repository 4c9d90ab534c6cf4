/* Output of children, collected: lines put together, marked and unmarked, and waited for at the end. */
#include "show.h"

/* A file that is there from the moment on in which this child may speak. */
static const char *leave_to_speak(const char *child)
{
	static char path[4096];

	snprintf(path, sizeof path, "%s/speak-%s", getenv("PVM_TMP"), child);
	return path;
}

static void let_speak(const char *child)
{
	FILE *file = fopen(leave_to_speak(child), "w");

	if (file)
		fclose(file);
}

int main(int argc, char **argv)
{
	char *args[] = {"child", "1", NULL}, program[4096];
	int tid;

	begin();
	if (argc > 1 && !strcmp(argv[1], "child")) {
		while (access(leave_to_speak(argv[2]), F_OK) != 0)
			usleep(10000);
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
	let_speak(args[1]);
	SHOW(pvm_exit());
	args[1] = "2";
	ID(pvm_mytid());
	SHOW(pvm_catchout(stdout));
	SHOW(pvm_setopt(PvmShowTids, 0));
	SHOW(pvm_spawn(program, args, PvmTaskDefault, NULL, 1, &tid));
	let_speak(args[1]);
	SHOW(pvm_exit());
	args[1] = "3";
	ID(pvm_mytid());
	SHOW(pvm_catchout(stdout));
	SHOW(pvm_spawn(program, args, PvmTaskDefault, NULL, 1, &tid));
	SHOW(pvm_catchout(NULL));
	SHOW(pvm_getopt(PvmOutputTid));
	SHOW(pvm_exit());
	/* Otherwise this would not be reached. */
	printf("not waited for: 1\n");
	let_speak(args[1]);
	return 0;
}
