/* A program that does not receive what comes, and has little room for it. */
#include "show.h"

static int me;

static void send_to_me(int tag, int length)
{
	static char bytes[20000];

	pvm_initsend(PvmDataDefault);
	pvm_pkbyte(bytes, length, 1);
	pvm_send(me, tag);
}

int main(void)
{
	int i;

	begin();
	be_silent();
	setenv("PVM_QUEUE_MAX_BYTES", "10000", 1);
	ID(me = pvm_mytid());
	pvm_setopt(PvmAutoErr, 0);
	for (i = 0; i < 3; i++)
		send_to_me(1, 6000);
	SHOW(pvm_recv(-1, 2));
	SHOW(pvm_nrecv(-1, 2));
	for (i = 0; i < 2; i++)
		ID(pvm_recv(-1, 1));
	SHOW(pvm_nrecv(-1, 2));
	ID(pvm_recv(-1, 1));
	SHOW(pvm_exit());
	return 0;
}
