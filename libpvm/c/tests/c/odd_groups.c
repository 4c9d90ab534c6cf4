/* Group calls with arguments that no careful program gives them. Each group whose calls may leave something behind is used once. */
#include "show.h"
#include <limits.h>

static void questions(const char *name)
{
	char *g = (char *)name;

	printf("-- questions about %s\n", name);
	RESULT(pvm_gsize(g));
	RESULT(pvm_getinst(g, pvm_mytid()));
	RESULT(pvm_getinst(g, -1));
	RESULT(pvm_getinst(g, 0));
	RESULT(pvm_getinst(g, 1));
	RESULT(pvm_getinst(g, -2));
	RESULT(pvm_getinst(g, INT_MIN));
	RESULT(pvm_getinst(g, INT_MAX));
	RESULT(pvm_getinst(g, pvm_tidtohost(pvm_mytid())));
	RESULT(pvm_getinst(g, 0x80000000));
	RESULT(pvm_gettid(g, -1));
	RESULT(pvm_gettid(g, 1));
	RESULT(pvm_gettid(g, 9));
	RESULT(pvm_gettid(g, INT_MIN));
	RESULT(pvm_gettid(g, 11));
	RESULT(pvm_gettid(g, INT_MAX));
}

static void counts(void)
{
	printf("-- counts of barriers\n");
	pvm_joingroup("zero");
	RESULT(pvm_barrier("zero", 0));
	RESULT(pvm_lvgroup("zero"));
	pvm_joingroup("less");
	RESULT(pvm_barrier("less", -2));
	RESULT(pvm_lvgroup("less"));
	pvm_joingroup("least");
	RESULT(pvm_barrier("least", INT_MIN));
	RESULT(pvm_lvgroup("least"));
	pvm_joingroup("right");
	RESULT(pvm_barrier("right", 1));
	RESULT(pvm_barrier("right", -1));
	RESULT(pvm_lvgroup("right"));
	RESULT(pvm_barrier("right", -1));
	RESULT(pvm_barrier("none", 0));
	RESULT(pvm_barrier("none", -2));
	printf("-- sizes of static groups\n");
	pvm_joingroup("fzero");
	RESULT(pvm_freezegroup("fzero", 0));
	pvm_joingroup("fless");
	RESULT(pvm_freezegroup("fless", -2));
	pvm_joingroup("fleast");
	RESULT(pvm_freezegroup("fleast", INT_MIN));
	RESULT(pvm_freezegroup("none", -1));
	RESULT(pvm_freezegroup("none", 0));
	RESULT(pvm_freezegroup(0, 0));
	RESULT(pvm_freezegroup("", -1));
	pvm_joingroup("fall");
	RESULT(pvm_freezegroup("fall", -1));
	RESULT(pvm_freezegroup("fall", -1));
	RESULT(pvm_freezegroup("fall", 0));
	RESULT(pvm_joingroup("fall"));
	questions("fall");
	RESULT(pvm_barrier("fall", 0));
	RESULT(pvm_lvgroup("fall"));
	RESULT(pvm_lvgroup("fall"));
}

static void names(void)
{
	static char name[1001];

	printf("-- names\n");
	memset(name, 'n', 1000);
	RESULT(pvm_joingroup(name));
	RESULT(pvm_joingroup(name));
	RESULT(pvm_gsize(name));
	name[999] = 0;
	RESULT(pvm_gsize(name));
	RESULT(pvm_joingroup(" "));
	RESULT(pvm_joingroup("\n\t"));
	RESULT(pvm_joingroup("\xff\xfe"));
	RESULT(pvm_gsize("\xff"));
	RESULT(pvm_gsize("\xff\xfe"));
	RESULT(pvm_gsize(" "));
	RESULT(pvm_lvgroup(" "));
	RESULT(pvm_lvgroup(" "));
}

static void broadcasts(void)
{
	printf("-- broadcasts\n");
	RESULT(pvm_bcast("g", -1));
	RESULT(pvm_bcast("none", -1));
	RESULT(pvm_bcast(0, -1));
	RESULT(pvm_bcast("g", INT_MIN));
	pvm_freebuf(pvm_getsbuf());
	RESULT(pvm_bcast("g", 1));
	RESULT(pvm_bcast("none", 1));
	pvm_initsend(PvmDataDefault);
	RESULT(pvm_bcast("g", INT_MAX));
	RESULT(pvm_getsbuf() > 0);
}

