/*
 * hoster: starts daemons in the master's place. Every host is this one: it runs the command that the master gives it,
 * and passes on what the command prints.
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SM_STHOST ((int)0x8004000f)
#define SM_STHOSTACK ((int)0x80040010)

enum { MAX = 100, TEXT = 500 };

static void start(const char *command, const char *vmid, char *line)
{
	FILE *output;

	if (vmid[0])
		setenv("PVM_VMID", vmid, 1);
	else
		unsetenv("PVM_VMID");
	output = popen(command, "r");
	if (output == NULL || fgets(line, TEXT, output) == NULL)
		strcpy(line, "PvmCantStart");
	if (output != NULL)
		pclose(output);
}

static void serve(int message)
{
	static int tids[MAX];
	static char lines[MAX][TEXT];
	char options[TEXT], target[TEXT], command[TEXT], windows[TEXT], vmid[TEXT];
	struct pvmminfo info;
	int i, count, reply;

	pvm_getminfo(message, &info);
	pvm_upkint(&count, 1, 1);
	for (i = 0; i < count && i < MAX; i++) {
		pvm_upkint(&tids[i], 1, 1);
		pvm_upkstr(options);
		pvm_upkstr(target);
		pvm_upkstr(command);
		pvm_upkstr(windows);
		pvm_upkstr(vmid);
		printf("start %s\n", target);
		fflush(stdout);
		start(command, vmid, lines[i]);
	}
	reply = pvm_initsend(PvmDataDefault);
	pvm_pkint(&count, 1, 1);
	for (i = 0; i < count && i < MAX; i++) {
		pvm_pkint(&tids[i], 1, 1);
		pvm_pkstr(lines[i]);
	}
	info.ctx = 0;
	pvm_setminfo(reply, &info);
	pvm_send(info.src, SM_STHOSTACK);
}

int main(void)
{
	pvm_setopt(PvmResvTids, 1);
	printf("registered %d\n", pvm_reg_hoster());
	fflush(stdout);
	for (;;) {
		int message = pvm_recv(-1, SM_STHOST);

		if (message < 0)
			return 1;
		serve(message);
	}
}
