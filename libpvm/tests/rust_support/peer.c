/* A task that uses the original library: asks its parent for a direct route and sends it every type. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 100000

static int fail(const char *what)
{
    fprintf(stderr, "peer: %s\n", what);
    pvm_exit();
    return 1;
}

int main(void)
{
    static int ints[N];
    char text[100];
    short shorts[3] = { -1, 2, -3 };
    long longs[2] = { -5, 1L << 30 };
    float one = 0.5f;
    double two[2] = { 1e300, -2.5 };
    int parent = pvm_parent(), tids[2], i, style;

    if (parent < 0) return fail("no parent");
    pvm_setopt(PvmRoute, PvmRouteDirect);
    for (style = PvmDataDefault; style <= PvmDataInPlace; style++) {
        pvm_initsend(style);
        for (i = 0; i < N; i++) ints[i] = i * 3;
        pvm_pkint(ints, N, 1);
        pvm_pkbyte("abc", 3, 1);
        pvm_pkshort(shorts, 3, 1);
        pvm_pklong(longs, 2, 1);
        pvm_pkfloat(&one, 1, 1);
        pvm_pkdouble(two, 2, 1);
        if (style != PvmDataInPlace) pvm_pkstr("text");
        if (pvm_send(parent, 10 + style) < 0) return fail("cannot send");
    }
    if (pvm_recv(parent, 20) < 0) return fail("cannot receive");
    memset(ints, 0, sizeof ints);
    if (pvm_upkint(ints, N, 1) < 0 || pvm_upkstr(text) < 0) return fail("cannot unpack");
    for (i = 0; i < N; i++) if (ints[i] != -i) return fail("wrong numbers");
    if (strcmp(text, "from Rust")) return fail("wrong text");
    /* Direct routes are refused: the message came through the daemon, and the next send goes there. */
    tids[0] = parent;
    pvm_initsend(PvmDataRaw);
    pvm_mcast(tids, 1, 30);
    pvm_exit();
    return 0;
}
