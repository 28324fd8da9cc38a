// A library that is preloaded into a program: whoever removes a folder gets SIGTERM just before.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>

int rmdir(const char *path) {
    raise(SIGTERM);
    return ((int (*)(const char *))dlsym(RTLD_NEXT, "rmdir"))(path);
}
