/* More of what no call should be given: what misuse.c leaves out. Calls without arguments are in the wrong place. */
#define NOTMPNAM
#include <stdio.h>
#include "show.h"
#include <pvmtev.h>

#define NONE NULL

extern char *pvmnametag(int, int *);
extern int pvm_grphostinfo(char *, int, int *, int *, int *), pvm_grpvhostinfo(char *, int **, int **, int *);
extern int pvmsettaskname(char *), pvmstrtoi(char *), pvmxtoi(char *), pvmputenv(char *), lpvmerr(const char *, int);
extern int errnamecode(const char *);
extern void pvmgetclock(struct timeval *);

static void arrays(void)
{
	int n = 1;

	pvm_initsend(PvmDataRaw);
	SHOW(pvm_pkcplx(NONE, 1, 1));
	SHOW(pvm_pkfloat(NONE, 1, 1));
	SHOW(pvm_pkuint(NONE, 1, 1));
	SHOW(pvm_pkulong(NONE, 1, 1));
	SHOW(pvm_pkushort(NONE, 1, 1));
	SHOW(pvm_pkshort(NONE, 2, -3));
	SHOW(pvm_pkmesg(-1));
	SHOW(pvm_pkmesg(pvm_getsbuf()) < 0);
	SHOW(pvm_pkmesgbody(-1));
	SHOW(pvm_pkmesgbody(12345));
	pvm_initsend(PvmDataInPlace);
	SHOW(pvm_pkint(NONE, 1, 1));
	SHOW(pvm_pkbyte(NONE, 3, 1));
	SHOW(pvm_pkint(&n, 1, -1));
	SHOW(pvm_packf("%d", 5));
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_setrbuf(pvm_setsbuf(0));
	SHOW(pvm_upkcplx(NONE, 1, 1));
	SHOW(pvm_upkdcplx(NONE, 1, 1));
	SHOW(pvm_upkfloat(NONE, 1, 1));
	SHOW(pvm_upklong(NONE, 1, 1));
	SHOW(pvm_upkshort(NONE, 1, 1));
	SHOW(pvm_upkuint(NONE, -1, 1));
	SHOW(pvm_upkulong(NONE, 1, 0));
	SHOW(pvm_upkushort(NONE, 1, -1));
	SHOW(pvm_upkint(&n, 0x7fffffff, 0));
	SHOW(pvm_unpackf("%s", NONE) < 0);
	SHOW(pvm_unpackf("%*d", -1, &n));
	SHOW(pvm_unpackf("%"));
}

static void no_function(int *type, void *x, void *y, int *n, int *info)
{
	(void)type, (void)x, (void)y, (void)n;
	*info = -77;
}

