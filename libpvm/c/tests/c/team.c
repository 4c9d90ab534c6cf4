/* Names its team, and is of it until its input ends. */

#include <pvm3.h>
#include <pvm3x.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	char longest[66] = "";

	(void)argc;
	memset(longest, 't', 65);
	pvm_setopt(PvmAutoErr, 0);
	printf("%d %d %d", pvm_jointeam(NULL), pvm_jointeam(""), pvm_jointeam(longest));
	printf(" %d\n", pvm_jointeam(argv[1]));
	fflush(stdout);
	getchar();
	pvm_exit();
	return 0;
}
