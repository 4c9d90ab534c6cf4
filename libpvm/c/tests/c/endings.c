/* The end of a virtual machine, by a task that does not want to end with it, and the start of another. */
#include "show.h"
#include <signal.h>

static char *args[] = {"-nlocalhost"};

/* Whether the machine comes to an end: calls fail, then nobody can enrol. */
static int ends(void)
{
	double until = now() + 100;

	while (pvm_mytid() > 0 && now() < until) {
		usleep(20000);
		if (pvm_config(NULL, NULL, NULL) < 0)
			pvm_exit();
	}
	return pvm_mytid();
}

/* Each call that needs a machine says that there is none. */
static void without_machine(void)
{
	struct pvmhostinfo *host;
	struct timeval now = {0, 0};
	int n = 1, tid = 0x40001, *list, status[1];
	char *names[] = {"localhost"};

	SHOW(pvm_mytid());
	SHOW(pvm_parent());
	SHOW(pvm_siblings(&list));
	SHOW(pvm_spawn("hello", NULL, 0, NULL, 1, &n));
	SHOW(pvm_kill(tid));
	SHOW(pvm_sendsig(tid, 2));
	SHOW(pvm_pstat(tid));
	SHOW(pvm_tasks(0, NULL, NULL));
	SHOW(pvm_notify(PvmTaskExit, 1, 1, &tid));
	SHOW(pvm_addhosts(names, 1, status));
	SHOW(pvm_delhosts(names, 1, status));
	SHOW(pvm_config(NULL, NULL, NULL));
	SHOW(pvm_mstat("localhost"));
	SHOW(pvm_archcode("LINUX64"));
	SHOW(pvm_hostsync(0x40000, &now, &now));
	SHOW(pvm_halt());
	ID(pvm_initsend(PvmDataDefault));
	SHOW(pvm_pkint(&n, 1, 1));
	SHOW(pvm_send(tid, 1));
	SHOW(pvm_mcast(&tid, 1, 1));
	SHOW(pvm_psend(tid, 1, &n, 1, PVM_INT));
	SHOW(pvm_precv(-1, 1, &n, 1, PVM_INT, NULL, NULL, NULL));
	SHOW(pvm_recv(-1, -1));
	SHOW(pvm_nrecv(-1, -1));
	SHOW(pvm_trecv(-1, -1, &now));
	SHOW(pvm_probe(-1, -1));
	SHOW(pvm_getfds(&list));
	SHOW(pvm_newcontext());
	SHOW(pvm_freecontext(1));
	SHOW(pvm_putinfo("x", pvm_getsbuf(), 0));
	SHOW(pvm_recvinfo("x", 0, 0));
	SHOW(pvm_delinfo("x", 0, 0));
	SHOW(pvm_getmboxinfo("x", &n, NULL));
	SHOW(pvm_insert("x", 0, 1));
	SHOW(pvm_lookup("x", 0, &n));
	SHOW(pvm_delete("x", 0));
	SHOW(pvm_reg_rm(&host));
	SHOW(pvm_reg_tasker());
	SHOW(pvm_reg_hoster());
	SHOW(pvm_reg_tracer(0, 0, 0, 0, "", 0, 0));
	SHOW(pvm_tickle(1, &tid, &n, status));
	SHOW(pvm_joingroup("g"));
	SHOW(pvm_gsize("g"));
	SHOW(pvm_barrier("g", 1));
	SHOW(pvm_bcast("g", 1));
	SHOW(pvm_exit());
}

/* A daemon that finds no place for its address. */
static void no_daemon(void)
{
	char folder[4000];

	strcpy(folder, getenv("PVM_TMP"));
	setenv("PVM_TMP", "/nowhere/at/all", 1);
	SHOW(pvm_start_pvmd(1, args, 0));
	SHOW(pvm_start_pvmd(1, args, 1));
	setenv("PVM_TMP", folder, 1);
}

int main(void)
{
	int hosts = 0, formats = 0;

	begin();
	signal(SIGTERM, SIG_IGN);
	ID(pvm_mytid());
	pvm_setopt(PvmAutoErr, 0);
	/* Why nobody can enrol is not the same. */
	be_silent();
	SHOW(pvm_start_pvmd(1, args, 0));
	SHOW(pvm_halt());
	SHOW(ends());
	without_machine();
	no_daemon();
	RESULT(pvm_start_pvmd(1, args, 1));
	ID(pvm_mytid());
	SHOW(pvm_config(&hosts, &formats, NULL));
	printf("%d host, %d format\n", hosts, formats);
	SHOW(pvm_start_pvmd(0, NULL, 0));
	SHOW(pvm_halt());
	SHOW(ends());
	return 0;
}
