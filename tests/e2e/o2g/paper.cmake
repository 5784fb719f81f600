# The calls of tanada/o2g.h. The environment selects the implementation: paper_process.hpp.
tanada_test(o2g_paper_test SOURCES e2e/o2g/paper_calls_test.cc e2e/o2g/paper_sockets_test.cc e2e/o2g/paper_races_test.cc
            e2e/o2g/paper_queues_test.cc e2e/o2g/paper_lifetime_test.cc e2e/o2g/paper_driver_test.cc
            MODULES products_o2g TIMEOUT 300)
