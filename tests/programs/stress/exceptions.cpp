// C++ exceptions across a library's border in both directions, on several threads, rethrown,
// nested, carried to another thread, and caught by type; plus a stack trace taken by the unwinder.
#include "thrower.h"

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <unwind.h>
#include <vector>

namespace {

int throw_number(int value) { throw std::out_of_range("value " + std::to_string(value)); }

_Unwind_Reason_Code count_frame(_Unwind_Context *, void *count) {
    ++*static_cast<int *>(count);
    return _URC_NO_REASON;
}

[[gnu::noinline]] int frames(int depth) {
    volatile int count = 0; // keeps the recursion from becoming a loop
    if (depth > 0) return count + frames(depth - 1);
    _Unwind_Backtrace(count_frame, const_cast<int *>(&count));
    return count;
}

long rounds() {
    long sum = 0;
    for (int i = 0; i < 500; i++) {
        try {
            sum += thrower(i % 20);
        } catch (const Thrown &thrown) {
            sum += thrown.value;
        }
        try {
            call_back(throw_number, i);
        } catch (const std::runtime_error &) {
            return -1; // the wrong type
        } catch (const std::logic_error &error) {
            sum += static_cast<long>(std::string(error.what()).size());
        }
        try {
            try {
                thrower(3);
            } catch (...) {
                std::throw_with_nested(std::runtime_error("outer"));
            }
        } catch (const std::exception &outer) {
            try {
                std::rethrow_if_nested(outer);
            } catch (const Thrown &inner) {
                sum += inner.value;
            }
        }
    }
    return sum * 100000 + destroyed;
}

} // namespace

int main() {
    std::vector<long> sums(4);
    std::vector<std::thread> threads;
    for (auto &sum : sums) threads.emplace_back([&sum] { sum = rounds(); });
    for (auto &thread : threads) thread.join();
    for (long sum : sums) std::printf("sum %ld\n", sum);

    std::exception_ptr carried;
    std::thread([&] {
        try {
            thrower(2);
        } catch (...) {
            carried = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(carried);
    } catch (const Thrown &thrown) {
        std::printf("carried %d\n", thrown.value);
    }
    std::printf("deeper by %d frames\n", frames(10) - frames(0));
    return 0;
}
