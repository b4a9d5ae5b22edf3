/* sys.h - what the machine is: processors, memory, instruction sets, the clock. */
#ifndef KVT_SYS_H
#define KVT_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int sys_processors(void);      /* that this process may use, at least 1 */
size_t sys_memory_total(void); /* bytes that this process may use: the machine's, or its control group's if less */
size_t sys_memory_free(void);  /* bytes of it that nobody uses, or that hold what can be read again */
uint64_t sys_now_ns(void);     /* monotonic */

/* The calling thread is one that others may push aside: it gets what processors have left, and a little more. */
void sys_thread_background(void);

bool sys_has_avx2(void);   /* with FMA and F16C */
bool sys_has_avx512(void); /* F, BW, DQ, VL and VNNI */
bool sys_has_avx512bf16(void);
bool sys_bf16_is_fast(void); /* vdpbf16ps, where there is one, takes no longer than a multiply-add */

#endif
