/*
 * mailbox: leaves messages in the mailbox, alone and together with a task it spawns, and prints every answer. Tids are
 * printed as names, so that two runs can be compared.
 */
#include <pvm3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { GO = 1, DONE = 2 };

#define SHOW(call) printf("%s = %d\n", #call, call), fflush(stdout)

static int put(const char *class, int flags, int value)
{
	int buffer, answer;

	buffer = pvm_initsend(PvmDataDefault);
	pvm_pkint(&value, 1, 1);
	answer = pvm_putinfo((char *)class, buffer, flags);
	return answer;
}

/* The value found, 1000 + error if there is none. */
static int get(const char *class, int index, int flags)
{
	int value = 0, answer = pvm_recvinfo((char *)class, index, flags);

	if (answer <= 0)
		return 1000 + answer;
	pvm_upkint(&value, 1, 1);
	return value;
}

static void list(const char *pattern, int mytid)
{
	struct pvmmboxinfo *info = NULL;
	int count = 0, i, k;

	printf("list %s: %d\n", pattern, pvm_getmboxinfo((char *)pattern, &count, &info));
	for (i = 0; i < count; i++) {
		printf("  %s:", info[i].mi_name);
		for (k = 0; k < info[i].mi_nentries; k++) {
			int owner = info[i].mi_owners[k];

			printf(" %d %s %x", info[i].mi_indices[k], owner == mytid ? "mine" : owner ? "other's" : "nobody's",
			       info[i].mi_flags[k]);
		}
		printf("\n");
	}
	fflush(stdout);
}

static int other(int parent)
{
	int answers[12], n = 0;

	answers[n++] = put("single", PvmMboxDefault, 9);
	answers[n++] = pvm_delinfo("single", 0, PvmMboxDefault);
	answers[n++] = get("single", 0, PvmMboxDefault);
	answers[n++] = get("single", 0, PvmMboxReadAndDelete);
	answers[n++] = put("open", PvmMboxDefault, 10);
	answers[n++] = put("many", PvmMboxMultiInstance, 11);
	answers[n++] = put("lasting", PvmMboxPersistent, 12);
	answers[n++] = put("mortal", PvmMboxDefault, 13);
	answers[n++] = put("late", PvmMboxDefault, 14);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_pkint(answers, n, 1);
	pvm_send(parent, DONE);
	pvm_recv(parent, GO);
	pvm_exit();
	return 0;
}

static void together(int mytid, char *program)
{
	int answers[12], tid, n = 0, i, left;

	SHOW(put("open", PvmMboxOverWritable, 5));
	if (pvm_spawn(program, NULL, PvmTaskDefault, "", 1, &tid) != 1) {
		printf("no other task: %d\n", tid);
		return;
	}
	/* It comes only later. */
	SHOW(get("late", 0, PvmMboxWaitForInfo));
	pvm_recv(tid, DONE);
	pvm_upkint(&n, 1, 1);
	pvm_upkint(answers, n, 1);
	for (i = 0; i < n; i++)
		printf("other: %d\n", answers[i]);
	list("", mytid);
	pvm_notify(PvmTaskExit, DONE, 1, &tid);
	pvm_initsend(PvmDataDefault);
	pvm_send(tid, GO);
	pvm_recv(-1, DONE);
	for (left = 100; left > 0 && get("mortal", 0, PvmMboxDefault) == 13; left--)
		usleep(50000);
	list("", mytid);
	SHOW(get("lasting", 0, PvmMboxDefault));
	SHOW(get("lasting", 0, PvmMboxReadAndDelete));
	SHOW(pvm_delinfo("lasting", 0, PvmMboxDefault));
	SHOW(put("lasting", PvmMboxDefault, 6));
	SHOW(pvm_delinfo("open", 0, PvmMboxDefault));
}

int main(int argc, char **argv)
{
	int mytid = pvm_mytid();
	int parent = pvm_parent();
	int value = 0;

	pvm_setopt(PvmAutoErr, 0);
	if (parent > 0)
		return other(parent);
	SHOW(put("single", PvmMboxDefault, 1));
	SHOW(put("single", PvmMboxDefault, 2));
	SHOW(get("single", 0, PvmMboxDefault));
	SHOW(get("single", 1, PvmMboxDefault));
	SHOW(get("single", 1, PvmMboxFirstAvail));
	SHOW(get("single", 0, PvmMboxFirstAvail));
	SHOW(get("nothing", 0, PvmMboxDefault));
	SHOW(get("nothing", -1, PvmMboxDefault));
	SHOW(put("", PvmMboxDefault, 1));
	SHOW(put("many", PvmMboxMultiInstance, 20));
	SHOW(put("many", PvmMboxMultiInstance, 21));
	SHOW(put("many", PvmMboxMultiInstance, 22));
	SHOW(pvm_delinfo("many", 1, PvmMboxDefault));
	SHOW(pvm_delinfo("many", 1, PvmMboxDefault));
	SHOW(get("many", 1, PvmMboxFirstAvail));
	SHOW(put("many", PvmMboxMultiInstance, 23));
	SHOW(put("many", PvmMboxMultiInstance | PvmMboxDirectIndex(7), 27));
	SHOW(put("many", PvmMboxMultiInstance | PvmMboxDirectIndex(2), 24));
	SHOW(put("direct", PvmMboxDirectIndex(5), 30));
	SHOW(get("many", 7, PvmMboxReadAndDelete));
	SHOW(get("many", 7, PvmMboxDefault));
	value = 77;
	SHOW(pvm_insert("old", 3, value));
	SHOW(pvm_insert("old", 3, value));
	SHOW(pvm_insert("old", -1, value));
	value = 0;
	SHOW(pvm_lookup("old", 3, &value));
	printf("value %d\n", value);
	SHOW(pvm_lookup("old", -1, &value));
	SHOW(pvm_lookup("old", 9, &value));
	SHOW(pvm_delete("old", 3));
	SHOW(pvm_delete("old", 3));
	list("", mytid);
	list("an", mytid);
	list("d*t", mytid);
	list("x", mytid);
	together(mytid, argv[0]);
	pvm_exit();
	return argc > 1;
}
