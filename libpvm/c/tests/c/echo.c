/* Answers each message with tag 1 by an empty one with tag 2, and waits for the next. */
#include <pvm3.h>

int main(void)
{
	int length, tag, sender;
	while (pvm_recv(-1, 1) > 0) {
		pvm_bufinfo(pvm_getrbuf(), &length, &tag, &sender);
		pvm_initsend(PvmDataDefault);
		pvm_send(sender, 2);
	}
	return 0;
}
