/*
 * bogus: asks for what is not there, and prints the answers. In the end it shows that it still can do what is there.
 */
#include <pvm3.h>
#include <stdio.h>

#define SHOW(call) printf("%s = %d\n", #call, call), fflush(stdout)

int main(void)
{
	int mytid = pvm_mytid();
	int never = pvm_tidtohost(mytid) | 0x3fffe;  /* a task that this host never had */
	int nohost = 0x0ffc0001;                     /* a task on a host that never was */
	int hostless = 0x00000007;                   /* a task on no host */
	int daemon = pvm_tidtohost(mytid);           /* not a task at all */
	int tids[3] = { never, nohost, hostless };
	int tid, i, value = 42;

	pvm_setopt(PvmAutoErr, 0);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&value, 1, 1);
	SHOW(pvm_send(never, 1));
	SHOW(pvm_send(nohost, 1));
	SHOW(pvm_send(hostless, 1));
	SHOW(pvm_send(daemon, 1));
	SHOW(pvm_send(mytid, -1));
	SHOW(pvm_mcast(tids, 3, 1));
	SHOW(pvm_pstat(never));
	SHOW(pvm_pstat(nohost));
	SHOW(pvm_pstat(daemon));
	SHOW(pvm_kill(never));
	SHOW(pvm_kill(nohost));
	SHOW(pvm_kill(daemon));
	SHOW(pvm_sendsig(never, 15));
	SHOW(pvm_sendsig(mytid, 9999));
	SHOW(pvm_notify(PvmTaskExit, 7, 3, tids));
	for (i = 0; i < 3; i++) {
		pvm_recv(-1, 7);
		pvm_upkint(&tid, 1, 1);
		printf("exit t%x\n", tid);
	}
	SHOW(pvm_notify(PvmTaskExit, 7, 1, &daemon));
	SHOW(pvm_notify(PvmTaskExit, 7, 0, tids));
	SHOW(pvm_notify(99, 7, 1, tids));
	SHOW(pvm_mstat("nowhere.invalid"));
	SHOW(pvm_spawn("no-such-program", NULL, PvmTaskDefault, "", 1, &tid));
	printf("tid = %d\n", tid);
	SHOW(pvm_spawn("no-such-program", NULL, PvmTaskHost, "nowhere.invalid", 1, &tid));
	printf("tid = %d\n", tid);
	SHOW(pvm_spawn("no-such-program", NULL, PvmTaskArch, "NOARCH", 1, &tid));
	printf("tid = %d\n", tid);
	SHOW(pvm_spawn("no-such-program", NULL, PvmTaskDefault, "", 0, &tid));
	SHOW(pvm_initsend(3));
	SHOW(pvm_setsbuf(4711));
	SHOW(pvm_upkint(&value, 1, 1));
	SHOW(pvm_upkint(&value, 1, 1));
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&value, 1, 1);
	SHOW(pvm_send(mytid, 3));
	SHOW(pvm_recv(mytid, 3) > 0);
	SHOW(pvm_exit());
	return 0;
}
