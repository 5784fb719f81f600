/* shmem/end.h: undoes begin.h. */
#pragma GCC visibility pop
#if defined(__cplusplus)
}
#endif
#undef SHMEM_OLD_
