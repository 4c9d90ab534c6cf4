/* The end of a virtual machine, by a task that does not want to end with it, and the start of another. */
#include "show.h"
#include <signal.h>

static char *args[] = {"-nlocalhost"};

/* Whether the machine comes to an end: calls fail, then nobody can enrol. */
static int ends(void)
{
	double until = now() + 20;

	while (pvm_mytid() > 0 && now() < until) {
		usleep(20000);
		if (pvm_config(NULL, NULL, NULL) < 0)
			pvm_exit();
	}
	return pvm_mytid();
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
	SHOW(pvm_config(NULL, NULL, NULL));
	RESULT(pvm_start_pvmd(1, args, 1));
	ID(pvm_mytid());
	SHOW(pvm_config(&hosts, &formats, NULL));
	printf("%d host, %d format\n", hosts, formats);
	SHOW(pvm_start_pvmd(0, NULL, 0));
	SHOW(pvm_halt());
	SHOW(ends());
	return 0;
}
