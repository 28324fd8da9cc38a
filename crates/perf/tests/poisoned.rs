//! Addresses from samples against the processor: a loop whose registers are overwritten right after
//! each access is sampled while it runs, and every address must be the one that its site accesses.
#![cfg(target_arch = "x86_64")]

use perf::{Accesses, Event, Rate, Record, Sampler, Settings};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of memory that the loop uses: a line for each of its sites, stack and strings behind them.
const BYTES: usize = 1 << 16;

// Each label `poisoned_site_N` marks an access to line N of the memory at rdi. What follows it
// overwrites what its address was made of, so that any other instruction's registers give another
// address.
core::arch::global_asm!(
    "    .text",
    "    .globl poisoned_loop",
    "    .p2align 4",
    "poisoned_loop:",
    "    push rbx",
    "    push r12",
    "    mov r12, rsi",
    "    .p2align 4",
    "8:",
    ".globl poisoned_site_0",
    "poisoned_site_0:",
    "    mov rax, [rdi]",
    "    mov rax, 0xdeadbeef000",
    "    lea r8, [rdi + 64]",
    ".globl poisoned_site_1",
    "poisoned_site_1:",
    "    add qword ptr [r8], 1",
    "    xor r8d, r8d",
    "    lea r9, [rdi + 128 - 0x8000]",
    "    mov r10d, 0x1000",
    ".globl poisoned_site_2",
    "poisoned_site_2:",
    "    mov [r9 + r10*8], rax",
    "    mov r10, -1",
    "    lea r11, [rdi + 192]",
    ".globl poisoned_site_3d",
    "poisoned_site_3d:",
    "    mov [rdi + 192], r11",
    ".globl poisoned_site_3a",
    "poisoned_site_3a:",
    "    mov r11, [r11]",
    ".globl poisoned_site_3b",
    "poisoned_site_3b:",
    "    mov r11, [r11]",
    ".globl poisoned_site_3c",
    "poisoned_site_3c:",
    "    mov r11, [r11]",
    "    mov r11, 0x1234567",
    "    lea rcx, [rdi + 256]",
    "    mov ebx, 1",
    ".globl poisoned_site_4",
    "poisoned_site_4:",
    "    lock xadd [rcx], rbx",
    "    mov ecx, 0x77777",
    "    lea rdx, [rdi + 320]",
    ".globl poisoned_site_5",
    "poisoned_site_5:",
    "    movups xmm0, [rdx]",
    "    mov rdx, rax",
    "    lea rdx, [rdi + 384]",
    ".globl poisoned_site_6",
    "poisoned_site_6:",
    "    movups [rdx], xmm0",
    "    mov rdx, 0x555",
    "    test rdi, rdi",
    "    jnz 1f",
    // Never executed: what comes before the next instruction in memory, not in time.
    "    mov rax, [rcx]",
    "    mov [rdx + 8], rax",
    "    add dword ptr [r11 + rbx], 5",
    "1:",
    "    nop dword ptr [rax + rax]",
    "    imul rax, rax, 3",
    "    lea rcx, [rdi + 448]",
    ".globl poisoned_site_7",
    "poisoned_site_7:",
    "    cmp dword ptr [rcx], 7",
    "    mov ecx, 9",
    "    jne 2f",
    "2:",
    "    lea ecx, [rdi + 512]",
    "    mov rbx, rdi",
    "    sub rbx, rcx",
    ".globl poisoned_site_8",
    "poisoned_site_8:",
    "    mov byte ptr [rbx + rcx + 512], 1",
    "    xor ebx, ebx",
    "    mov rax, rdi",
    "    call 3f",
    "    mov edx, 32",
    "4:",
    "    mov rcx, rdi",
    "    add rcx, rdx",
    ".globl poisoned_site_10",
    "poisoned_site_10:",
    "    inc byte ptr [rcx + 640 - 1]",
    "    mov ecx, -5",
    "    dec edx",
    "    jnz 4b",
    "    prefetcht0 [r11]",
    "    lea rbx, [r11 + 99]",
    "    dec r12",
    "    jnz 8b",
    "    pop r12",
    "    pop rbx",
    "    ret",
    "    .p2align 4",
    "3:",
    "    lea r8, [rax + 576]",
    ".globl poisoned_site_9",
    "poisoned_site_9:",
    "    or word ptr [r8], 3",
    "    mov r8d, 77",
    "    ret",
    "    .globl poisoned_end",
    "poisoned_end:",
    "    nop",
);

