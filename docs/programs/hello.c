#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>

enum { WORKERS = 4, GREETING = 1 };

int main(int argc, char **argv)
{
	int me = pvm_mytid(); /* the process becomes a task */
	int parent = pvm_parent();

	if (me < 0)
		return 1; /* the library has printed the reason */
	if (parent == PvmNoParent) {
		/* Started by hand: the parent. */
		int tids[WORKERS];
		char *program = realpath(argv[0], NULL); /* another host has another working directory */
		int started = pvm_spawn(program, NULL, PvmTaskDefault, "", WORKERS, tids);

		for (int i = 0; i < started; i++) {
			int who;

			pvm_recv(-1, GREETING);
			pvm_upkint(&who, 1, 1);
			printf("hello from t%x\n", who);
		}
	} else {
		/* Started by pvm_spawn: a worker. */
		pvm_initsend(PvmDataDefault);
		pvm_pkint(&me, 1, 1);
		pvm_send(parent, GREETING);
	}
	pvm_exit();
	return 0;
}