/* What a collective call of the only member answers. */
#define ALONE(...) do { \
	int x[4] = {1, 2, 3, 4}, y[4] = {0}; \
	int info_ = __VA_ARGS__; \
	printf("%s = %d, x %d %d, y %d %d\n", #__VA_ARGS__, info_, x[0], x[1], y[0], y[1]); \
} while (0)

static void failing(int *type, void *x, void *y, int *n, int *info)
{
	*info = -77;
}

static void collections(void)
{
	printf("-- gather\n");
	ALONE(pvm_gather(y, x, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_gather(y, x, 2, PVM_INT, 0, "g", 0));
	ALONE(pvm_gather(y, x, 2, PVM_INT, -1, "g", 0));
	ALONE(pvm_gather(y, x, 0, PVM_INT, 1, "g", 0));
	ALONE(pvm_gather(y, x, -1, PVM_INT, 1, "g", 0));
	ALONE(pvm_gather(y, x, 2, PVM_INT, 1, "g", -1));
	ALONE(pvm_gather(y, x, 2, PVM_INT, 1, "g", 1));
	ALONE(pvm_gather(y, x, 2, PVM_INT, 1, "g", INT_MAX));
	ALONE(pvm_gather(y, x, 2, PVM_INT, 1, "g", INT_MIN));
	ALONE(pvm_gather(0, x, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_gather(y, 0, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_gather(y, 0, 2, PVM_INT, 1, "none", 0));
	ALONE(pvm_gather(y, x, 2, PVM_UINT, 1, "g", 0));
	ALONE(pvm_gather(y, x, 2, PVM_STR, 1, "g", 0));
	ALONE(pvm_gather(y, x, 2, -1, 1, "g", 0));
	ALONE(pvm_gather(y, x, 2, PVM_INT, 1, 0, 0));
	ALONE(pvm_gather(y, x, 2, PVM_INT, 1, "none", -1));
	ALONE(pvm_gather(y, x, 2, PVM_INT, 1, "other", 0));
	printf("-- scatter\n");
	ALONE(pvm_scatter(y, x, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_scatter(y, x, 2, PVM_INT, 0, "g", 0));
	ALONE(pvm_scatter(y, x, 2, PVM_INT, -1, "g", 0));
	ALONE(pvm_scatter(y, x, 0, PVM_INT, 1, "g", 0));
	ALONE(pvm_scatter(y, x, -1, PVM_INT, 1, "g", 0));
	ALONE(pvm_scatter(y, x, 2, PVM_INT, 1, "g", -1));
	ALONE(pvm_scatter(y, x, 2, PVM_INT, 1, "g", 1));
	ALONE(pvm_scatter(y, x, 2, PVM_INT, 1, "g", INT_MAX));
	ALONE(pvm_scatter(0, x, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_scatter(y, 0, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_scatter(y, x, 2, PVM_UINT, 1, "g", 0));
	ALONE(pvm_scatter(y, x, 2, PVM_STR, 1, "g", 0));
	ALONE(pvm_scatter(y, x, 2, PVM_INT, 1, 0, 0));
	ALONE(pvm_scatter(y, x, 2, PVM_INT, 1, "other", 0));
	printf("-- reduce\n");
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, 0, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, -1, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 0, PVM_INT, 1, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, 1, "g", -1));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, 1, "g", 1));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, 1, "g", INT_MAX));
	ALONE(pvm_reduce(PvmSum, 0, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_reduce(failing, x, 2, PVM_INT, 1, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_UINT, 1, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_STR, 1, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_BYTE, 1, "g", 0));
	ALONE(pvm_reduce(PvmMax, x, 2, PVM_STR, 1, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, -1, 1, "g", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, 1, 0, 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, 1, "other", 0));
	ALONE(pvm_reduce(PvmSum, x, 2, PVM_INT, 1, "none", -1));
}

int main(void)
{
	begin();
	pvm_setopt(PvmAutoErr, 0);
	pvm_mytid();
	printf("-- nothing there\n");
	RESULT(pvm_getinst("none", -1));
	RESULT(pvm_gettid("none", -1));
	RESULT(pvm_getinst(0, -1));
	RESULT(pvm_gettid("", -1));
	RESULT(pvm_lvgroup("none"));
	RESULT(pvm_joingroup("g"));
	RESULT(pvm_joingroup("g"));
	questions("g");
	counts();
	names();
	broadcasts();
	collections();
	RESULT(pvm_lvgroup("g"));
	RESULT(pvm_getinst("g", -1));
	pvm_exit();
	return 0;
}
