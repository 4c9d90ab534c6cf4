/* Starting a daemon where one runs, as programs do that start one in any case. */
#include "show.h"

int main(void)
{
	char *args[] = {"-nlocalhost"};

	begin();
	RESULT(pvm_start_pvmd(1, args, 1));
	RESULT(pvm_mytid() > 0);
	RESULT(pvm_start_pvmd(0, NULL, 0));
	RESULT(pvm_setopt(PvmAutoErr, 0));
	RESULT(pvm_start_pvmd(0, NULL, 1));
	pvm_exit();
	return 0;
}
