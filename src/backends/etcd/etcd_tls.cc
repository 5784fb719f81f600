// backends/etcd/etcd_tls.cc: contexts and sessions of OpenSSL.
#include "backends/etcd/etcd_tls.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "core/base/log.hpp"

namespace tanada::backends {

namespace {

bool is_address(const std::string &host) {
  in6_addr address;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

void tls_deleter::operator()(SSL_CTX *context) const noexcept {
  SSL_CTX_free(context);
}

void tls_deleter::operator()(SSL *session) const noexcept {
  SSL_free(session);
}

std::string tls_reason() {
  char text[256] = "no reason given";
  if (unsigned long const code = ERR_get_error(); code != 0)
    ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return text;
}

result<tls_context> tls_context_create(const etcd_options &options) {
  tls_context context{SSL_CTX_new(TLS_client_method())};
  if (!context)
    return fail(status::no_memory, "etcd: cannot create a TLS context: {}", tls_reason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // The framing of HTTP finds an answer that was cut off.
  SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  bool const has_authorities =
      options.ca_file.empty()
          ? SSL_CTX_set_default_verify_paths(context.get()) == 1
          : SSL_CTX_load_verify_locations(context.get(), options.ca_file.c_str(), nullptr) == 1;
  if (!has_authorities)
    return fail(
        status::invalid, "etcd: cannot use the CA file '{}': {}", options.ca_file, tls_reason());
  if (options.certificate_file.empty())
    return context;
  if (SSL_CTX_use_certificate_chain_file(context.get(), options.certificate_file.c_str()) != 1)
    return fail(status::invalid,
                "etcd: cannot use the certificate '{}': {}",
                options.certificate_file,
                tls_reason());
  if (SSL_CTX_use_PrivateKey_file(context.get(), options.key_file.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1)
    return fail(
        status::invalid, "etcd: cannot use the key '{}': {}", options.key_file, tls_reason());
  return context;
}

result<tls_session> tls_session_create(SSL_CTX *context, const std::string &host, int socket) {
  tls_session session{SSL_new(context)};
  if (!session)
    return status::no_memory;
  X509_VERIFY_PARAM *const expected = SSL_get0_param(session.get());
  bool const is_set = is_address(host)
                          ? X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1
                          : X509_VERIFY_PARAM_set1_host(expected, host.c_str(), 0) == 1 &&
                                SSL_set_tlsext_host_name(session.get(), host.c_str()) == 1;
  if (!is_set || SSL_set_fd(session.get(), socket) != 1)
    return status::invalid;
  return session;
}

}  // namespace tanada::backends
