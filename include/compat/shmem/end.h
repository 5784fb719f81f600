/* shmem/end.h: the end of what begin.h begins. */
#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif
#undef SHMEM_OLD_
