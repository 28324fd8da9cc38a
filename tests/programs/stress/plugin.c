// A library to be loaded and unloaded again and again by dlopen_loop.c.
static _Thread_local int calls;
static int constructed;

__attribute__((constructor)) static void construct(void) { constructed = 7; }

int plugin(int x);
int plugin(int x) {
    calls++;
    switch (x % 5) { // a jump table in the library's own data
    case 0: return constructed + calls;
    case 1: return x * 3;
    case 2: return x ^ 0x55;
    case 3: return -x;
    default: return x / 3;
    }
}
