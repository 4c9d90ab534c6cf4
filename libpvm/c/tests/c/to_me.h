/* Messages of a task to itself. */
#include "show.h"

static int me;

static void send_to_me(int tag, int number)
{
	tell(me, tag, number);
}