unsafe extern "sysv64" {
    fn poisoned_loop(memory: *mut u8, iterations: u64);
}

unsafe extern "C" {
    static poisoned_end: u8;
    static poisoned_site_0: u8;
    static poisoned_site_1: u8;
    static poisoned_site_2: u8;
    static poisoned_site_3a: u8;
    static poisoned_site_3d: u8;
    static poisoned_site_3b: u8;
    static poisoned_site_3c: u8;
    static poisoned_site_4: u8;
    static poisoned_site_5: u8;
    static poisoned_site_6: u8;
    static poisoned_site_7: u8;
    static poisoned_site_8: u8;
    static poisoned_site_10: u8;
    static poisoned_site_9: u8;
}

/// Each site with the line that it accesses.
fn truth() -> BTreeMap<u64, u64> {
    [
        (&raw const poisoned_site_0, 0),
        (&raw const poisoned_site_1, 1),
        (&raw const poisoned_site_2, 2),
        (&raw const poisoned_site_3a, 3),
        (&raw const poisoned_site_3d, 3),
        (&raw const poisoned_site_3b, 3),
        (&raw const poisoned_site_3c, 3),
        (&raw const poisoned_site_4, 4),
        (&raw const poisoned_site_5, 5),
        (&raw const poisoned_site_6, 6),
        (&raw const poisoned_site_7, 7),
        (&raw const poisoned_site_8, 8),
        (&raw const poisoned_site_10, 10),
        (&raw const poisoned_site_9, 9),
    ]
    .into_iter()
    .map(|(site, line)| (site as u64, line))
    .collect()
}

/// Runs the loop until it is told to stop.
fn run(memory: usize, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        // SAFETY: the loop stays within the memory, which lives as long as this thread, and keeps
        // the calling convention.
        unsafe { poisoned_loop(memory as *mut u8, 1000) };
    }
}

/// Lets the loop end when the test does, however it does.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_address_is_the_one_that_its_site_accesses() {
    let mut memory = vec![0_u64; BYTES / 8];
    let memory = memory.as_mut_ptr() as u64 / 64 * 64 + 64;
    let stop = AtomicBool::new(false);
    let settings = Settings::new(Event::cpu_clock(), Rate::Period(100_000));
    let truth = truth();
    let code = poisoned_loop as *const () as u64..&raw const poisoned_end as u64;
    let (mut checked, mut by_site) = (0_u64, BTreeMap::new());
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| run(memory as usize, &stop));
        let mut sampler = match Sampler::attach(&[std::process::id()], &settings) {
            Ok(sampler) => sampler,
            Err(error) => {
                return test_support::probe::skip("addresses from samples", &error.to_string());
            }
        };
        let mut accesses = Accesses::new();
        let started = Instant::now();
        while checked < 3000 && started.elapsed() < Duration::from_secs(100) {
            sampler.wait(Duration::from_millis(10));
            sampler.drain(|record| {
                accesses.note(&record);
                let Record::Sample(sample) = record else { return };
                if !code.contains(&sample.ip) {
                    return;
                }
                for found in accesses.of(&sample).unwrap_or_default() {
                    let Some(line) = truth.get(&found.site) else {
                        // Pushes and pops, on the stack.
                        let stack = sample.registers.unwrap().0[7];
                        assert!(found.address.abs_diff(stack) <= 32, "{found:x?} of {sample:x?}");
                        return;
                    };
                    let expected = memory + line * 64;
                    let room = if *line == 10 { 0..32 } else { 0..1 };
                    let offset = found.address.wrapping_sub(expected);
                    assert!(room.contains(&offset), "of line {line}: {found:x?} of {sample:x?}");
                    checked += 1;
                    *by_site.entry(line).or_insert(0) += 1;
                }
            });
        }
        let made = accesses.made();
        println!("{checked} addresses right; {made:?}; by line {by_site:?}");
        assert!(checked >= 1000, "only {checked} samples with an address: {made:?}");
        assert!(by_site.len() >= 6, "{by_site:?}");
    });
}
