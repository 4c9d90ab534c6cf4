/* Calls that a tracer is told of; a Rust program makes the same ones. */

#include <pvm3.h>
#include <pvm3x.h>
#include <stddef.h>
#include <sys/time.h>

static char bytes[3] = "ab", text[20] = "text";
static float float_[2] = {1.5, 2.5};
static double double_[4] = {1.5, 2.5, 3.5, 4.5};
static int int_[5] = {7, 8, 9};
static unsigned int uint_ = 7;
static long long_[2] = {7, 8};
static unsigned long ulong_ = 7;
static short short_[3] = {7, 8, 9};
static unsigned short ushort_ = 7;

static void pack(void)
{
	pvm_initsend(PvmDataDefault);
	pvm_pkint(int_, 1, 1);
	pvm_pkbyte(bytes, 3, 1);
	pvm_pkcplx(float_, 1, 1);
	pvm_pkdcplx(double_, 2, 1);
	pvm_pkdouble(double_, 4, 1);
	pvm_pkfloat(float_, 2, 1);
	pvm_pkint(int_, 5, 1);
	pvm_pkuint(&uint_, 1, 1);
	pvm_pklong(long_, 2, 1);
	pvm_pkulong(&ulong_, 1, 1);
	pvm_pkshort(short_, 3, 1);
	pvm_pkushort(&ushort_, 1, 1);
	pvm_pkstr(text);
}

static void unpack(void)
{
	pvm_upkint(int_, 1, 1);
	pvm_upkbyte(bytes, 3, 1);
	pvm_upkcplx(float_, 1, 1);
	pvm_upkdcplx(double_, 2, 1);
	pvm_upkdouble(double_, 4, 1);
	pvm_upkfloat(float_, 2, 1);
	pvm_upkint(int_, 5, 1);
	pvm_upkuint(&uint_, 1, 1);
	pvm_upklong(long_, 2, 1);
	pvm_upkulong(&ulong_, 1, 1);
	pvm_upkshort(short_, 3, 1);
	pvm_upkushort(&ushort_, 1, 1);
	pvm_upkstr(text);
	pvm_upkint(int_, 1, 1);
}

int main(void)
{
	struct timeval brief = {0, 10000};
	struct pvmhostinfo *hosts;
	struct pvmtaskinfo *tasks;
	struct pvmmboxinfo *classes;
	int parent, context, n, m;

	pvm_setopt(PvmAutoErr, 0);
	pvm_mytid();
	parent = pvm_parent();
	pack();
	pvm_send(parent, 5);
	pvm_send(0, 5);
	pvm_mcast(&parent, 1, 5);
	pvm_nrecv(parent, 6);
	pvm_probe(-1, 6);
	pvm_trecv(parent, -1, &brief);
	pvm_recv(parent, 8);
	unpack();
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
	/* After the tasks were counted: these two are tasks for as long as their host tries to start them. */
	pvm_spawn("no such program", NULL, PvmTaskQueued, "", 2, NULL);
	pvm_exit();
	return 0;
}
