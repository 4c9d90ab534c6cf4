/* The mailbox, contexts, and being spared by a reset. */
#include "show.h"

static void put_and_get(void)
{
	int n = 1;
	char text[20];
	struct pvmminfo info;

	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	pvm_pkstr("hello");
	SHOW(pvm_putinfo("single", pvm_getsbuf(), PvmMboxDefault));
	SHOW(pvm_putinfo("single", pvm_getsbuf(), PvmMboxDefault));
	pvm_initsend(PvmDataRaw);
	n = 2;
	pvm_pkint(&n, 1, 1);
	pvm_pkstr("raw");
	SHOW(pvm_putinfo("many", pvm_getsbuf(), PvmMboxMultiInstance));
	SHOW(pvm_putinfo("many", pvm_getsbuf(), PvmMboxMultiInstance));
	SHOW(pvm_putinfo("many", pvm_getsbuf(), PvmMboxMultiInstance | PvmMboxDirectIndex(7)));
	SHOW(pvm_putinfo("many", pvm_getsbuf(), PvmMboxMultiInstance));
	ID(pvm_recvinfo("single", 0, PvmMboxDefault));
	pvm_getminfo(pvm_getrbuf(), &info);
	printf("length %d, context %d, tag %d, encoding %x\n", info.len, info.ctx, info.tag, (unsigned)info.enc);
	SHOW(pvm_upkint(&n, 1, 1));
	SHOW(pvm_upkstr(text));
	printf("%d %s\n", n, text);
	ID(pvm_recvinfo("many", 4, PvmMboxFirstAvail));
	printf("another: %d\n", pvm_getrbuf() > 0);
	SHOW(pvm_upkint(&n, 1, 1));
	SHOW(pvm_upkstr(text));
	printf("%d %s\n", n, text);
	ID(pvm_recvinfo("many", 1, PvmMboxReadAndDelete));
	SHOW(pvm_recvinfo("many", 1, PvmMboxDefault));
	printf("receive buffer after that: %d\n", pvm_getrbuf() > 0);
	SHOW(pvm_putinfo("many", pvm_getsbuf(), PvmMboxMultiInstance));
	SHOW(pvm_delinfo("many", 1, 0));
	SHOW(pvm_delinfo("many", 1, 0));
	SHOW(pvm_putinfo("", pvm_getsbuf(), 0));
}

static void names(void)
{
	struct pvmmboxinfo *classes;
	int i, j, n;

	SHOW(pvm_getmboxinfo("an", &n, &classes));
	printf("%d names\n", n);
	for (i = 0; i < n; i++) {
		printf("%s:", classes[i].mi_name);
		for (j = 0; j < classes[i].mi_nentries; j++)
			printf(" %d/%d/%d", classes[i].mi_indices[j], classes[i].mi_owners[j] == pvm_mytid(),
				classes[i].mi_flags[j]);
		printf("\n");
	}
	SHOW(pvm_getmboxinfo("nothing of this name", &n, &classes));
	printf("%d names\n", n);
}

static void old_calls(void)
{
	int n = 0;

	SHOW(pvm_insert("old", -1, 50));
	SHOW(pvm_insert("old", -1, 60));
	SHOW(pvm_insert("old", 7, 70));
	SHOW(pvm_insert("old", 7, 80));
	SHOW(pvm_lookup("old", -1, &n));
	printf("%d\n", n);
	SHOW(pvm_lookup("old", 7, &n));
	printf("%d\n", n);
	SHOW(pvm_lookup("old", 3, &n));
	SHOW(pvm_delete("old", 0));
	SHOW(pvm_delete("old", 0));
	SHOW(pvm_delete("old", 1));
	SHOW(pvm_delete("old", 7));
}

static void contexts(void)
{
	int a, b, n = 9;

	SHOW(pvm_getcontext());
	a = pvm_newcontext();
	b = pvm_newcontext();
	printf("new ones: %d\n", a > 0 && b > 0 && a != b);
	SHOW(pvm_setcontext(0));
	pvm_setcontext(a);
	printf("set: %d\n", pvm_getcontext() == a);
	pvm_initsend(PvmDataDefault);
	pvm_pkint(&n, 1, 1);
	SHOW(pvm_send(pvm_mytid(), 1));
	printf("back: %d\n", pvm_setcontext(b) == a);
	sleep(1);
	SHOW(pvm_nrecv(-1, -1));
	pvm_setcontext(a);
	ID(pvm_recv(-1, -1));
	pvm_setcontext(b);
	SHOW(pvm_send(pvm_mytid(), 2));
	pvm_setcontext(-1);
	ID(pvm_recv(-1, 2));
	pvm_setcontext(0);
	SHOW(pvm_freecontext(a));
	SHOW(pvm_freecontext(a));
	SHOW(pvm_freecontext(b));
}

static void no_reset(void)
{
	int *tids, n;

	SHOW(pvm_setopt(PvmNoReset, 1));
	SHOW(pvm_getopt(PvmNoReset));
	pvm_getnoresets(&tids, &n);
	printf("%d, me %d\n", n, n == 1 && tids[0] == pvm_mytid());
	SHOW(pvm_setopt(PvmNoReset, 0));
	pvm_getnoresets(&tids, &n);
	printf("%d\n", n);
}

int main(void)
{
	begin();
	ID(pvm_mytid());
	put_and_get();
	names();
	old_calls();
	contexts();
	no_reset();
	SHOW(pvm_exit());
	return 0;
}
