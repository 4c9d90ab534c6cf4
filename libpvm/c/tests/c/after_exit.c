/* What a task has received it has until it leaves. */
#include "show.h"

int main(void)
{
	static char data[100000];
	int received, self = pvm_mytid();

	pvm_setopt(PvmAutoErr, 0);
	pvm_initsend(PvmDataDefault);
	pvm_pkbyte(data, sizeof data, 1);
	pvm_send(self, 1);
	received = pvm_recv(self, 1);
	SHOW(received > 0);
	SHOW(pvm_upkbyte(data, 1, 1));
	SHOW(pvm_exit());
	SHOW(pvm_upkbyte(data, 1, 1));
	SHOW(pvm_freebuf(received));
	return 0;
}
