# The calls of tanada/o2g.h.
tanada_test(o2g_seed_test SOURCES e2e/o2g/paper_calls_test.cc e2e/o2g/paper_sockets_test.cc e2e/o2g/paper_races_test.cc MODULES products_o2g)
