/* Names, arguments and variables are bytes: what is no UTF-8 comes through as it is. */
#include "show.h"
#include <sys/stat.h>

enum { SAID = 1 };

#define LATIN "caf\xe9 \xff\x80"

static char program[4096], folder[4200];

static void hex(char *out, const char *text)
{
	for (*out = 0; text && *text; text++)
		out += sprintf(out, "%02x", (unsigned char)*text);
}

static const char *last(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

static void say(const char *what, const char *text)
{
	char line[1000], digits[900];

	hex(digits, text);
	snprintf(line, sizeof line, "%s %s", what, text ? digits : "none");
	pvm_pkstr(line);
}

/* A child: tells what has reached it. */
static int child(int argc, char **argv)
{
	char here[4096];
	int i;

	pvm_initsend(PvmDataDefault);
	say("program", last(argv[0]));
	for (i = 1; i < argc; i++)
		say("argument", argv[i]);
	say("variable", getenv("LATIN"));
	say("of another name", getenv("L\xc4TIN"));
	if (getcwd(here, sizeof here) && strstr(here, "-\xfc"))
		say("folder", last(here));
	pvm_pkstr("");
	pvm_send(pvm_parent(), SAID);
	pvm_recv(pvm_parent(), SAID);
	pvm_exit();
	return 0;
}

static void start(char *file, int flags, char *where)
{
	char *args[] = {"child", LATIN, "", "\xc3\xa9", NULL}, line[1000];
	struct pvmtaskinfo *task;
	int tid, i;

	SHOW(pvm_spawn(file, args, flags, where, 1, &tid));
	pvm_recv(tid, SAID);
	while (!pvm_upkstr(line) && *line)
		puts(line);
	RESULT(pvm_tasks(tid, &i, &task));
	hex(line, last(task->ti_a_out));
	printf("in the list %s\n", line);
	pvm_initsend(PvmDataDefault);
	pvm_send(tid, SAID);
}

static void mailbox(void)
{
	struct pvmmboxinfo *list;
	char line[1000];
	int n = 0, classes;

	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_putinfo(LATIN, pvm_getsbuf(), PvmMboxDefault));
	ID(pvm_recvinfo(LATIN, 0, PvmMboxDefault));
	SHOW(pvm_recvinfo("caf\xe8", 0, PvmMboxDefault));
	SHOW(pvm_getmboxinfo(LATIN, &classes, &list));
	for (; n < classes; n++) {
		hex(line, list[n].mi_name);
		printf("class %s\n", line);
	}
	SHOW(pvm_delinfo(LATIN, 0, PvmMboxDefault));
}

static void groups(void)
{
	int n = 3, all[1] = {0}, me = pvm_mytid();

	RESULT(pvm_joingroup(LATIN));
	SHOW(pvm_joingroup(LATIN));
	SHOW(pvm_gsize(LATIN));
	SHOW(pvm_gsize("caf\xe8 \xff\x80"));
	SHOW(pvm_getinst(LATIN, me));
	SHOW(pvm_gettid(LATIN, 0) == me);
	SHOW(pvm_barrier(LATIN, 1));
	SHOW(pvm_reduce(PvmSum, &n, 1, PVM_INT, 5, LATIN, 0));
	SHOW(pvm_gather(all, &n, 1, PVM_INT, 6, LATIN, 0));
	printf("%d\n", all[0]);
	pvm_initsend(PvmDataDefault);
	RESULT(pvm_bcast(LATIN, 7));
	SHOW(pvm_freezegroup(LATIN, 1));
	SHOW(pvm_gsize(LATIN));
	SHOW(pvm_lvgroup(LATIN));
	SHOW(pvm_lvgroup(LATIN));
}

int main(int argc, char **argv)
{
	char other[4300], where[4300];

	begin();
	if (argc > 1)
		return child(argc, argv);
	if (!realpath(argv[0], program))
		return 1;
	snprintf(folder, sizeof folder, "%.*s/f-\xfc", (int)(last(program) - program - 1), program);
	snprintf(other, sizeof other, "%s/" LATIN, folder);
	snprintf(where, sizeof where, ".:%s", folder);
	mkdir(folder, 0700);
	if (symlink(program, other))
		printf("no link\n");
	setenv("LATIN", LATIN, 1);
	setenv("L\xc4TIN", "\xd6", 1);
	ID(pvm_mytid());
	SHOW(pvm_export("LATIN"));
	SHOW(pvm_export("L\xc4TIN"));
	start(other, PvmTaskDefault, NULL);
	start(other, PvmTaskHost, where);
	SHOW(pvm_unexport("L\xc4TIN"));
	start(other, PvmTaskDefault, NULL);
	SHOW(pvm_spawn("no such \xe9", NULL, PvmTaskDefault, NULL, 1, &argc));
	RESULT(argc);
	mailbox();
	groups();
	unlink(other);
	rmdir(folder);
	pvm_exit();
	return 0;
}
