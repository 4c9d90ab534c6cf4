/* What one task is refused because of another: its names in the mailbox, its contexts, the roles it has. */
#include "show.h"

enum { DO = 1, DONE = 2 };

static char program[4096];

static int told(int tid, int tag)
{
	int n = -1;

	pvm_recv(tid, tag);
	pvm_upkint(&n, 1, 1);
	return n;
}

/* The child does what its parent may do, and says nothing but what calls give: on its parent's output. */
static void names(int parent)
{
	int n = 0;

	pvm_initsend(PvmDataDefault);
	SHOW(pvm_putinfo("mine", pvm_getsbuf(), PvmMboxDefault));
	SHOW(pvm_putinfo("mine", pvm_getsbuf(), PvmMboxOverWritable));
	SHOW(pvm_delinfo("mine", 0, PvmMboxDefault));
	SHOW(pvm_recvinfo("mine", 0, PvmMboxReadAndDelete));
	ID(pvm_recvinfo("mine", 0, PvmMboxDefault));
	SHOW(pvm_insert("number", 0, 5));
	SHOW(pvm_insert("number", -1, 5));
	SHOW(pvm_lookup("number", -1, &n));
	printf("%d\n", n);
	SHOW(pvm_delete("number", 0));
	SHOW(pvm_delete("number", 1));
	SHOW(pvm_putinfo("anyone's", pvm_getsbuf(), PvmMboxDefault));
	SHOW(pvm_delinfo("anyone's", 0, PvmMboxDefault));
	SHOW(pvm_putinfo("mine", pvm_getsbuf(), PvmMboxMultiInstance));
	printf("the parent's tid: %d\n", parent > 0);
}

static void roles(void)
{
	SHOW(pvm_reg_hoster());
	SHOW(pvm_reg_tasker());
	SHOW(pvm_reg_tracer(1, 2, 3, 4, "@@@@", 5, 1));
}

static int child(char **argv)
{
	int parent = atoi(argv[2]), context;

	be_silent();
	if (!freopen(argv[3], "a", stdout))
		return 1;
	begin();
	pvm_setopt(PvmAutoErr, 0);
	SHOW(pvm_parent());
	context = told(parent, DO);
	SHOW(pvm_freecontext(context));
	names(parent);
	roles();
	tell(parent, DONE, 0);
	told(parent, DO);
	printf("once they are free\n");
	roles();
	roles();
	tell(parent, DONE, 0);
	pvm_exit();
	return 0;
}

int main(int argc, char **argv)
{
	char own[20], path[200], line[200], *args[] = {"child", own, path, NULL};
	int kid, context, n = 3;
	FILE *said;

	if (argc > 1 && !strcmp(argv[1], "child"))
		return child(argv);
	begin();
	n = readlink("/proc/self/exe", program, sizeof program - 1);
	program[n] = 0;
	sprintf(own, "%d", pvm_mytid());
	sprintf(path, "%s/said", getenv("PVM_TMP"));
	pvm_setopt(PvmAutoErr, 0);
	ID(context = pvm_newcontext());
	pvm_initsend(PvmDataDefault);
	SHOW(pvm_putinfo("mine", pvm_getsbuf(), PvmMboxDefault));
	SHOW(pvm_putinfo("anyone's", pvm_getsbuf(), PvmMboxOverWritable));
	SHOW(pvm_insert("number", 0, 4));
	roles();
	/* Its tasker is itself; the child is to be started by the daemon. */
	SHOW(pvm_reg_tasker());
	SHOW(pvm_spawn(program, args, PvmNoSpawnParent, NULL, 1, &kid));
	SHOW(pvm_reg_tasker());
	tell(kid, DO, context);
	told(kid, DONE);
	roles();
	tell(kid, DO, 0);
	told(kid, DONE);
	SHOW(pvm_freecontext(context));
	SHOW(pvm_lookup("number", 0, &n));
	printf("%d\n", n);
	SHOW(pvm_recvinfo("anyone's", 0, PvmMboxDefault));
	said = fopen(path, "r");
	while (said && fgets(line, sizeof line, said))
		printf("child: %s", line);
	SHOW(pvm_exit());
	return 0;
}
