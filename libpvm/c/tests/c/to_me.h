/* Messages of a task to itself. */
#include "show.h"

static int me;

static void send_to_me(int tag, int number)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&number, 1, 1);
	pvm_send(me, tag);
}

static int number(void)
{
	int n = -1;

	pvm_upkint(&n, 1, 1);
	return n;
}
