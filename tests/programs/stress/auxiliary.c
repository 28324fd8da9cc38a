// Reads the auxiliary vector in both ways that there are: behind the environment's NULL, and by the
// pointer that the C library has kept since the program began. Both must hold what the kernel says
// that it has given. Entries that are to be ignored may be among them. Then the same in a program
// that a shell starts, and in one that this process executes.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

static Elf64_auxv_t given[64];

static int walk(char **envp) {
    while (*envp) envp++;
    int equal = 0;
    for (Elf64_auxv_t *entry = (Elf64_auxv_t *)(envp + 1); entry->a_type != AT_NULL; entry++) {
        if (entry->a_type == AT_IGNORE) continue;
        if (memcmp(entry, &given[equal], sizeof *entry)) return -1 - equal;
        equal++;
    }
    return given[equal].a_type == AT_NULL ? equal : -1 - equal;
}

// What getauxval says of these two comes from elsewhere.
static int elsewhere(uint64_t type) {
    return type == AT_HWCAP || type == AT_HWCAP2;
}

static int ask(void) {
    int known = 0;
    for (Elf64_auxv_t *entry = given; entry->a_type != AT_NULL; entry++) {
        errno = 0;
        uint64_t value = getauxval(entry->a_type);
        known += errno == 0 && (elsewhere(entry->a_type) || value == entry->a_un.a_val);
    }
    return known;
}

int main(int argc, char **argv, char **envp) {
    int file = open("/proc/self/auxv", O_RDONLY);
    if (file < 0 || read(file, given, sizeof given - sizeof *given) <= 0) return 3;
    close(file);
    int ours = 0;
    for (char **variable = envp; *variable; variable++) ours += !strncmp(*variable, "THREADTALK_", 11);
    const char *preload = getenv("LD_PRELOAD"), *tunables = getenv("GLIBC_TUNABLES");
    printf("%s: walked %d, asked %d, the program is %s\n", argc > 1 ? argv[1] : "first", walk(envp), ask(),
           strrchr((char *)getauxval(AT_EXECFN), '/'));
    printf("ours %d, LD_PRELOAD %s, GLIBC_TUNABLES %s\n", ours, preload ? preload : "-", tunables ? tunables : "-");
    fflush(stdout);
    if (argc > 1) return 7;
    char command[4096];
    snprintf(command, sizeof command, "'%s' by-shell", argv[0]);
    if (WEXITSTATUS(system(command)) != 7) return 4;
    execl(argv[0], argv[0], "executed", (char *)NULL);
    return 5;
}
