/* Registering as hoster, tasker and tracer, which the mailbox tells, and giving it back. */
#include "show.h"

static void names(void)
{
	struct pvmmboxinfo *classes;
	int i, n;

	pvm_getmboxinfo("###_PVM", &n, &classes);
	printf("%d names:", n);
	for (i = 0; i < n; i++)
		printf(" %s/%d/%d", classes[i].mi_name, classes[i].mi_nentries, classes[i].mi_owners[0] == pvm_mytid());
	printf("\n");
}

int main(void)
{
	int tid = 0;

	begin();
	ID(pvm_mytid());
	SHOW(pvm_reg_hoster());
	SHOW(pvm_reg_tasker());
	SHOW(pvm_reg_tracer(1, 2, 3, 4, "@@@@", 5, 1));
	names();
	ID(pvm_recvinfo(PVMHOSTERCLASS, 0, PvmMboxFirstAvail));
	SHOW(pvm_upkint(&tid, 1, 1));
	printf("me: %d\n", tid == pvm_mytid());
	SHOW(pvm_reg_hoster());
	SHOW(pvm_reg_tasker());
	SHOW(pvm_reg_tracer(1, 2, 3, 4, "@@@@", 5, 1));
	names();
	SHOW(pvm_exit());
	return 0;
}
