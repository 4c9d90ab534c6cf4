/* Calls that a tracer is told of; a Rust program makes the same ones. */

#include <pvm3.h>
#include <sys/time.h>

int main(void)
{
	struct timeval brief = {0, 10000};
	struct pvmhostinfo *hosts;
	struct pvmtaskinfo *tasks;
	struct pvmmboxinfo *classes;
	int parent, context, n, m, seven = 7;

	pvm_setopt(PvmAutoErr, 0);
	pvm_mytid();
	parent = pvm_parent();
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&seven, 1, 1);
	pvm_send(parent, 5);
	pvm_send(0, 5);
	pvm_mcast(&parent, 1, 5);
	pvm_nrecv(parent, 6);
	pvm_probe(-1, 6);
	pvm_trecv(parent, -1, &brief);
	pvm_recv(parent, 8);
	context = pvm_newcontext();
	pvm_freecontext(context);
	pvm_putinfo("a name", pvm_getsbuf(), PvmMboxDefault);
	pvm_recvinfo("a name", 0, PvmMboxDefault);
	pvm_recvinfo("no name", 0, PvmMboxDefault);
	pvm_getmboxinfo("a name", &n, &classes);
	pvm_delinfo("a name", 0, 0);
	pvm_notify(PvmTaskExit, 9, 1, &parent);
	pvm_config(&n, &m, &hosts);
	pvm_tasks(0, &n, &tasks);
	pvm_mstat(".");
	pvm_pstat(parent);
	pvm_sendsig(parent, 0);
	pvm_exit();
	return 0;
}