static void groups(void)
{
	int type = PVM_INT, wrong = 99, n = 1, minus = -1, info = 5, x = 1, y = 2;

	SHOW(pvm_joingroup("g"));
	SHOW(pvm_reduce(NONE, &n, 1, PVM_INT, 1, "g", 0));
	SHOW(pvm_reduce(PvmSum, NONE, 1, PVM_INT, 1, "g", 0));
	SHOW(pvm_reduce(PvmSum, &n, -1, PVM_INT, 1, "g", 0));
	SHOW(pvm_reduce(PvmSum, &n, 1, 99, 1, "g", 0));
	SHOW(pvm_reduce(PvmSum, &n, 1, PVM_INT, -1, "g", 0));
	SHOW(pvm_reduce(PvmSum, &n, 1, PVM_INT, 1, NONE, 0));
	SHOW(pvm_reduce(PvmSum, &n, 1, PVM_INT, 1, "g", -1));
	SHOW(pvm_reduce(no_function, &n, 1, PVM_INT, 1, "g", 0));
	SHOW(pvm_gather(NONE, &n, 1, PVM_INT, 1, "g", 0));
	SHOW(pvm_gather(&x, NONE, 1, PVM_INT, 1, "g", 0));
	SHOW(pvm_gather(&x, &n, -1, PVM_INT, 1, "g", 0));
	SHOW(pvm_gather(&x, &n, 1, 99, 1, "g", 0));
	SHOW(pvm_gather(&x, &n, 1, PVM_INT, 1, NONE, 0));
	SHOW(pvm_scatter(NONE, &n, 1, PVM_INT, 1, "g", 0));
	SHOW(pvm_scatter(&x, NONE, 1, PVM_INT, 1, "g", 0));
	SHOW(pvm_scatter(&x, &n, -1, PVM_INT, 1, "g", 0));
	SHOW(pvm_scatter(&x, &n, 1, 99, 1, "g", 0));
	SHOW(pvm_scatter(&x, &n, 1, PVM_INT, 1, NONE, 0));
	PvmSum(&type, NONE, &y, &n, &info);
	printf("%d\n", info);
	PvmMax(&type, &x, NONE, &n, &info);
	printf("%d\n", info);
	PvmMin(NONE, &x, &y, &n, &info);
	printf("%d\n", info);
	PvmProduct(&wrong, &x, &y, &n, &info);
	printf("%d\n", info);
	PvmSum(&type, &x, &y, NONE, &info);
	printf("%d\n", info);
	PvmSum(&type, &x, &y, &minus, NONE);
	printf("%d %d\n", x, y);
	SHOW(pvm_grphostinfo(NONE, 0, NONE, NONE, NONE));
	SHOW(pvm_grphostinfo("g", -1, NONE, NONE, NONE));
	SHOW(pvm_grpvhostinfo(NONE, NONE, NONE, NONE));
	SHOW(pvm_grpvhostinfo("g", NONE, NONE, NONE));
}

static void machine(void)
{
	SHOW(pvm_kill(-1));
	SHOW(pvm_kill(0x7fffffff));
	SHOW(pvm_sendsig(0x80000000, 9));
	SHOW(pvm_sendsig(0, -1));
	SHOW(pvm_pstat(0x7fffffff));
	SHOW(pvm_freecontext(-1));
	SHOW(pvm_freecontext(0x7fffffff));
	SHOW(pvm_getopt(-1));
	SHOW(pvm_getopt(0x7fffffff));
	SHOW(pvm_setcontext(0x80000000));
	SHOW(pvm_getcontext() == (int)0x80000000);
	SHOW(pvm_setcontext(0) == (int)0x80000000);
	SHOW(pvm_catchout(NONE));
	SHOW(pvm_start_pvmd(3, NONE, 0));
	SHOW(pvm_start_pvmd(-1, NONE, 0));
	SHOW(pvm_reg_rm(NONE));
	SHOW(pvm_parent());
	SHOW(pvm_tasks(0x7fffffff, NONE, NONE));
	SHOW(pvm_hostsync(-1, NONE, NONE));
	SHOW(pvm_recvf(NONE) != NONE);
	printf("%d\n", pvmtmpnam(NONE) != NONE);
}

static void undocumented(void)
{
	pvmgetclock(NONE);
	SHOW(pvmstrtoi(NONE));
	SHOW(pvmxtoi(NONE));
	SHOW(pvmputenv(NONE) < 0);
	SHOW(pvmputenv("no equals sign") < 0);
	SHOW(pvmsettaskname(NONE));
	SHOW(errnamecode(NONE));
	SHOW(lpvmerr(NONE, PvmBadParam));
	printf("%s\n", pvmnametag(0x80000000, NONE));
	pvm_errno = 12345;
	printf("%s\n", pvm_strerror());
}

int main(void)
{
	int n = 3, me;

	begin();
	me = pvm_mytid();
	pvm_setopt(PvmAutoErr, 0);
	arrays();
	groups();
	machine();
	undocumented();
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_send(me, 9));
	ID(pvm_recv(me, 9));
	n = 0;
	SHOW(pvm_upkint(&n, 1, 1));
	printf("still works: %d\n", n);
	SHOW(pvm_exit());
	return 0;
}
