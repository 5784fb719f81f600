# The calls of tanada/o2g.h.
tanada_test(o2g_seed_test SOURCES e2e/o2g/seed_calls_test.cc e2e/o2g/seed_sockets_test.cc e2e/o2g/seed_races_test.cc MODULES products_o2g)
