/* On which hosts a group's members are: calls that no header declares, but the group library has. */
#include "show.h"

extern int pvm_grphostinfo(char *, int, int *, int *, int *), pvm_grpvhostinfo(char *, int **, int **, int *);

static void all(void)
{
	int *coordinators = NULL, *members = NULL, hosts = -7;

	RESULT(pvm_grpvhostinfo("g", &coordinators, &members, &hosts));
	printf("%d: first me %d, members %d\n", hosts, coordinators[0] == pvm_mytid(), members[0]);
}

static void one(char *group, int host)
{
	int coordinator = -7, members = -7, hosts = -7;

	RESULT(pvm_grphostinfo(group, host, &coordinator, &members, &hosts));
	printf("%d of %d, first me %d, none %d\n", members, hosts, coordinator == pvm_mytid(), coordinator == -1);
}

int main(void)
{
	int here;

	begin();
	here = pvm_tidtohost(pvm_mytid());
	RESULT(pvm_joingroup("g"));
	one("none", here);
	one("", here);
	one("g", here);
	one("g", 7 << 18);
	all();
	SHOW(pvm_freezegroup("g", 1));
	one("g", here);
	one("g", 7 << 18);
	all();
	SHOW(pvm_lvgroup("g"));
	SHOW(pvm_exit());
	return 0;
}
