/* A signal handler calls the library while the program waits in it. */
#include "show.h"
#include <signal.h>

static void on_alarm(int number)
{
	int n = number == SIGALRM ? 5 : 0;

	SHOW(pvm_nrecv(-1, 7));
	ID(pvm_initsend(PvmDataDefault));
	SHOW(pvm_pkint(&n, 1, 1));
	SHOW(pvm_send(pvm_mytid(), 2));
}

static void on_last(int number)
{
	(void)number;
	SHOW(pvm_exit());
	exit(0);
}

int main(void)
{
	int n = 0;

	begin();
	ID(pvm_mytid());
	signal(SIGALRM, on_alarm);
	alarm(1);
	ID(pvm_recv(-1, 2));
	SHOW(pvm_upkint(&n, 1, 1));
	printf("%d\n", n);
	signal(SIGALRM, on_last);
	alarm(1);
	pvm_recv(-1, 3);
	printf("not to be reached\n");
	return 1;
}
