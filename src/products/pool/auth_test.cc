// Tests of key files and proofs.
#include "products/pool/auth.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace tanada::pool {
namespace {

std::string const secret(64, 'a');

struct key_file {
  std::string path = testing::TempDir() + "tanada_keys_" + std::to_string(getpid());
  explicit key_file(const std::string &text, mode_t mode = 0600) {
    std::ofstream{path} << text;
    chmod(path.c_str(), mode);
  }
  ~key_file() {
    std::remove(path.c_str());
  }
};

TEST(keys, a_line_is_a_client) {
  key_file const file{"# comment\n\nalice " + secret + " rw runs,logs\nbob " + secret + " ro *\n"};
  auto keys = keys_read(file.path);
  ASSERT_TRUE(keys.ok());
  ASSERT_EQ(keys.value().size(), 2u);
  const key &alice = keys.value()[0], &bob = keys.value()[1];
  EXPECT_TRUE(alice.can_write && alice.allows("runs") && alice.allows("logs"));
  EXPECT_FALSE(alice.allows("other") || alice.allows_all());
  EXPECT_TRUE(bob.allows("anything") && bob.allows_all());
  EXPECT_FALSE(bob.can_write);
  EXPECT_EQ(alice.secret[0], 0xAA);
}

TEST(keys, a_file_that_others_may_read_is_refused) {
  key_file const file{"a " + secret + " rw x\n", 0640};
  EXPECT_EQ(keys_read(file.path).error(), status::access);
}

TEST(keys, malformed_lines_are_refused) {
  for (std::string const &line : {std::string{"a"},
                                  "a " + secret + " rw",
                                  "a " + secret + " wr x",
                                  "a " + secret + "0 rw x",
                                  "a " + secret + " rw x more",
                                  "a " + std::string(64, 'g') + " rw x",
                                  "a " + secret + " rw x/y",
                                  std::string{}}) {
    key_file const file{line + "\n"};
    EXPECT_EQ(keys_read(file.path).error(), status::invalid) << line;
  }
  EXPECT_EQ(keys_read("/no/such/file").error(), status::no_entry);
}

TEST(proofs, are_good_for_one_connection_side_and_namespace) {
  key test_key{"id", {}, true, {"*"}};
  test_key.secret[0] = 1;
  bytes32 const first = random_bytes(), second = random_bytes();
  auto const proof = proof_of(test_key, prover::client, first, second, "space");
  EXPECT_TRUE(is_equal(proof, proof_of(test_key, prover::client, first, second, "space")));
  EXPECT_FALSE(is_equal(proof, proof_of(test_key, prover::server, first, second, "space")));
  EXPECT_FALSE(is_equal(proof, proof_of(test_key, prover::client, second, first, "space")));
  EXPECT_FALSE(is_equal(proof, proof_of(test_key, prover::client, first, random_bytes(), "space")));
  EXPECT_FALSE(is_equal(proof, proof_of(test_key, prover::client, first, second, "other")));
  test_key.secret[31] = 1;
  EXPECT_FALSE(is_equal(proof, proof_of(test_key, prover::client, first, second, "space")));
}

}  // namespace
}  // namespace tanada::pool
