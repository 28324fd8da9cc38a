// A library that a program preloads into its children: says so.
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void here(void) {
    static const char text[] = "preloaded\n";
    if (write(1, text, sizeof text - 1) < 0) _exit(9);
}
