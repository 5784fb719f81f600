// backends/etcd/etcd_tls.hpp: the TLS settings of a client of etcd, by OpenSSL.
#pragma once

#include <memory>

#include "backends/etcd/etcd_coordinator.hpp"

// OpenSSL's SSL_CTX and SSL.
struct ssl_ctx_st;
struct ssl_st;

namespace tanada::backends {

struct tls_deleter {
  void operator()(ssl_ctx_st *context) const noexcept;
  void operator()(ssl_st *session) const noexcept;
};
using tls_context = std::unique_ptr<ssl_ctx_st, tls_deleter>;
using tls_session = std::unique_ptr<ssl_st, tls_deleter>;

// invalid: a file of the options cannot be used.
result<tls_context> tls_context_create(const etcd_options &options);

// A session over a connected socket that does not block, with the checks of the host's certificate.
result<tls_session> tls_session_create(ssl_ctx_st *context, const std::string &host, int socket);

// Takes the first error of OpenSSL on this thread.
std::string tls_reason();

}  // namespace tanada::backends
