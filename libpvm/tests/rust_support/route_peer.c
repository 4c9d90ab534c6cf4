/* A task that uses the original library: sends its parent's messages back, on a direct route that it asks for
 * ("asks") or grants ("grants"); or those of another task of which the parent tells ("told"), and asks it. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 60

static int values[ROUNDS * ROUNDS * 30];

int main(int argc, char **argv)
{
    int peer = pvm_parent(), round, size, *descriptors;

    if (peer < 0 || argc < 2) return 1;
    if (!strcmp(argv[1], "told")) {
        pvm_recv(peer, 6);
        pvm_upkint(&peer, 1, 1);
    }
    if (strcmp(argv[1], "grants")) {
        pvm_setopt(PvmRoute, PvmRouteDirect);
        size = -1;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&size, 1, 1);
        pvm_send(peer, 6);
    }
    for (round = 0; round < ROUNDS; round++) {
        if (pvm_recv(peer, 1) < 0) return 1;
        pvm_upkint(&size, 1, 1);
        pvm_upkint(values, size, 1);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&size, 1, 1);
        pvm_pkint(values, size, 1);
        pvm_send(peer, 1);
    }
    size = pvm_getfds(&descriptors);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&size, 1, 1);
    pvm_send(peer, 2);
    pvm_exit();
    return 0;
}
