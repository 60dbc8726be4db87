/* tests/ext/hardened.c: takes from its process, by a filter of Linux for system calls, the right to
 * make memory executable: where memory was written, or (`any`) of files too. Or the right to map
 * memory at all (forbid_mapping). 0 where it cannot. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LOAD(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Skips `steps` where the call is another one, or its third argument lacks a right. */
#define IS(call, steps) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, steps)
#define HAS(right, steps) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, right, 0, steps)

static int install(struct sock_filter *steps, size_t count)
{
    struct sock_fprog filter = {(unsigned short)count, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

int forbid(int any)
{
    struct sock_filter steps[] = {LOAD(nr),
                                  IS(SYS_mprotect, 4),
                                  LOAD(args[2]),
                                  HAS(PROT_EXEC, 1),
                                  REFUSE,
                                  ALLOW,
                                  IS(SYS_pkey_mprotect, 4),
                                  LOAD(args[2]),
                                  HAS(PROT_EXEC, 1),
                                  REFUSE,
                                  ALLOW,
                                  IS(SYS_mmap, 5),
                                  LOAD(args[2]),
                                  HAS(PROT_EXEC, 2),
                                  HAS(any ? PROT_EXEC : PROT_WRITE, 1),
                                  REFUSE,
                                  ALLOW,
                                  ALLOW};
    return install(steps, sizeof(steps) / sizeof(steps[0]));
}

/* The heap still grows by brk. */
int forbid_mapping(void)
{
    struct sock_filter steps[] = {LOAD(nr), IS(SYS_mmap, 1),
                                  REFUSE,   IS(SYS_mremap, 1),
                                  REFUSE,   IS(SYS_mprotect, 1),
                                  REFUSE,   IS(SYS_pkey_mprotect, 1),
                                  REFUSE,   ALLOW};
    return install(steps, sizeof(steps) / sizeof(steps[0]));
}
