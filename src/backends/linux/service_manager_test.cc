#include "seams/os/service_manager.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tanada::backends {
namespace {

class service_manager : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("CREDENTIALS_DIRECTORY");
  }
  // A socket as systemd has it. `name` begins with '/' or, for one without a file, with '@'.
  static int listen_at(const std::string &name) {
    int const socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@')
      address.sun_path[0] = '\0';
    EXPECT_EQ(bind(socket,
                   reinterpret_cast<const sockaddr *>(&address),
                   socklen_t(offsetof(sockaddr_un, sun_path) + name.size())),
              0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    return socket;
  }
  static std::string receive(int socket) {
    char text[256];
    ssize_t const size = recv(socket, text, sizeof text, MSG_DONTWAIT);
    return {text, size < 0 ? 0 : size_t(size)};
  }
};

TEST_F(service_manager, nobody_is_notified_without_a_manager) {
  EXPECT_FALSE(seams::notify_service_manager("READY=1"));
  setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1);
  EXPECT_FALSE(seams::notify_service_manager("READY=1"));
  setenv("NOTIFY_SOCKET", std::string(300, '/').c_str(), 1);
  EXPECT_FALSE(seams::notify_service_manager("READY=1"));
  setenv("NOTIFY_SOCKET", "vsock:2:1", 1);
  EXPECT_FALSE(seams::notify_service_manager("READY=1"));
}

TEST_F(service_manager, a_file_and_a_name_without_one_receive_the_lines) {
  std::string const path = testing::TempDir() + "/notify_" + std::to_string(getpid());
  for (std::string const &name : {path, "@tanada_notify_" + std::to_string(getpid())}) {
    int const socket = listen_at(name);
    EXPECT_TRUE(seams::notify_service_manager("READY=1\nSTATUS=serving"));
    EXPECT_EQ(receive(socket), "READY=1\nSTATUS=serving");
    EXPECT_TRUE(seams::notify_reloading());
    EXPECT_EQ(receive(socket).find("RELOADING=1\nMONOTONIC_USEC="), 0U);
    close(socket);
  }
  std::filesystem::remove(path);
}

TEST_F(service_manager, a_credential_is_a_file_of_the_folder) {
  EXPECT_EQ(seams::credential_path("keys"), "");
  std::string const folder = testing::TempDir() + "/credentials_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  setenv("CREDENTIALS_DIRECTORY", folder.c_str(), 1);
  EXPECT_EQ(seams::credential_path("keys"), "");
  std::ofstream{folder + "/keys"} << "a key";
  EXPECT_EQ(seams::credential_path("keys"), folder + "/keys");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tanada::backends
