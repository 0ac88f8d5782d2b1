// SPDX-License-Identifier: Apache-2.0
//
// Proves that the sender of a message knows the job's secret.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fcdp {

/// Returns unpredictable bytes. Throws std::runtime_error.
std::string randomBytes(size_t count);

/// Returns the HMAC (RFC 2104) with SHA-1 of the parts, in hexadecimal digits.
/// Each part is preceded by its length, so that no two lists of parts are the
/// same text.
std::string proofOf(const std::string &secret,
                    const std::vector<std::string> &parts);

/// Returns the HMAC of the unchanged text.
std::string hmacSha1(const std::string &secret, const std::string &text);

/// Compares proofs in a time that does not depend on where they differ.
bool isSameProof(const std::string &one, const std::string &other);

} // namespace fcdp
