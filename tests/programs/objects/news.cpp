// Blocks that C++'s library allocates for the program, in all the ways of operator new.
#include <cstdio>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct alignas(128) Wide {
    char bytes[1280];
};

static void hand_over(void *block, long lines) {
    volatile char *at = static_cast<char *>(block);
    for (long k = 0; k < lines; k++)
        at[k * 64] = 1;
    std::thread([=] {
        for (long k = 0; k < lines; k++)
            (void)at[k * 64];
    }).join();
}

__attribute__((noinline)) static char *make_array() { return new char[6400]; }
__attribute__((noinline)) static Wide *make_wide() { return new Wide[4]; }
__attribute__((noinline)) static char *make_quietly() { return new (std::nothrow) char[3200]; }
__attribute__((noinline)) static void fill(std::vector<long> &v) { v.resize(8000); }
__attribute__((noinline)) static std::string join_words(const char *word) {
    std::string text;
    for (int k = 0; k < 500; k++)
        text += word;
    return text;
}

int main() {
    std::vector<long> v;
    fill(v);
    std::string text = join_words("0123456789");
    char *array = make_array(), *quiet = make_quietly();
    Wide *wide = make_wide();
    try {
        volatile std::size_t huge = std::size_t(1) << 60;
        std::printf("%p\n", static_cast<void *>(new char[huge]));
    } catch (const std::bad_alloc &) {
        std::puts("no memory");
    }
    hand_over(array, 90);
    hand_over(wide, 70);
    hand_over(quiet, 40);
    hand_over(v.data(), 110);
    hand_over(&text[64], 30);
    delete[] array;
    delete[] quiet;
    delete[] wide;
}
