#include "skerry/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "skerry/base/log.h"

namespace skerry {
namespace {

constexpr size_t kPiece = 16 << 10;  // the most that a record has

std::string LastProblem() {
  char text[256];
  const unsigned long error = ERR_get_error();  // NOLINT(google-runtime-int): OpenSSL's type
  if (error == 0) return "unknown";
  ERR_error_string_n(error, text, sizeof(text));
  ERR_clear_error();
  return text;
}

// What changes when one of the files is replaced, also where a link to it is (as Kubernetes does).
std::string MarkOf(const TlsFiles& files) {
  std::string mark;
  for (const std::string& path : {files.certificate, files.key}) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) continue;
    mark += fmt::format("{}:{}:{}.{};", info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  return mark;
}

}  // namespace

TlsIdentity::TlsIdentity() : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free) {
  SSL_CTX_set_min_proto_version(context(), TLS1_2_VERSION);
  SSL_CTX_set_options(context(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Many connections are idle: they need no buffers.
  SSL_CTX_set_mode(context(), SSL_MODE_RELEASE_BUFFERS);
}

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::Load(const TlsFiles& files) {
  ERR_clear_error();
  std::shared_ptr<TlsIdentity> identity(new TlsIdentity);
  if (SSL_CTX_use_certificate_chain_file(identity->context(), files.certificate.c_str()) != 1) {
    return Fail(Code::kInvalid, "{} is no certificate in PEM: {}", files.certificate, LastProblem());
  }
  if (SSL_CTX_use_PrivateKey_file(identity->context(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Fail(Code::kInvalid, "{} is no key in PEM, or not that of {}: {}", files.key, files.certificate,
                LastProblem());
  }
  if (SSL_CTX_check_private_key(identity->context()) != 1) {
    return Fail(Code::kInvalid, "{} is not the key of {}: {}", files.key, files.certificate, LastProblem());
  }
  return std::shared_ptr<const TlsIdentity>(std::move(identity));
}

Result<std::unique_ptr<TlsIdentities>> TlsIdentities::Load(const TlsFiles& files) {
  std::unique_ptr<TlsIdentities> all(new TlsIdentities(files));
  all->mark_ = MarkOf(files);
  SKERRY_ASSIGN(all->identity_, TlsIdentity::Load(files));
  return all;
}

const TlsIdentity& TlsIdentities::Current() {
  std::string mark = MarkOf(files_);
  if (mark == mark_) return *identity_;
  mark_ = std::move(mark);
  if (auto read = TlsIdentity::Load(files_)) {
    identity_ = *std::move(read);
    LogInfo("the certificate {} is another one from here on", files_.certificate);
  } else {
    LogWarning("the certificate stays as it was: {}", read.error().message);
  }
  return *identity_;
}

TlsSession::TlsSession(const TlsIdentity& identity) : ssl_(SSL_new(identity.context()), SSL_free) {
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  BIO_set_mem_eof_return(in, -1);  // more may come
  SSL_set_bio(ssl_.get(), in, out);
  SSL_set_accept_state(ssl_.get());
}

std::optional<std::string_view> TlsSession::Receive(std::string_view bytes) {
  ERR_clear_error();
  text_.clear();
  while (!bytes.empty()) {
    const int taken =
        BIO_write(SSL_get_rbio(ssl_.get()), bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX)));
    if (taken <= 0) return std::nullopt;
    bytes.remove_prefix(static_cast<size_t>(taken));
  }
  while (true) {
    const size_t before = text_.size();
    text_.resize(before + kPiece);
    const int read = SSL_read(ssl_.get(), text_.data() + before, kPiece);
    text_.resize(before + static_cast<size_t>(std::max(read, 0)));
    if (read > 0) continue;
    const int why = SSL_get_error(ssl_.get(), read);
    if (why == SSL_ERROR_ZERO_RETURN) ended_ = true;
    if (why == SSL_ERROR_ZERO_RETURN || why == SSL_ERROR_WANT_READ) return text_;
    ERR_clear_error();
    return std::nullopt;
  }
}

void TlsSession::Send(std::string_view text) {
  ERR_clear_error();
  while (!text.empty()) {
    // Into memory: it is taken whole.
    const int taken = SSL_write(ssl_.get(), text.data(), static_cast<int>(std::min<size_t>(text.size(), INT_MAX)));
    if (taken <= 0) return ERR_clear_error();
    text.remove_prefix(static_cast<size_t>(taken));
  }
}

void TlsSession::End() {
  ERR_clear_error();
  if (SSL_is_init_finished(ssl_.get()) == 1) SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::string TlsSession::Outgoing() {
  BIO* out = SSL_get_wbio(ssl_.get());
  std::string bytes(BIO_ctrl_pending(out), '\0');
  if (!bytes.empty()) BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

}  // namespace skerry
