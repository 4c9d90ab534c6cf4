/* One of many that enrol at once. */
#include "show.h"

int main(void)
{
	int me = pvm_mytid();

	printf("%d", me > 0 && pvm_pstat(me) == PvmOk && pvm_exit() == PvmOk);
	return 0;
}
