/* Signal handlers call the library while the program waits in a call of a group. */
#include "show.h"
#include <signal.h>

static void on_last(int number)
{
	(void)number;
	SHOW(pvm_recv(-1, 2) > 0);
	SHOW(pvm_exit());
	exit(0);
}

static void on_first(int number)
{
	(void)number;
	SHOW(pvm_gsize("g"));
	ID(pvm_initsend(PvmDataDefault));
	SHOW(pvm_send(pvm_mytid(), 2));
	signal(SIGALRM, on_last);
	alarm(1);
}

int main(void)
{
	begin();
	SHOW(pvm_joingroup("g"));
	signal(SIGALRM, on_first);
	alarm(1);
	/* For a member that never comes. */
	pvm_barrier("g", 2);
	printf("not to be reached\n");
	return 1;
}
